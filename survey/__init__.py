"""Measure the non-linearity signature of one model.

>>> from survey import MeasureSettings, affinity_score, measure

Importing this package imports no torch; the first use of a measuring function does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from survey.lazy import lazy_names

if TYPE_CHECKING:
    from survey.errors import (
        CapacityError,
        CaptureError,
        CatalogError,
        CheckpointError,
        ClusterError,
        DatasetError,
        DownloadError,
        InputError,
        NotPiecewiseLinear,
        SettingsError,
        StoreError,
        SurveyError,
        UndefinedScore,
        UnknownName,
        UnreachableError,
    )
    from survey.linearising.labelled_images import LabelledImages
    from survey.linearising.results import Linearised
    from survey.linearising.settings import LinearisationSettings
    from survey.linearising.training import linearise
    from survey.measuring import measure, measure_batches
    from survey.metrics.affinity import affinity_score
    from survey.network_measures.base import NetworkScore
    from survey.network_measuring import measure_network
    from survey.regions.crossings import Crossings, linear_regions
    from survey.regions.hamming import HammingDensity, hamming_density
    from survey.results import BatchScores, SiteScore
    from survey.settings import MEASURING_VERSION, MeasureSettings
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

__version__ = "0.1.0"
