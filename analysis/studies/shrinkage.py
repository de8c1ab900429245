"""Study of shrunk and plain covariances as the dimension passes n (Figure 7, right)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.theme import styled
from analysis.studies.elementwise import PAPER_ACTIVATIONS
from analysis.studies.figure_7 import FIGURE_7, FIGURE_7_SCORE
from analysis.studies.seeded_inputs import (
    LOG,
    activation_functions,
    normal,
    require_whole,
    score,
    seeded,
)
from survey.settings import Shrinkage

#: Dimensions studied by default: below, at and above n = 1000.
DIMENSIONS = (500, 1000, 1500, 2500, 4500)

#: The estimators of covariances, and the columns of ``FIGURE_7`` that they give.
_ESTIMATORS: dict[Shrinkage, str] = {"ledoit-wolf": "shrunk", "none": "unshrunk"}


def shrinkage_scores(
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    dimensions: Sequence[int] = DIMENSIONS,
    *,
    n: int = 1000,
    seed: int = 0,
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
    require_whole(2, n=n)
    require_whole(1, dimensions=dimensions)
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
                    "paper": FIGURE_7[printed].get(name, math.nan),
                }
                for estimator, printed in _ESTIMATORS.items()
            ]
            LOG.info("d = %d: %s", d, name)
    return pd.DataFrame(rows)


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
    lines = alt.Chart(named, width=300, height=260).mark_line(
        point=alt.OverlayMarkDef(size=25), strokeWidth=1.2
    )
    x = alt.X("d:Q", title="dimension d")
    drawn = lines.encode(x, FIGURE_7_SCORE, alt.Color("activation:N", title=None))
    order = ["unshrunk", "shrunk (Ledoit-Wolf)"]
    return styled(drawn.facet(column=alt.Column("panel:N", title=None, sort=order)))
