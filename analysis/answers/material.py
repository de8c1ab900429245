"""What answers are made from: the frames of a home, read once and shared by all questions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from analysis.choices import NORMALISATION, Normalisation, Role

if TYPE_CHECKING:
    import pandas as pd

    from analysis.data.selection import Selection
    from analysis.similarity.distances import DistanceMatrix

_Item = TypeVar("_Item")

#: Given what is worked through and its items, returns them one by one and may show progress.
Watch = Callable[[str, Sequence[Any]], Iterable[Any]]


def unwatched(_what: str, items: Sequence[_Item]) -> Iterable[_Item]:
    """Return the items: the watch that shows nothing."""
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
        """One row a finished run and site; results say that they are made from all of it."""
        from analysis.data.frames import signatures
        from analysis.data.provenance import carried

        frame = signatures(self.home, self.selection, role=self.role)
        return carried(frame, frame)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row a run, batch and site, with the metrics that the paper prints numbers of."""
        from analysis.contrasts.checkpoints import CRITERIA
        from analysis.data.frames import layers

        return layers(self.home, self.selection, columns=CRITERIA)

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
