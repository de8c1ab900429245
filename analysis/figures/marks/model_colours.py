"""By what the marks of models are coloured: their family, or a column or tag of theirs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from analysis.data.run_tags import numbers_of, run_column
from analysis.data.tag_conditions import PREFIX, is_number
from analysis.figures.theme import PALETTE, QUIET, UNKNOWN, legend, lines_by, marks_by
from analysis.text import as_given, missing
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
            Rows of ``analysis.models`` or ``analysis.signatures``.
        name : str
            A column, or a tag such as ``tags.lr``.

        Raises
        ------
        UnknownName
            If there is no such column, and no run has such a tag.
        """
        column = run_column(models, name)
        return cls(name.removeprefix(PREFIX), dict(zip(models["run_id"], column, strict=True)))

    @property
    def shaded(self) -> bool:
        """Whether the values are more numbers than there are colours: each then has a shade."""
        known = [each for each in (self.values or {}).values() if not missing(each)]
        return all(map(is_number, known)) and len(set(known)) > len(PALETTE)

    def of(self, rows: pd.DataFrame) -> pd.Series[Any]:
        """Return the value of each row, by its ``run_id``; of its ``family`` by default.

        Numbers that have shades stay numbers, NaN where there is none; other values are texts.
        """
        column = rows["family"] if self.values is None else rows["run_id"].map(self.values)
        return numbers_of(column) if self.shaded else column.astype("object").map(_written)

    def marks(self, rows: pd.DataFrame, width: float) -> dict[str, Any]:
        """Return the colour and shape of marks by the column ``colour``, with one legend."""
        return self._looks(marks_by, rows, width)

    def lines(self, rows: pd.DataFrame, width: float) -> dict[str, Any]:
        """Return the colour and dash of lines by the column ``colour``, with one legend."""
        return self._looks(lines_by, rows, width)

    def _looks(
        self, looks_by: Callable[..., dict[str, Any]], rows: pd.DataFrame, width: float
    ) -> dict[str, Any]:
        if self.shaded:
            return _shades(self.title)
        return looks_by("colour", self._in_order(rows), width, self.title)

    def _in_order(self, rows: pd.DataFrame) -> Sequence[str]:
        """Return the texts of the rows: numbers by their size, others by name, ``UNKNOWN`` last."""
        sizes = {_written(each): each for each in (self.values or {}).values() if is_number(each)}

        def place(name: str) -> tuple[Any, ...]:
            return name == UNKNOWN, sizes.get(name, math.inf), natural_order(name.lower()), name

        return sorted(set(rows["colour"]), key=place)


#: Colours by family.
FAMILIES = ModelColours()


def _written(value: Any) -> str:
    return UNKNOWN if missing(value) else as_given(value)


def _shades(title: str) -> dict[str, Any]:
    """Return the colours of numbers; grey where there is none."""
    # The last yellows of the scheme cannot be seen on paper.
    scale = alt.Scale(scheme=alt.SchemeParams(name="viridis", extent=[0, 0.85]), zero=False)
    shade = alt.Color("colour:Q", scale=scale, legend=legend(title=title, gradientLength=160))
    return {"color": alt.condition("isValid(datum.colour)", shade, alt.value(QUIET))}
