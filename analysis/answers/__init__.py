"""Answers to the questions about what was measured, each declared once.

The command line's verbs, the report's pages and what a service shows are made from ``ANSWERS``.
"""

from __future__ import annotations

from analysis.answers.base import Answer
from analysis.answers.clusters import Clusters, Distances, MeanCurves, Stability
from analysis.answers.contrasts import Checkpoints, Datasets, Residual, Training, Twins
from analysis.answers.drift import DriftAnswer
from analysis.answers.neighbours import Families, Neighbours, Novelty
from analysis.answers.paper_comparison import Paper, PaperCorrelations, PaperRegressions
from analysis.answers.relations import Correlations, Depth, Distributions, Regressions, Timeline

__all__ = ["ANSWERS", "Answer"]

#: Every answer, in the order in which a report shows them; the first of a verb is the one that is
#: given where no flag chooses another.
ANSWERS: tuple[type[Answer], ...] = (
    *(Clusters, Stability, MeanCurves, Distances, Neighbours, Families, Novelty),
    *(Correlations, PaperCorrelations, Regressions, PaperRegressions),
    *(Timeline, Distributions, Depth, Residual, Twins, Datasets, Checkpoints, Training, Paper),
    DriftAnswer,
)
