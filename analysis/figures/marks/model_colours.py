"""By what the marks of models are coloured: their family, or a column or tag of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.data.run_tags import run_column
from analysis.data.tag_conditions import PREFIX
from analysis.figures.theme import UNKNOWN, marks_by
from analysis.text import missing
from catalog.checkpoint_files import natural_order


@dataclass(frozen=True, slots=True)
class ModelColours:
    """What the colours of models stand for; their families by default."""

    #: The title of the legend.
    title: str = "family"
    #: The values by run id; None for the column ``family`` of what is drawn.
    values: Mapping[str, Any] | None = None

    @classmethod
    def by(cls, models: pd.DataFrame, name: str) -> ModelColours:
        """Return the colours that a column or tag of runs gives.

        Parameters
        ----------
        models : pandas.DataFrame
            Rows of ``analysis.models``.
        name : str
            A column, or a tag such as ``tags.lr``.

        Raises
        ------
        UnknownName
            If there is no such column, and no run has such a tag.
        """
        column = run_column(models, name)
        return cls(name.removeprefix(PREFIX), dict(zip(models["run_id"], column, strict=True)))

    def of(self, rows: pd.DataFrame) -> pd.Series[Any]:
        """Return the value of each row, by its ``run_id``; of its ``family`` by default."""
        column = rows["family"] if self.values is None else rows["run_id"].map(self.values)
        return column.astype("object").map(_written)

    def marks(self, rows: pd.DataFrame, width: float) -> dict[str, Any]:
        """Return the colour and shape of marks by the column ``colour``, with one legend."""
        return marks_by("colour", sorted(set(rows["colour"]), key=_place), width, self.title)


def _place(name: str) -> tuple[bool, list[str | int]]:
    return name == UNKNOWN, natural_order(name.lower())


#: Colours by family.
FAMILIES = ModelColours()


def _written(value: Any) -> str:
    return UNKNOWN if missing(value) else f"{value:g}" if isinstance(value, float) else str(value)
