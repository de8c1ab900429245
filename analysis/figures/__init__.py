"""Figures: for each the tidy data to draw (``..._rows``) and the drawing (``..._chart``).

Altair draws; vl-convert turns the drawing into SVG, PNG or an offline page without a browser or
network. Importing this package loads neither: the first use of a figure does.

>>> from analysis import figures, signatures
>>> figures.save(figures.signature_chart(signatures("survey-home")), "signatures.html")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from survey.lazy import lazy_names

if TYPE_CHECKING:
    from analysis.figures.accuracy_regressions import regression_chart, regression_rows
    from analysis.figures.barycentres import barycentre_chart, barycentre_rows
    from analysis.figures.datasets import dataset_chart, dataset_rows
    from analysis.figures.dendrogram import dendrogram_chart, dendrogram_rows
    from analysis.figures.distributions import (
        density_rows,
        distribution_chart,
        distribution_rows,
    )
    from analysis.figures.drift_between_runs import drift_chart, drift_rows
    from analysis.figures.export import require_drawable, save, svg
    from analysis.figures.figure import Figure
    from analysis.figures.marks.model_colours import ModelColours
    from analysis.figures.matrix import matrix_chart, matrix_rows, representatives
    from analysis.figures.metric_correlations import correlation_chart, correlation_rows
    from analysis.figures.neighbours import (
        neighbour_chart,
        neighbour_rows,
        novelty_chart,
        novelty_rows,
    )
    from analysis.figures.network_measures import measure_chart, measure_rows
    from analysis.figures.overlay import (
        alignment_chart,
        alignment_rows,
        overlay_chart,
        overlay_rows,
    )
    from analysis.figures.paper_comparison import paper_chart, paper_rows
    from analysis.figures.predictions import prediction_chart, prediction_rows
    from analysis.figures.residual_networks import residual_chart, residual_rows
    from analysis.figures.robustness import robustness_chart, robustness_rows
    from analysis.figures.signatures import (
        depth_chart,
        model_chart,
        model_rows,
        signature_chart,
        signature_lines,
    )
    from analysis.figures.timeline import timeline_chart, timeline_rows
    from analysis.figures.training_shift import training_chart, training_rows
    from analysis.figures.trend import trend_chart, trend_rows
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
