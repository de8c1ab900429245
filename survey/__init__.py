"""Measure the non-linearity signature of one model.

>>> from survey import MeasureSettings, affinity_score, measure

Importing this package imports no torch; the first use of a measuring function does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from survey.errors import (
    CaptureError,
    CatalogError,
    CheckpointError,
    ClusterError,
    DatasetError,
    DownloadError,
    InputError,
    SettingsError,
    StoreError,
    SurveyError,
    UndefinedScore,
    UnknownName,
    UnreachableError,
)
from survey.results import BatchScores, SiteScore
from survey.settings import MEASURING_VERSION, MeasureSettings

if TYPE_CHECKING:
    from survey.measuring import measure, measure_batches
    from survey.metrics.affinity import affinity_score

__version__ = "0.1.0"

__all__ = [
    "MEASURING_VERSION",
    "BatchScores",
    "CaptureError",
    "CatalogError",
    "CheckpointError",
    "ClusterError",
    "DatasetError",
    "DownloadError",
    "InputError",
    "MeasureSettings",
    "SettingsError",
    "SiteScore",
    "StoreError",
    "SurveyError",
    "UndefinedScore",
    "UnknownName",
    "UnreachableError",
    "affinity_score",
    "measure",
    "measure_batches",
]

_LAZY = {
    "affinity_score": "survey.metrics.affinity",
    "measure": "survey.measuring",
    "measure_batches": "survey.measuring",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'survey' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
