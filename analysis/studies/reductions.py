"""Study of tensors that are averaged, summed or flattened (Figure 7, left)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd
import torch

from analysis.data.validation import require_columns
from analysis.figures.theme import styled
from analysis.studies.elementwise import PAPER_ACTIVATIONS, Elementwise
from analysis.studies.figure_7 import FIGURE_7
from analysis.studies.inputs import (
    Say,
    activation_functions,
    normal,
    require_at_least,
    require_some,
    score,
    seeded,
    silent,
)
from analysis.studies.section import StudySection, markdown

#: How the tensors are made and when they are activated.
CONSTRUCTIONS = {
    "independent positions": "every position drawn on its own; activated, then reduced",
    "reduced first": "every position drawn on its own; reduced, then activated",
    "standardised first": "as reduced first, but the reduced values are scaled to deviation 1",
    "equal positions": "one draw repeated at every position; activated, then reduced",
}

_Pair = tuple[torch.Tensor, torch.Tensor]


def reduction_scores(
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    channels: Sequence[int] = (1, 64),
    *,
    side: int = 4,
    n: int = 1000,
    seed: int = 0,
    say: Say = silent,
) -> pd.DataFrame:
    """Score activations on standard normal tensors that are averaged, summed or flattened.

    The paper states neither its tensors nor the order of activating and reducing; every
    combination of both is in the table.

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
    say : callable, optional
        Called with a sentence after each activation.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``construction`` (a key of ``CONSTRUCTIONS``), ``reduction`` (``average``,
        ``flatten`` or ``sum``), ``channels``, ``positions`` (side squared), ``columns`` (of the
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
    require_at_least(2, n=n)
    require_at_least(1, side=side, **{f"channels {count}": count for count in channels})
    require_some("channels", channels)
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
                        "paper": FIGURE_7[name].pooled if name in FIGURE_7 else float("nan"),
                    }
                )
            say(f"{count} channels: {name}")
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
    drawn = (
        alt.Chart(panels)
        .mark_line(point=alt.OverlayMarkDef(size=30), strokeWidth=1.2)
        .encode(
            x=alt.X(
                "reduction:N",
                title=None,
                sort=["ave.", "flat.", "sum"],
                axis=alt.Axis(labelAngle=0),
            ),
            y=alt.Y("affinity:Q", title="affinity score", scale=alt.Scale(domain=[0.5, 1])),
            color=alt.Color("activation:N", title=None),
        )
        .properties(width=150, height=170)
    )
    order = list(dict.fromkeys(panels["panel"]))
    return styled(drawn.facet(facet=alt.Facet("panel:N", title=None, sort=order), columns=4))


def section(table: pd.DataFrame) -> StudySection:
    """Return the study's section of ``docs/activations.md``."""
    many = table[table["channels"] == table["channels"].max()]
    plainest = many[many["construction"] == "independent positions"]
    by_name = plainest.pivot_table(index="activation", columns="reduction", values="affinity")
    ours = by_name.mean(axis=1)
    beside = pd.DataFrame(
        {
            "activation": by_name.index,
            **{name: by_name[name].to_numpy() for name in by_name},
            "mean": ours.to_numpy(),
            "std": by_name.std(axis=1).to_numpy(),
            "paper": [FIGURE_7[name].pooled for name in by_name.index],
            "paper's std": [FIGURE_7[name].pooled_deviation for name in by_name.index],
        }
    )
    beside["difference"] = beside["mean"] - beside["paper"]
    largest = float((plainest["affinity"] - plainest["paper"]).abs().max())
    others = table.pivot_table(
        index=["channels", "construction", "reduction"], columns="activation", values="affinity"
    )[["relu", "gelu", "tanh", "sigmoid"]].reset_index()
    meanings = "\n".join(f"- *{name}*: {meaning}." for name, meaning in CONSTRUCTIONS.items())
    positions, channels = int(plainest["positions"].iloc[0]), int(plainest["channels"].iloc[0])
    return StudySection(
        "Averaging, summing and flattening",
        f"Standard normal tensors, n = 1000, c channels, {positions} positions. The paper states "
        "neither its tensors nor whether it activates before or after reducing, so several "
        f"readings are tried:\n\n{meanings}",
        "The paper's values come out of the plainest reading: independent positions, activated "
        f"and then averaged, summed or flattened, with {channels} channels. Every one of the "
        f"{len(plainest)} scores is within {largest:.3f} of the printed value.\n\n"
        + markdown(beside)
        + "\n\nThe reason: averaging independent positions leaves the correlation of input and "
        "output what it is at one position, so with many channels the closed form "
        "1 - sqrt(1 - r) holds for all three. With a single channel it does not hold: averages of "
        "many positions are nearly normal before and after, and in one dimension transport finds "
        "an affine map between any two normal laws, whatever the pairs. Reducing first gives an "
        "input of another deviation, which only the activations that scale with their input do "
        "not see; scaled back to deviation 1 it gives the paper's values again. One draw repeated "
        "at every position gives them too, flattened a little higher, because its covariance has "
        "lower rank and is shrunk more.\n\n" + markdown(others),
    )
