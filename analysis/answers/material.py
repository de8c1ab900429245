"""The data frames of a home that answers are computed from, each read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.choices import NORMALISATION, PAPER_METRICS, Normalisation, Role
from survey.errors import SettingsError

if TYPE_CHECKING:
    import pandas as pd

    from analysis.data.selection import Selection
    from analysis.figures.marks.model_colours import ModelColours
    from analysis.similarity.distances import DistanceMatrix

#: Takes a noun for the items and the items, and returns these one by one; may show progress.
Watch = Callable[[str, Sequence[Any]], Iterable[Any]]


def unwatched(_what: str, items: Sequence[Any]) -> Iterable[Any]:
    """Return the items without showing progress."""
    return items


class Material:
    """The frames of some runs of a home.

    Parameters
    ----------
    home : str or pathlib.Path
        The home that holds them.
    selection : Selection, optional
        Which runs; by default the newest of everything.
    role : {"all", "main", "gate"}
        Which sites.
    watch : callable, optional
        Shows the progress of what takes long.
    keep_flagged : bool
        See ``analysis.signatures``.
    color_by : str, optional
        The tag or column of models that colours figures where an answer names none; by default
        models are coloured by their family.
    """

    def __init__(
        self,
        home: str | Path,
        selection: Selection | None = None,
        role: Role = "all",
        watch: Watch = unwatched,
        *,
        keep_flagged: bool = False,
        color_by: str | None = None,
    ) -> None:
        from analysis.data.selection import Selection

        self.home = home
        self.selection = selection or Selection()
        self.role: Role = role
        self.watch = watch
        self._keep_flagged = keep_flagged
        self._color_by = color_by
        self._matrices: dict[tuple[str, int | None], DistanceMatrix] = {}
        #: Answers with their default options, by class.
        self.answers: dict[type, Any] = {}

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row a run, those that failed and those without a score included."""
        from analysis.data.frames import models

        return models(self.home, self.selection)

    @cached_property
    def signatures(self) -> pd.DataFrame:
        """One row a finished run and site; it carries the provenance of all its runs."""
        from analysis.data.frames import signatures
        from analysis.data.provenance import carried

        kept = self._keep_flagged
        frame = signatures(self.home, self.selection, role=self.role, keep_flagged=kept)
        return carried(frame, frame)

    def of_ridge(self, ridge: str) -> Material:
        """Return the material of runs of a ridge, every score kept; this one if another is asked.

        Raises
        ------
        SettingsError
            If no selected run is of it.
        """
        if self.selection.ridges:
            return self
        # Selecting another ridge than there is would only be refused as a mistyped one.
        if ridge not in set(self._every.models["ridge"]):
            raise SettingsError(
                f"no selected run was measured with the {ridge} ridge",
                hint=f"survey run --ridge {ridge} measures with it; --ridge '*' takes any",
            )
        selection = replace(self.selection, ridges=ridge)
        return Material(self.home, selection, self.role, self.watch, keep_flagged=True)

    @cached_property
    def with_untrained(self) -> Material:
        """The material of the same runs and those of random weights; this one where it has them."""
        if self.selection.takes_untrained:
            return self
        selection, kept = replace(self.selection, untrained=True), self._keep_flagged
        return Material(self.home, selection, self.role, self.watch, keep_flagged=kept)

    @property
    def _every(self) -> Material:
        """The material of all runs of every ridge."""
        return Material(self.home, replace(self.selection, ridges="*", newest=False))

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row a run, batch and site, with the metrics that the paper prints numbers of."""
        from analysis.data.frames import layers

        return layers(self.home, self.selection, columns=("affinity", *PAPER_METRICS))

    def colours(self, name: str | None = None) -> ModelColours:
        """Return what the colours of models stand for: a tag or column, or their families.

        Raises
        ------
        UnknownName
            If there is no such column, and no selected run has such a tag.
        """
        from analysis.figures.marks.model_colours import FAMILIES, ModelColours

        name = name or self._color_by
        return FAMILIES if name is None else ModelColours.by(self.models, name)

    @property
    def done(self) -> pd.DataFrame:
        """The runs that finished."""
        return self.models[self.models["status"] == "done"].reset_index(drop=True)

    @cached_property
    def scored(self) -> list[str]:
        """The ids of runs with at least one affinity score."""
        rows = self.signatures[self.signatures["affinity"].notna()]
        return list(dict.fromkeys(rows["run_id"]))

    def matrix(
        self, normalisation: Normalisation = NORMALISATION, band: int | None = None
    ) -> DistanceMatrix:
        """Return the distances between the signatures; see ``analysis.similarity.distances``."""
        from analysis.similarity.distances import distance_matrix

        key = normalisation, band
        if key not in self._matrices:
            self._matrices[key] = distance_matrix(self.signatures, normalisation, band)
        return self._matrices[key]
