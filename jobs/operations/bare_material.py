"""What pages for others are made from: runs without the folders that files lie in."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from analysis.report.data import ReportMaterial
from jobs.operations.server_paths import without_folders

#: Columns of ``runs`` in which paths of the server may stand.
NAMING_FILES = ("checkpoint", "dataset", "error", "suspicion", "transform", "settings")


class BareMaterial(ReportMaterial):
    """The frames of a report that leaves this machine."""

    @cached_property
    def models(self) -> Any:
        """One row a run, without the folders that files lie in."""
        return bare(super().models)


def bare(models: Any) -> Any:
    """Return rows of ``runs`` without the folders that files lie in."""
    named = {name: models[name] for name in NAMING_FILES if name in models}
    # Thousands of runs have few datasets and settings.
    texts = {
        name: each.map({text: without_folders(text) for text in each.unique()})
        for name, each in named.items()
    }
    return models.assign(**texts)
