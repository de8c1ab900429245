"""Read and explain what was measured: the notebook's face of a home, and studies of activations.

>>> from analysis import signatures
>>> signatures("survey-home")

>>> from analysis import comparison_scores
>>> comparison_scores(["relu", "gelu"])

Importing this package imports no torch; the first use of a study does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.figures import signature_chart
from analysis.frames import layers, models, signatures

if TYPE_CHECKING:
    from analysis.studies.batch_sizes import batch_size_chart, batch_size_scores
    from analysis.studies.comparison import comparison_chart, comparison_scores
    from analysis.studies.mlps import mlp_chart, mlp_scores, mlp_summary
    from analysis.studies.networks import spread
    from analysis.studies.polynomials import polynomial_chart, polynomial_scores
    from analysis.studies.ranges import (
        range_chart,
        range_line_chart,
        range_scores,
        range_summary,
    )
    from analysis.studies.reductions import reduction_chart, reduction_scores
    from analysis.studies.seeds import seed_chart, seed_scores
    from analysis.studies.shrinkage import shrinkage_chart, shrinkage_scores
    from analysis.studies.training import training_chart, training_scores

__all__ = [
    "batch_size_chart",
    "batch_size_scores",
    "comparison_chart",
    "comparison_scores",
    "layers",
    "mlp_chart",
    "mlp_scores",
    "mlp_summary",
    "models",
    "polynomial_chart",
    "polynomial_scores",
    "range_chart",
    "range_line_chart",
    "range_scores",
    "range_summary",
    "reduction_chart",
    "reduction_scores",
    "seed_chart",
    "seed_scores",
    "shrinkage_chart",
    "shrinkage_scores",
    "signature_chart",
    "signatures",
    "spread",
    "training_chart",
    "training_scores",
]

_STUDIES = {
    "batch_sizes": ("batch_size_chart", "batch_size_scores"),
    "comparison": ("comparison_chart", "comparison_scores"),
    "mlps": ("mlp_chart", "mlp_scores", "mlp_summary"),
    "networks": ("spread",),
    "polynomials": ("polynomial_chart", "polynomial_scores"),
    "ranges": ("range_chart", "range_line_chart", "range_scores", "range_summary"),
    "reductions": ("reduction_chart", "reduction_scores"),
    "seeds": ("seed_chart", "seed_scores"),
    "shrinkage": ("shrinkage_chart", "shrinkage_scores"),
    "training": ("training_chart", "training_scores"),
}
_LAZY = {name: module for module, names in _STUDIES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"analysis.studies.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
