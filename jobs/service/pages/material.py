"""What pages are computed from: the frames of a home, or of a few of its runs."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.data.few_runs import RunRows
from jobs.operations.bare_material import BareMaterial, bare


class ServiceMaterial(BareMaterial):
    """The frames of pages; every model's page has its run's id for an address."""

    most_rows = 100

    @cached_property
    def pages(self) -> dict[str, str]:
        """The address of each run's page, by run id."""
        return {run: f"models/{run}.html" for run in self.models["run_id"].tolist()}


class RunMaterial(ServiceMaterial):
    """The frames of pages about a few runs, which hold nothing of the others."""

    def __init__(self, home: Path, rows: RunRows) -> None:
        super().__init__(home)
        self._rows = rows

    @cached_property
    def models(self) -> Any:
        """One row a run, without the folders that files lie in."""
        return bare(self._rows.models)

    @property
    def every_signature(self) -> Any:
        """One row a run and site."""
        return self._rows.signatures

    signatures = every_signature

    @property
    def gaps(self) -> Any:
        """Sites without a score, with the reasons."""
        return self._rows.gaps
