"""Study of shrunk and plain covariances as the dimension passes n (Figure 7, right)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.theme import styled
from analysis.studies.elementwise import PAPER_ACTIVATIONS
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
from survey.settings import Shrinkage

#: Dimensions studied by default: below, at and above n = 1000.
DIMENSIONS = (500, 1000, 1500, 2500, 4500)

_ESTIMATORS: tuple[Shrinkage, ...] = ("ledoit-wolf", "none")


def shrinkage_scores(
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    dimensions: Sequence[int] = DIMENSIONS,
    *,
    n: int = 1000,
    seed: int = 0,
    say: Say = silent,
) -> pd.DataFrame:
    """Score activations on standard normal samples of rising dimension, shrunk and not.

    Parameters
    ----------
    activations : sequence of str
        Names in ``torch.nn.functional``.
    dimensions : sequence of int
        Dimensions d of the samples.
    n : int
        Points of a sample.
    seed : int
        Of the samples.
    say : callable, optional
        Called with a sentence after each dimension and activation.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``d``, ``n``, ``shrinkage`` (``ledoit-wolf`` or ``none``), ``affinity`` in
        [0, 1] or NaN, ``reason`` where it is NaN, ``paper``: the published value, which for
        ``none`` is at an unstated n and d with d > n; NaN where there is none.

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
    require_at_least(1, **{f"dimension {size}": size for size in dimensions})
    require_some("dimensions", dimensions)
    functions = activation_functions(activations)
    generator = seeded(seed)
    rows: list[dict[str, object]] = []
    for d in dimensions:
        x = normal(generator, n, d)
        for name, function in functions.items():
            rows += [
                {
                    "activation": name,
                    "d": d,
                    "n": n,
                    "shrinkage": estimator,
                    **score(x, function(x), estimator),
                    "paper": _published(name, estimator),
                }
                for estimator in _ESTIMATORS
            ]
            say(f"d = {d}: {name}")
    return pd.DataFrame(rows)


def _published(name: str, estimator: Shrinkage) -> float:
    if name not in FIGURE_7:
        return float("nan")
    return FIGURE_7[name].unshrunk if estimator == "none" else FIGURE_7[name].shrunk


def shrinkage_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw the score over the dimension, one line an activation, a panel an estimator.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``shrinkage_scores``.
    """
    require_columns(scores, ("activation", "d", "shrinkage", "affinity"), "shrinkage_scores()")
    named = scores.assign(
        panel=scores["shrinkage"].map({"ledoit-wolf": "shrunk (Ledoit-Wolf)", "none": "unshrunk"})
    )
    drawn = (
        alt.Chart(named)
        .mark_line(point=alt.OverlayMarkDef(size=25), strokeWidth=1.2)
        .encode(
            x=alt.X("d:Q", title="dimension d"),
            y=alt.Y("affinity:Q", title="affinity score", scale=alt.Scale(domain=[0.5, 1])),
            color=alt.Color("activation:N", title=None),
        )
        .properties(width=300, height=260)
    )
    order = ["unshrunk", "shrunk (Ledoit-Wolf)"]
    return styled(drawn.facet(column=alt.Column("panel:N", title=None, sort=order)))


def section(table: pd.DataFrame) -> StudySection:
    """Return the study's section of ``docs/activations.md``."""
    shrunk = table[table["shrinkage"] == "ledoit-wolf"]
    plain = table[table["shrinkage"] == "none"]
    by_name = shrunk.groupby("activation")["affinity"]
    beside = pd.DataFrame(
        {
            "activation": list(by_name.mean().index),
            "mean over d": by_name.mean().to_numpy(),
            "lowest": by_name.min().to_numpy(),
            "highest": by_name.max().to_numpy(),
            "paper": [FIGURE_7[name].shrunk for name in by_name.mean().index],
        }
    )
    beside["difference"] = beside["mean over d"] - beside["paper"]
    largest = float((shrunk["affinity"] - shrunk["paper"]).abs().max())
    wide = plain.pivot_table(index="activation", columns="d", values="affinity")
    curve = wide.rename(columns=lambda size: f"d = {size}")
    curve["paper (d > n)"] = [FIGURE_7[name].unshrunk for name in curve.index]
    # Along a curve that rises, the dimension at which it reaches the printed value.
    curve["reached at d"] = [
        f"{np.interp(FIGURE_7[str(name)].unshrunk, row.to_numpy(), row.index.to_numpy(float)):.0f}"
        for name, row in wide.iterrows()
    ]
    curve.insert(0, "activation", curve.index)
    return StudySection(
        "Shrinkage as the dimension passes n",
        "Independent standard normal coordinates, n = 1000, dimension d below and above n.",
        f"Shrunk, every score over every d is within {largest:.3f} of the paper's value:\n\n"
        + markdown(beside)
        + "\n\nUnshrunk, the score rises with d, above n because the covariances are singular. "
        "The paper prints one value for each activation, without its n and d; the last column is "
        "where our curve, drawn straight between its points, reaches it.\n\n" + markdown(curve),
    )
