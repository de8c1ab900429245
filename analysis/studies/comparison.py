"""Study of activations on one and the same input (Figure 2B)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.theme import styled
from analysis.studies.elementwise import PAPER_ACTIVATIONS
from analysis.studies.seeded_inputs import (
    activation_functions,
    normal,
    normal_closed_form,
    require_finite,
    require_positive,
    require_whole,
    score_each,
    seeded,
)


def comparison_scores(
    activations: Sequence[str] = PAPER_ACTIVATIONS,
    *,
    mean: float = 0.0,
    deviation: float = 1.0,
    n: int = 1000,
    d: int = 300,
    seed: int = 0,
) -> pd.DataFrame:
    """Score activations on one sample of independent normal numbers.

    Parameters
    ----------
    activations : sequence of str
        Names in ``torch.nn.functional``.
    mean, deviation : float
        Of the sample.
    n, d : int
        Its points, and their dimension.
    seed : int
        Of the sample.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``mean``, ``deviation``, ``affinity`` in [0, 1] or NaN, ``reason`` where
        it is NaN, ``closed_form``: 1 - sqrt(1 - corr(z, sigma(z))), NaN where that is not
        positive. Most linear first.

    Raises
    ------
    UnknownName
        If torch has no such activation.
    SettingsError
        If a parameter cannot be used.
    """
    require_whole(2, n=n)
    require_whole(1, d=d)
    require_positive(deviation=deviation)
    require_finite(mean=mean)
    functions = activation_functions(activations)
    x = normal(seeded(seed), n, d, mean=mean, deviation=deviation)
    table = pd.DataFrame(score_each(functions, x, mean=mean, deviation=deviation))
    expected = (normal_closed_form(each, mean, deviation) for each in functions.values())
    table["closed_form"] = list(expected)
    return table.sort_values("affinity", ascending=False, ignore_index=True)


def comparison_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw the scores as bars, each with a tick at its closed form.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``comparison_scores``.
    """
    require_columns(scores, ("activation", "affinity", "closed_form"), "comparison_scores()")
    base = alt.Chart(scores).encode(y=alt.Y("activation:N", title=None, sort=None))
    bars = base.mark_bar(color="#4c78a8", size=14).encode(
        x=alt.X("affinity:Q", title="affinity score", scale=alt.Scale(domain=[0, 1]))
    )
    ticks = base.mark_tick(color="#111", thickness=2, size=18).encode(x="closed_form:Q")
    return styled(alt.layer(bars, ticks).properties(width=380))
