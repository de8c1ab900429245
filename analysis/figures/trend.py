"""Trends: the affinity of a network's sites and their mean over a tag, such as the epoch."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.tag_conditions import PREFIX
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, head, side_by_side
from analysis.figures.theme import ACCENT, AFFINITY, FAINT, UNIT, lines_by
from analysis.relations.trend import trends_finding
from survey.text import counted

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 2, 330, 240

#: From this ratio of the largest to the smallest value on, the axis is logarithmic.
WIDE = 100

_SITES = (
    "Thick: the mean over the sites with a score in every run; thin: each site, stronger is deeper."
)
_LINES = "The mean over the sites with a score in every run of a line."


_DRAWN = ("network", "line", "run_id", "model", "against", "value", "site", "affinity")


def trend_rows(trends: pd.DataFrame, points: pd.DataFrame, most: int = 12) -> pd.DataFrame:
    """Return the points that are drawn, one row a run and site, or a run for the mean.

    Parameters
    ----------
    trends : pandas.DataFrame
        From ``analysis.relations.trend.trends``.
    points : pandas.DataFrame
        From ``analysis.relations.trend.trend_points``, of the same runs.
    most : int
        Networks to draw: those whose mean changes most.

    Returns
    -------
    pandas.DataFrame
        The columns of ``points``; of networks with several lines the means alone.
    """
    require_columns(trends, ("network", "change"), "trends(signatures, models)")
    require_columns(points, _DRAWN, "trend_points(signatures, models)")
    lines = points.groupby("network")["line"].transform("nunique")
    rows = points[points["affinity"].notna() & ((lines == 1) | points["site"].isna())]
    spread = (
        rows[rows["site"].isna()]
        .groupby("network")["affinity"]
        .agg(lambda each: each.max() - each.min())
    )
    kept = spread.sort_values(ascending=False, kind="stable").index[:most]
    return rows[rows["network"].isin(kept)].reset_index(drop=True)


def trend_chart(trends: pd.DataFrame, points: pd.DataFrame, most: int = 12) -> Figure:
    """Draw the affinity over the tag, a panel a network.

    Its parameters are those of ``trend_rows``.
    """
    rows = trend_rows(trends, points, most)
    groups = [group for _, group in rows.groupby("network", sort=True)]
    several = rows["line"].nunique() > 1
    left_out = points["network"].nunique() - len(groups)
    fewer = f" {counted(left_out, 'network')} that changed less left out." if left_out else ""
    return figure(
        side_by_side([_panel(group) for group in groups], COLUMNS, "No tag has several numbers."),
        trends_finding(trends),
        note=(_LINES if several else _SITES) + fewer if groups else "",
        source=trends,
        width=max(420, min(len(groups), COLUMNS) * (WIDTH + 60)),
    )


def _panel(group: pd.DataFrame) -> Any:
    against = str(group["against"].iloc[0])
    lowest, highest = group["value"].min(), group["value"].max()
    wide = lowest > 0 and highest / lowest >= WIDE
    scale = alt.Scale(type="log") if wide else alt.Scale(zero=False, padding=8)
    x = alt.X(
        "value:Q", title=against.removeprefix(PREFIX), scale=scale, axis=alt.Axis(tickCount=6)
    )
    means, sites = group[group["site"].isna()], group[group["site"].notna()]
    names = sorted(means["line"].unique())
    looks = lines_by("line", names, WIDTH) if len(names) > 1 else {"color": alt.value("#000000")}
    base = alt.Chart(means).encode(x=x, y=AFFINITY, **looks)
    thick = base.mark_line(strokeWidth=2.5).encode(y=alt.Y("mean(affinity):Q", scale=UNIT))
    marks = base.mark_point(filled=True, size=40, opacity=1).encode(
        tooltip=["model:N", "value:Q", "affinity:Q"]
    )
    layers = [*([_thin(sites, x)] if len(sites) else []), thick, marks]
    runs = counted(means["run_id"].nunique(), "run")
    title = head(str(group["network"].iloc[0]), f"n = {runs}")
    return alt.layer(*layers, width=WIDTH, height=HEIGHT, title=title)


def _thin(sites: pd.DataFrame, x: alt.X) -> Any:
    depth = alt.Color(
        "relative_depth:Q", scale=alt.Scale(range=[FAINT, ACCENT], domain=[0, 1]), legend=None
    )
    base = alt.Chart(sites).encode(x=x, y=AFFINITY, color=depth, detail="site:N")
    return base.mark_line(strokeWidth=1).encode(y=alt.Y("mean(affinity):Q", scale=UNIT))
