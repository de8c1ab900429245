"""Read and explain what was measured: the notebook's face of a home, and studies of activations.

>>> from analysis import clusters, correlations, signatures
>>> measured = signatures("survey-home")
>>> clusters(measured)
>>> correlations(measured)

>>> from analysis import comparison_scores
>>> comparison_scores(["relu", "gelu"])

Importing this package imports neither pandas nor torch; the first use of a name does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from survey.lazy import lazy_names

if TYPE_CHECKING:
    from analysis import figures
    from analysis.contrasts.checkpoints import robustness
    from analysis.contrasts.datasets import dataset_deviations
    from analysis.contrasts.residual_networks import residual_contrast
    from analysis.contrasts.training_shift import training_shift
    from analysis.data.frames import layers, models, signatures
    from analysis.data.measured_rows import score_frame, signature_frame
    from analysis.data.network_measures import measure_scores, network_measures
    from analysis.data.provenance import Provenance, provenance_of
    from analysis.data.selection import Selection
    from analysis.data.sql import query
    from analysis.figures import signature_chart
    from analysis.paper.compare import compare_paper
    from analysis.relations.accuracy_regressions import regressions
    from analysis.relations.metric_correlations import correlations
    from analysis.relations.network_measures import measure_correlations
    from analysis.relations.timeline import timeline
    from analysis.relations.trend import trends
    from analysis.similarity.clusters import cluster, clusters
    from analysis.similarity.distances import distance_matrix, distances
    from analysis.similarity.family_predictions import family_predictions
    from analysis.similarity.kmeans import kmeans
    from analysis.similarity.novelty import novelty
    from analysis.studies.batches import batch_size_chart, batch_size_scores
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
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
