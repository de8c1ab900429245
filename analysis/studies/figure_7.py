"""Values that the paper prints, for comparison with ours.

References
----------
Bouniot et al. 2025, arXiv:2310.11439, Figure 7. n and d are stated for none of them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedScores:
    """What Figure 7 prints of one activation."""

    #: Score under averaging, flattening and summing.
    pooled: float
    #: The deviation printed beside it.
    pooled_deviation: float
    #: Score without shrinkage where d > n.
    unshrunk: float
    #: Score with shrinkage.
    shrunk: float


FIGURE_7 = {
    "gelu": PublishedScores(0.61, 0.003, 0.78, 0.61),
    "hardswish": PublishedScores(0.70, 0.002, 0.83, 0.70),
    "hardtanh": PublishedScores(0.78, 0.002, 0.88, 0.78),
    "leaky_relu": PublishedScores(0.63, 0.003, 0.79, 0.63),
    "relu": PublishedScores(0.62, 0.004, 0.78, 0.62),
    "relu6": PublishedScores(0.62, 0.002, 0.78, 0.62),
    "sigmoid": PublishedScores(0.91, 0.001, 0.95, 0.91),
    "silu": PublishedScores(0.68, 0.002, 0.82, 0.67),
    "tanh": PublishedScores(0.81, 0.001, 0.90, 0.81),
}
