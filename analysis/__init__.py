"""Read and explain what was measured: the notebook's face of a home, and studies of activations.

>>> from analysis import clusters, correlations, signatures
>>> measured = signatures("survey-home")
>>> clusters(measured, normalisation="relative")
>>> correlations(measured)

>>> from analysis import comparison_scores
>>> comparison_scores(["relu", "gelu"])

Importing this package imports neither torch nor what draws and clusters; the first use does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.data.frames import layers, models, signatures
from analysis.data.provenance import Provenance, provenance_of
from analysis.data.selection import Selection

if TYPE_CHECKING:
    from analysis import figures
    from analysis.contrasts.checkpoints import robustness
    from analysis.contrasts.datasets import dataset_deviations
    from analysis.contrasts.residual import residual_contrast
    from analysis.contrasts.training import training_shift
    from analysis.figures import signature_chart
    from analysis.paper.compare import compare_paper
    from analysis.relations.correlation import correlations
    from analysis.relations.regression import regressions
    from analysis.relations.timeline import timeline
    from analysis.similarity.clusters import cluster, clusters, kmeans
    from analysis.similarity.distances import distance_matrix, distances
    from analysis.similarity.neighbours import family_predictions, novelty
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
    "Provenance",
    "Selection",
    "batch_size_chart",
    "batch_size_scores",
    "cluster",
    "clusters",
    "compare_paper",
    "comparison_chart",
    "comparison_scores",
    "correlations",
    "dataset_deviations",
    "distance_matrix",
    "distances",
    "family_predictions",
    "figures",
    "kmeans",
    "layers",
    "mlp_chart",
    "mlp_scores",
    "mlp_summary",
    "models",
    "novelty",
    "polynomial_chart",
    "polynomial_scores",
    "provenance_of",
    "range_chart",
    "range_line_chart",
    "range_scores",
    "range_summary",
    "reduction_chart",
    "reduction_scores",
    "regressions",
    "residual_contrast",
    "robustness",
    "seed_chart",
    "seed_scores",
    "shrinkage_chart",
    "shrinkage_scores",
    "signature_chart",
    "signatures",
    "spread",
    "timeline",
    "training_chart",
    "training_scores",
    "training_shift",
]

#: What is imported on first use, by the module that has it.
_FOUND_IN = {
    "similarity.clusters": ("cluster", "clusters", "kmeans"),
    "contrasts.checkpoints": ("robustness",),
    "contrasts.datasets": ("dataset_deviations",),
    "contrasts.residual": ("residual_contrast",),
    "contrasts.training": ("training_shift",),
    "relations.correlation": ("correlations",),
    "figures": ("signature_chart",),
    "relations.timeline": ("timeline",),
    "similarity.neighbours": ("family_predictions", "novelty"),
    "similarity.distances": ("distance_matrix", "distances"),
    "paper.compare": ("compare_paper",),
    "relations.regression": ("regressions",),
    "studies.batch_sizes": ("batch_size_chart", "batch_size_scores"),
    "studies.comparison": ("comparison_chart", "comparison_scores"),
    "studies.mlps": ("mlp_chart", "mlp_scores", "mlp_summary"),
    "studies.networks": ("spread",),
    "studies.polynomials": ("polynomial_chart", "polynomial_scores"),
    "studies.ranges": ("range_chart", "range_line_chart", "range_scores", "range_summary"),
    "studies.reductions": ("reduction_chart", "reduction_scores"),
    "studies.seeds": ("seed_chart", "seed_scores"),
    "studies.shrinkage": ("shrinkage_chart", "shrinkage_scores"),
    "studies.training": ("training_chart", "training_scores"),
}
_LAZY = {name: module for module, names in _FOUND_IN.items() for name in names}


def __getattr__(name: str) -> Any:
    import importlib

    if name == "figures":
        return importlib.import_module("analysis.figures")
    if name in _LAZY:
        return getattr(importlib.import_module(f"analysis.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
