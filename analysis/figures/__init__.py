"""Figures: what to draw as tidy data (``..._rows``), then the drawing (``..._chart``).

Altair draws; vl-convert turns the drawing into SVG, PNG or an offline page without a browser or
network. Importing this package loads neither: the first use of a figure does.

>>> from analysis import figures, signatures
>>> figures.save(figures.signature_chart(signatures("survey-home")), "signatures.html")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.figures.barycentres import barycentre_chart, barycentre_rows
    from analysis.figures.correlation import correlation_chart, correlation_rows
    from analysis.figures.datasets import dataset_chart, dataset_rows
    from analysis.figures.dendrogram import dendrogram_chart, dendrogram_rows
    from analysis.figures.distributions import (
        density_rows,
        distribution_chart,
        distribution_rows,
    )
    from analysis.figures.drift import drift_chart, drift_rows
    from analysis.figures.export import require_drawable, save, svg
    from analysis.figures.matrix import matrix_chart, matrix_rows, representatives
    from analysis.figures.neighbours import (
        neighbour_chart,
        neighbour_rows,
        novelty_chart,
        novelty_rows,
    )
    from analysis.figures.paper import paper_chart, paper_rows
    from analysis.figures.predictions import prediction_chart, prediction_rows
    from analysis.figures.regression import regression_chart, regression_rows
    from analysis.figures.residual import residual_chart, residual_rows
    from analysis.figures.robustness import robustness_chart, robustness_rows
    from analysis.figures.signatures import (
        depth_chart,
        model_chart,
        model_rows,
        save_signatures,
        signature_chart,
        signature_lines,
    )
    from analysis.figures.theme import Figure
    from analysis.figures.timeline import timeline_chart, timeline_rows
    from analysis.figures.training import training_chart, training_rows

__all__ = [
    "Figure",
    "barycentre_chart",
    "barycentre_rows",
    "correlation_chart",
    "correlation_rows",
    "dataset_chart",
    "dataset_rows",
    "dendrogram_chart",
    "dendrogram_rows",
    "density_rows",
    "depth_chart",
    "distribution_chart",
    "distribution_rows",
    "drift_chart",
    "drift_rows",
    "matrix_chart",
    "matrix_rows",
    "model_chart",
    "model_rows",
    "neighbour_chart",
    "neighbour_rows",
    "novelty_chart",
    "novelty_rows",
    "paper_chart",
    "paper_rows",
    "prediction_chart",
    "prediction_rows",
    "regression_chart",
    "regression_rows",
    "representatives",
    "require_drawable",
    "residual_chart",
    "residual_rows",
    "robustness_chart",
    "robustness_rows",
    "save",
    "save_signatures",
    "signature_chart",
    "signature_lines",
    "svg",
    "timeline_chart",
    "timeline_rows",
    "training_chart",
    "training_rows",
]

_FIGURES = {
    "barycentres": (
        "barycentre_chart",
        "barycentre_rows",
    ),
    "correlation": (
        "correlation_chart",
        "correlation_rows",
    ),
    "datasets": (
        "dataset_chart",
        "dataset_rows",
    ),
    "dendrogram": (
        "dendrogram_chart",
        "dendrogram_rows",
    ),
    "distributions": (
        "density_rows",
        "distribution_chart",
        "distribution_rows",
    ),
    "drift": (
        "drift_chart",
        "drift_rows",
    ),
    "matrix": (
        "matrix_chart",
        "matrix_rows",
        "representatives",
    ),
    "neighbours": (
        "neighbour_chart",
        "neighbour_rows",
        "novelty_chart",
        "novelty_rows",
    ),
    "paper": (
        "paper_chart",
        "paper_rows",
    ),
    "predictions": (
        "prediction_chart",
        "prediction_rows",
    ),
    "regression": (
        "regression_chart",
        "regression_rows",
    ),
    "residual": (
        "residual_chart",
        "residual_rows",
    ),
    "robustness": (
        "robustness_chart",
        "robustness_rows",
    ),
    "export": (
        "require_drawable",
        "save",
        "svg",
    ),
    "signatures": (
        "depth_chart",
        "model_chart",
        "model_rows",
        "save_signatures",
        "signature_chart",
        "signature_lines",
    ),
    "theme": ("Figure",),
    "timeline": (
        "timeline_chart",
        "timeline_rows",
    ),
    "training": (
        "training_chart",
        "training_rows",
    ),
}
_LAZY = {name: module for module, names in _FIGURES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib

        return getattr(importlib.import_module(f"analysis.figures.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'analysis.figures' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
