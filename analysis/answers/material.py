"""The data frames of a home that answers are computed from, each read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.choices import NORMALISATION, PAPER_METRICS, Normalisation, Role
from survey.errors import SettingsError, UnknownName

if TYPE_CHECKING:
    import pandas as pd

    from analysis.data.provenance import Provenance
    from analysis.data.selected_runs import SelectedRuns
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
    copied : bool
        Whether to read the copy of the home; see ``analysis.data.selected_runs.SelectedRuns``.
    for_one : bool
        Whether it is for one answer, whose columns are asked for first: only they are read then.
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
        copied: bool = False,
        for_one: bool = False,
    ) -> None:
        from analysis.data.selection import Selection

        self.home = home
        self.selection = selection or Selection()
        self.role: Role = role
        self.watch = watch
        self._keep_flagged = keep_flagged
        self._color_by = color_by
        self._copied = copied
        self._for_one = for_one
        self._narrow: pd.DataFrame | None = None
        self._matrices: dict[tuple[str, int | None], DistanceMatrix] = {}
        #: Answers with their default options, by class.
        self.answers: dict[type, Any] = {}

    @cached_property
    def selected(self) -> SelectedRuns:
        """The runs, of which frames are read."""
        from analysis.data.selected_runs import SelectedRuns

        return SelectedRuns(self.home, self.selection, copied=self._copied)

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row a run, those that failed and those without a score included."""
        return self.selected.models()

    @cached_property
    def signatures(self) -> pd.DataFrame:
        """One row a finished run and site; it carries the provenance of all its runs."""
        return self._sites(None)

    def sites(self, columns: Iterable[str]) -> pd.DataFrame:
        """Return the signatures with these columns, and perhaps others.

        Of the copy of a home, and for one answer, only columns that were asked for are read: all of
        thousands of runs take a gigabyte. Of a store that is written to they are read at once.
        """
        from analysis.data.provenance import COUNTED

        if not (self._copied or self._for_one):
            return self.signatures
        wanted = dict.fromkeys((*COUNTED, *columns))
        try:
            if self._narrow is None:
                self._narrow = self._sites(tuple(wanted))
            elif lacking := [each for each in wanted if each not in self._narrow]:
                if not self._copied:
                    return self.signatures
                more = self._sites(lacking)
                for name in lacking:
                    self._narrow[name] = more[name].array
        except UnknownName:
            # Whoever asked for what there is not says which there are.
            return self.signatures
        return self._narrow

    @cached_property
    def made_from(self) -> Provenance:
        """The provenance of the signatures."""
        from analysis.data.provenance import provenance_of

        return provenance_of(self.sites(("run_id",)))

    def _sites(self, columns: Sequence[str] | None) -> pd.DataFrame:
        from analysis.data.counts import counts_of

        keep = self._keep_flagged
        frame = self.selected.signatures(self.role, keep_flagged=keep, columns=columns)
        frame.attrs |= counts_of(frame) | {"rows": len(frame)}
        return frame

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
                hint=f"a survey of ridge {ridge} measures with it; --ridge '*' takes any",
            )
        return self._of(replace(self.selection, ridges=ridge), keep_flagged=True)

    @cached_property
    def with_untrained(self) -> Material:
        """The material of the same runs and those of random weights; this one where it has them."""
        if self.selection.takes_untrained:
            return self
        return self._of(replace(self.selection, untrained=True), keep_flagged=self._keep_flagged)

    @property
    def _every(self) -> Material:
        """The material of all runs of every ridge."""
        return self._of(replace(self.selection, ridges="*", newest=False), keep_flagged=False)

    def _of(self, selection: Selection, *, keep_flagged: bool) -> Material:
        given = self.home, selection, self.role, self.watch
        copied, for_one = self._copied, self._for_one
        return Material(*given, keep_flagged=keep_flagged, copied=copied, for_one=for_one)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row a run, batch and site, with the metrics that the paper prints numbers of."""
        return self.selected.layers(("affinity", *PAPER_METRICS))

    @cached_property
    def measures(self) -> pd.DataFrame:
        """One row a run and measure of its whole network, with a value or a reason."""
        return self.selected.measures()

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

    @cached_property
    def done(self) -> pd.DataFrame:
        """The runs that finished."""
        return self.models[self.models["status"] == "done"].reset_index(drop=True)

    @cached_property
    def scored(self) -> list[str]:
        """The ids of runs with at least one affinity score."""
        sites = self.sites(("run_id", "affinity"))
        return sites["run_id"][sites["affinity"].notna()].unique().tolist()

    def matrix(
        self, normalisation: Normalisation = NORMALISATION, band: int | None = None
    ) -> DistanceMatrix:
        """Return the distances between the signatures; see ``analysis.similarity.distances``."""
        from analysis.similarity.distances import READ, distance_matrix

        key = normalisation, band
        if key not in self._matrices:
            self._matrices[key] = distance_matrix(self.sites(READ), normalisation, band)
        return self._matrices[key]
