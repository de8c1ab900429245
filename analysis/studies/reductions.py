"""Study of tensors that are averaged, summed or flattened (Figure 7, left)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd
import torch

from analysis.data.validation import require_columns
from analysis.figures.theme import styled
from analysis.studies.elementwise import PAPER_ACTIVATIONS, Elementwise
from analysis.studies.figure_7 import FIGURE_7, FIGURE_7_SCORE
from analysis.studies.seeded_inputs import (
    LOG,
    activation_functions,
    normal,
    require_whole,
    score,
    seeded,
)

_Pair = tuple[torch.Tensor, torch.Tensor]


def reduction_scores(
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    channels: Sequence[int] = (1, 64),
    *,
    side: int = 4,
    n: int = 1000,
    seed: int = 0,
) -> pd.DataFrame:
    """Score activations on standard normal tensors that are averaged, summed or flattened.

    The paper states neither its tensors nor the order of activating and reducing; four
    constructions are in the table. ``independent positions``: every position is drawn on its own;
    activated, then reduced. ``reduced first``: the same, reduced, then activated. ``standardised
    first``: as reduced first, but the reduced values are scaled to deviation 1. ``equal
    positions``: one draw repeated at every position; activated, then reduced.

    Parameters
    ----------
    activations : sequence of str
        Names in ``torch.nn.functional``.
    channels : sequence of int
        Channels c of the tensors n x c x side x side.
    side : int
        Height and width.
    n : int
        Tensors.
    seed : int
        Of the tensors.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``construction``, ``reduction`` (``average``, ``flatten`` or ``sum``),
        ``channels``, ``positions`` (side squared), ``columns`` (of the
        scored matrices), ``affinity`` in [0, 1] or NaN, ``reason`` where it is NaN, ``paper``
        (the published value, NaN where there is none).

    Raises
    ------
    UnknownName
        If torch has no such activation.
    SettingsError
        If a parameter cannot be used.

    References
    ----------
    Bouniot et al. 2025, arXiv:2310.11439, Appendix E, Figure 7.
    """
    require_whole(2, n=n)
    require_whole(1, side=side, channels=channels)
    functions = activation_functions(activations)
    generator = seeded(seed)
    rows: list[dict[str, object]] = []
    for count in channels:
        tensors = normal(generator, n, count, side * side)
        for name, function in functions.items():
            for (construction, reduction), (x, y) in _pairs(tensors, function).items():
                rows.append(
                    {
                        "activation": name,
                        "construction": construction,
                        "reduction": reduction,
                        "channels": count,
                        "positions": side * side,
                        "columns": x.shape[1],
                        **score(x, y),
                        "paper": FIGURE_7["pooled"].get(name, math.nan),
                    }
                )
            LOG.info("%d channels: %s", count, name)
    return pd.DataFrame(rows)


def _pairs(tensors: torch.Tensor, function: Elementwise) -> dict[tuple[str, str], _Pair]:
    """Return the matrices of every construction and reduction, from n x c x positions."""
    outputs = function(tensors)
    mean, total = tensors.mean(dim=2), tensors.sum(dim=2)
    scaled = (mean - mean.mean()) / mean.std()
    equal = tensors[:, :, :1].expand_as(tensors)
    equal_outputs = outputs[:, :, :1].expand_as(tensors)
    return {
        ("independent positions", "average"): (mean, outputs.mean(dim=2)),
        ("independent positions", "flatten"): (tensors.flatten(1), outputs.flatten(1)),
        ("independent positions", "sum"): (total, outputs.sum(dim=2)),
        ("reduced first", "average"): (mean, function(mean)),
        ("reduced first", "sum"): (total, function(total)),
        ("standardised first", "average"): (scaled, function(scaled)),
        ("equal positions", "average"): (equal.mean(dim=2), equal_outputs.mean(dim=2)),
        ("equal positions", "flatten"): (equal.flatten(1), equal_outputs.flatten(1)),
        ("equal positions", "sum"): (equal.sum(dim=2), equal_outputs.sum(dim=2)),
    }


def reduction_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw the score by reduction, one line an activation, one panel a construction and c.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``reduction_scores``.
    """
    require_columns(
        scores,
        ("activation", "construction", "channels", "reduction", "affinity"),
        "reduction_scores()",
    )
    panels = scores.assign(
        panel=scores["construction"] + ", c = " + scores["channels"].astype(str),
        reduction=scores["reduction"].replace({"average": "ave.", "flatten": "flat."}),
    )
    lines = alt.Chart(panels, width=150, height=170).mark_line(
        point=alt.OverlayMarkDef(size=30), strokeWidth=1.2
    )
    level = alt.Axis(labelAngle=0)
    x = alt.X("reduction:N", title=None, sort=["ave.", "flat.", "sum"], axis=level)
    drawn = lines.encode(x, FIGURE_7_SCORE, alt.Color("activation:N", title=None))
    order = list(dict.fromkeys(panels["panel"]))
    return styled(drawn.facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=4))
