"""Contrasts: every comparison of signatures that the paper makes beside clusters and regressions.

Owns nothing but the list: each comparison is a module of its own.
"""

from __future__ import annotations

from analysis.checkpoints import robustness
from analysis.datasets import dataset_deviations, dataset_summary
from analysis.residual import post_shortcut, residual_contrast, twins
from analysis.training import training_shift

__all__ = [
    "dataset_deviations",
    "dataset_summary",
    "post_shortcut",
    "residual_contrast",
    "robustness",
    "training_shift",
    "twins",
]
