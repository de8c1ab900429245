"""Answers to the questions about what was measured, each declared once.

The command line's verbs and the report's pages are made from ``ANSWERS``.
"""

from __future__ import annotations

from analysis.answers import clusters, contrasts, neighbours, paper_comparison, relations, trend
from analysis.answers.base import Answer
from analysis.answers.drift import SignatureDrift
from analysis.answers.network_measures import NetworkMeasures

__all__ = ["ANSWERS", "Answer"]

#: Every answer, in the order in which a report shows them; the first of a verb is the one that is
#: given where no flag chooses another.
ANSWERS: tuple[type[Answer], ...] = (
    *(clusters.SignatureClusters, clusters.ClusterStability, clusters.KMeansClusters),
    *(clusters.SignatureDistances, neighbours.NearestNeighbours, neighbours.FamilyPredictions),
    *(neighbours.FamilyNovelty, relations.MetricCorrelations, paper_comparison.PaperCorrelations),
    *(relations.AccuracyRegressions, paper_comparison.PaperRegressions, NetworkMeasures),
    *(trend.AffinityTimeline, trend.AffinityTrends),
    *(relations.AffinityDistributions, trend.AffinityByDepth),
    *(contrasts.ShortcutContrast, contrasts.PlainTwins, contrasts.DatasetDeviations),
    *(contrasts.CheckpointRobustness, contrasts.TrainingShift, paper_comparison.PaperNumbers),
    SignatureDrift,
)
