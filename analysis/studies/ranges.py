"""Study of activations against the range of their input (Figures 2A and 6)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import torch

from analysis.data.validation import require_columns
from analysis.figures.theme import AFFINITY, styled
from analysis.studies.elementwise import PAPER_ACTIVATIONS, elementwise
from analysis.studies.seeded_inputs import (
    LOG,
    activation_functions,
    normal,
    require_finite,
    require_positive,
    require_whole,
    score_each,
    seeded,
    uniform,
)
from survey.settings import Ridge

#: Means of the paper's samples.
MEANS = tuple(float(mean) for mean in np.linspace(-20, 20, 20))

#: Standard deviations of the paper's samples.
DEVIATIONS = (2.0, 1.0, 0.5, 0.25, 0.1, 0.01)

#: The columns that the figures show.
_DRAWN = ("activation", "mean", "deviation", "sample", "affinity")


def range_scores(
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    means: Sequence[float] = MEANS,
    deviations: Sequence[float] = DEVIATIONS,
    *,
    n: int = 1000,
    d: int = 300,
    seed: int = 0,
    ridge: Ridge = "relative",
) -> pd.DataFrame:
    """Score activations on normal samples with a sliding mean.

    Parameters
    ----------
    activations : sequence of str
        Names in ``torch.nn.functional``.
    means, deviations : sequence of float
        Every pair of them is one sample of independent normal numbers, which all activations see.
    n, d : int
        Points of a sample, and their dimension.
    seed : int
        Of the samples.
    ridge : {"relative", "absolute"}
        ``absolute`` is the published ridge of 1e-6; it decides the score where an activation
        saturates.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``sample`` (``normal``, or ``baseline`` for one sample that is uniform on
        the whole interval of the means), ``mean``, ``deviation`` (NaN for the baseline),
        ``affinity`` in [0, 1] or NaN, ``reason`` where it is NaN.

    Raises
    ------
    UnknownName
        If torch has no such activation.
    SettingsError
        If a parameter cannot be used.

    References
    ----------
    Bouniot et al. 2025, arXiv:2310.11439, Appendix D.
    """
    require_whole(2, n=n)
    require_whole(1, d=d)
    require_positive(deviations=deviations)
    require_finite(means=means)
    functions = activation_functions(activations)
    generator = seeded(seed)
    low, high = min(means), max(means)
    rows: list[dict[str, object]] = []
    if high > low:
        x = uniform(generator, n, d, low=low, high=high)
        labels = {"sample": "baseline", "mean": (low + high) / 2, "deviation": np.nan}
        rows += score_each(functions, x, ridge, **labels)
    for number, mean in enumerate(means, start=1):
        for deviation in deviations:
            x = normal(generator, n, d, mean=mean, deviation=deviation)
            labels = {"sample": "normal", "mean": mean, "deviation": deviation}
            rows += score_each(functions, x, ridge, **labels)
        LOG.info("mean %d of %d", number, len(means))
    return pd.DataFrame(rows)


def range_summary(scores: pd.DataFrame) -> pd.DataFrame:
    """Return what a box shows: the spread over deviations, one row an activation and mean.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``range_scores``.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``mean``, ``low``, ``lower_quartile``, ``median``, ``upper_quartile``,
        ``high``, ``scores`` (how many deviations have one; at the others the output is constant).
    """
    require_columns(scores, ("activation", "mean", "sample", "affinity"), "range_scores()")
    drawn = scores[scores["sample"] == "normal"]
    grouped = drawn.groupby(["activation", "mean"], sort=False)["affinity"]
    return pd.DataFrame(
        {
            "low": grouped.min(),
            "lower_quartile": grouped.quantile(0.25),
            "median": grouped.median(),
            "upper_quartile": grouped.quantile(0.75),
            "high": grouped.max(),
            "scores": grouped.count(),
        }
    ).reset_index()


def range_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw medians, quartiles and whole ranges over deviations, one panel an activation (Fig. 6).

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``range_scores``.
    """
    require_columns(scores, _DRAWN, "range_scores()")
    names = list(dict.fromkeys(scores["activation"]))
    return styled(alt.concat(*(_panel(scores, name) for name in names), columns=3))


def range_line_chart(scores: pd.DataFrame, activation: str = "relu") -> alt.TopLevelMixin:
    """Draw one activation's score over the input's mean, one line a deviation (Fig. 2A).

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``range_scores``.
    activation : str
        Which of its activations.
    """
    require_columns(scores, _DRAWN, "range_scores()")
    lines = scores[(scores["activation"] == activation) & (scores["sample"] == "normal")]
    x = alt.X("mean:Q", title="mean of the input")
    colour = alt.Color("deviation:O", title="deviation", scale=alt.Scale(scheme="viridis"))
    score_lines = alt.Chart(lines).mark_line(point=alt.OverlayMarkDef(size=20), strokeWidth=1.5)
    layered = alt.layer(
        score_lines.encode(x, AFFINITY, colour), _curve(scores, activation)
    ).resolve_scale(y="independent")
    return styled(layered.properties(width=420, height=260, title=activation))


def _panel(scores: pd.DataFrame, name: str) -> alt.LayerChart:
    of_activation = scores[scores["activation"] == name]
    box = alt.Chart(range_summary(of_activation)).encode(
        x=alt.X("mean:Q", title="mean of the input")
    )
    colour = "#4c78a8"
    layers: list[alt.Chart] = [
        box.mark_rule(color=colour).encode(y=_height("low"), y2="high:Q"),
        box.mark_bar(color=colour, size=5).encode(y=_height("lower_quartile"), y2="upper_quartile"),
        box.mark_tick(color="#111", orient="horizontal", thickness=1.5, size=7).encode(
            y=_height("median")
        ),
        alt.Chart(of_activation[of_activation["sample"] == "baseline"])
        .mark_rule(color="#e45756", strokeDash=[4, 3])
        .encode(y=AFFINITY),
    ]
    drawn = alt.layer(alt.layer(*layers), _curve(scores, name)).resolve_scale(y="independent")
    panel: alt.LayerChart = drawn.properties(width=210, height=150, title=name)
    return panel


def _height(column: str) -> alt.Y:
    return alt.Y(f"{column}:Q", title="affinity score", scale=alt.Scale(domain=[0, 1]))


def _curve(scores: pd.DataFrame, name: str) -> alt.Chart:
    """Return the activation itself over the interval, on a second axis."""
    x = torch.linspace(float(scores["mean"].min()), float(scores["mean"].max()), 81)
    curve = pd.DataFrame({"mean": x.numpy(), "value": elementwise(name)(x).numpy()})
    line = alt.Chart(curve).mark_line(color="#bbb", strokeWidth=1)
    drawn: alt.Chart = line.encode(
        x="mean:Q", y=alt.Y("value:Q", title=name, axis=alt.Axis(grid=False))
    )
    return drawn
