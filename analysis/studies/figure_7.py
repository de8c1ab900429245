"""Values that the paper prints, for comparison with ours.

References
----------
Bouniot et al. 2025, arXiv:2310.11439, Figure 7. n and d are stated for none of them.
"""

from __future__ import annotations

import altair as alt
import pandas as pd

#: By activation: the score under averaging, flattening and summing, and the deviation printed
#: beside it; without shrinkage where d > n; with shrinkage.
FIGURE_7 = pd.DataFrame.from_dict(
    {
        "gelu": (0.61, 0.003, 0.78, 0.61),
        "hardswish": (0.70, 0.002, 0.83, 0.70),
        "hardtanh": (0.78, 0.002, 0.88, 0.78),
        "leaky_relu": (0.63, 0.003, 0.79, 0.63),
        "relu": (0.62, 0.004, 0.78, 0.62),
        "relu6": (0.62, 0.002, 0.78, 0.62),
        "sigmoid": (0.91, 0.001, 0.95, 0.91),
        "silu": (0.68, 0.002, 0.82, 0.67),
        "tanh": (0.81, 0.001, 0.90, 0.81),
    },
    orient="index",
    columns=["pooled", "pooled_deviation", "unshrunk", "shrunk"],
)

#: The vertical axis of its reproductions.
FIGURE_7_SCORE = alt.Y("affinity:Q", title="affinity score", scale=alt.Scale(domain=[0.5, 1]))
