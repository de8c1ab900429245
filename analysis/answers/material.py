"""The data frames of a home that answers are computed from, each read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.choices import NORMALISATION, PAPER_METRICS, Normalisation, Role

if TYPE_CHECKING:
    import pandas as pd

    from analysis.data.selection import Selection
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
    """

    def __init__(
        self,
        home: str | Path,
        selection: Selection | None = None,
        role: Role = "all",
        watch: Watch = unwatched,
    ) -> None:
        from analysis.data.selection import Selection

        self.home = home
        self.selection = selection or Selection()
        self.role: Role = role
        self.watch = watch
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

        frame = signatures(self.home, self.selection, role=self.role)
        return carried(frame, frame)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row a run, batch and site, with the metrics that the paper prints numbers of."""
        from analysis.data.frames import layers

        return layers(self.home, self.selection, columns=("affinity", *PAPER_METRICS))

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
