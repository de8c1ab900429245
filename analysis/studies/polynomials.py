"""Study of powers: the score against the degree (Figure 2C)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.theme import AFFINITY, COLOURS, styled
from analysis.studies.seeded_inputs import (
    from_correlation,
    require_some,
    require_whole,
    score,
    seeded,
    uniform,
)
from survey import SettingsError

#: Degrees studied by default.
DEGREES = tuple(range(1, 11))

#: Intervals studied by default: where powers rise, and where the even ones fall and rise.
INTERVALS = ((0.0, 1.0), (-1.0, 1.0))


def polynomial_scores(
    degrees: Sequence[int] = DEGREES,
    intervals: Sequence[tuple[float, float]] = INTERVALS,
    *,
    n: int = 1000,
    d: int = 300,
    seed: int = 0,
) -> pd.DataFrame:
    """Score x -> x^k on inputs that are uniform on an interval.

    Parameters
    ----------
    degrees : sequence of int
        The degrees k, at least 1.
    intervals : sequence of (float, float)
        Where the inputs lie. All degrees see the same sample of an interval.
    n, d : int
        Points of a sample, and their dimension.
    seed : int
        Of the samples.

    Returns
    -------
    pandas.DataFrame
        ``interval``, ``low``, ``high``, ``degree``, ``affinity`` in [0, 1] or NaN, ``reason``
        where it is NaN, ``closed_form``: 1 - sqrt(1 - corr(x, x^k)), NaN where that correlation
        is not positive.

    Raises
    ------
    SettingsError
        If a parameter cannot be used.
    """
    require_whole(2, n=n)
    require_whole(1, d=d, degrees=degrees)
    require_some(intervals=intervals)
    generator = seeded(seed)
    rows: list[dict[str, object]] = []
    for low, high in intervals:
        if not -math.inf < low < high < math.inf:
            raise SettingsError(f"interval is {low!r} to {high!r}, its ends must rise")
        x = uniform(generator, n, d, low=low, high=high)
        rows += [
            {
                "interval": f"[{low:g}, {high:g}]",
                "low": low,
                "high": high,
                "degree": degree,
                **score(x, x**degree),
                "closed_form": power_closed_form(degree, low, high),
            }
            for degree in degrees
        ]
    return pd.DataFrame(rows)


def power_closed_form(degree: int, low: float, high: float) -> float:
    """Return 1 - sqrt(1 - r), r the correlation of x and x^k for x uniform on [low, high]."""
    # Exact: powers overflow, and of a narrow interval far from 0 the differences cancel.
    first, last = Fraction(float(low)), Fraction(float(high))

    def moment(power: int) -> Fraction:
        return (last ** (power + 1) - first ** (power + 1)) / ((power + 1) * (last - first))

    mean_x, mean_y = moment(1), moment(degree)
    covariance = moment(degree + 1) - mean_x * mean_y
    variances = (moment(2) - mean_x**2) * (moment(2 * degree) - mean_y**2)
    return from_correlation(math.sqrt(covariance**2 / variances)) if covariance > 0 else math.nan


def polynomial_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw the score over the degree, one line an interval, closed forms dashed.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``polynomial_scores``.
    """
    require_columns(
        scores, ("degree", "interval", "affinity", "closed_form"), "polynomial_scores()"
    )
    base = alt.Chart(scores).encode(
        x=alt.X("degree:O", title="degree k of x^k", axis=alt.Axis(labelAngle=0)),
        color=alt.Color("interval:N", title="input uniform on", scale=COLOURS),
    )
    lines = base.mark_line(point=True, strokeWidth=1.5).encode(y=AFFINITY)
    expected = base.mark_line(strokeDash=[4, 3], strokeWidth=1).encode(y="closed_form:Q")
    return styled(alt.layer(lines, expected).properties(width=380, height=260))
