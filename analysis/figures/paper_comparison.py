"""Our numbers against those that the paper prints, with the diagonal."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, head, side_by_side
from analysis.figures.theme import ACCENT, FAINT, QUIET, marks_by
from analysis.paper.compare import paper_finding
from survey.text import counted

#: Panels side by side, and the side of each in pixels.
COLUMNS, SIDE = 2, 260

#: Numbers further apart than this are laid on a logarithmic scale.
UNEQUAL = 20.0

#: What the tables of the paper hold.
TITLES = {
    "table1": "Table 1: correlation with the affinity, by family",
    "table2": "Table 2: correlation with the affinity, by model",
    "table3": "Table 3: mean over checkpoints",
    "fig4": "Figure 4: R2 of the best predictor",
}


def paper_rows(comparison: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers that the paper prints and that were measured, one row each.

    Parameters
    ----------
    comparison : pandas.DataFrame
        From ``analysis.paper.compare.compare_paper``.

    Returns
    -------
    pandas.DataFrame
        Its columns, with ``panel`` (the table in words), and ``ours_low`` and ``ours_high``: ours
        less and more its deviation, the same where it has none.
    """
    require_columns(comparison, ("table", "paper", "ours"), "compare_paper(signatures, models)")
    rows = comparison[comparison["paper"].notna() & comparison["ours"].notna()].copy()
    spread = rows["ours_std"].fillna(0.0)
    rows["ours_low"], rows["ours_high"] = rows["ours"] - spread, rows["ours"] + spread
    rows["panel"] = rows["table"].map(lambda name: TITLES.get(name, name))
    return rows.reset_index(drop=True)


def paper_chart(comparison: pd.DataFrame) -> Figure:
    """Draw our numbers over the paper's, a panel a table; on the diagonal both agree.

    Its parameters are those of ``paper_rows``.
    """
    rows = paper_rows(comparison)
    panels = [_panel(rows[rows["panel"] == name]) for name in dict.fromkeys(rows["panel"])]
    drawn = side_by_side(panels, COLUMNS, "nothing that the paper prints was surveyed")
    missing = len(comparison) - len(rows)
    return figure(
        drawn.resolve_scale(color="independent", shape="independent"),
        paper_finding(comparison),
        note="On the diagonal ours is the paper's; bars: our deviation over models or checkpoints."
        + (f" {counted(missing, 'printed number')} without ours left out." if missing else ""),
        source=comparison,
        width=max(520, min(len(panels), COLUMNS) * (SIDE + 70)),
    )


def _panel(group: pd.DataFrame) -> Any:
    low = float(group[["paper", "ours_low"]].min().min())
    high = float(group[["paper", "ours_high"]].max().max())
    # Correlations share one scale in every survey; other numbers have their own.
    if group["table"].isin(["table1", "table2"]).all():
        low, high = min(low, -1.0), max(high, 1.0)
    room = 0.04 * (high - low or 1.0)
    domain = [low - room, high + room]
    scale, axis = alt.Scale(domain=domain, nice=False, zero=False), alt.Axis()
    if high - low > UNEQUAL:
        # A norm in the hundreds would press correlations and fractions into one point.
        ends_room = [low - 0.2 * abs(low), 1.2 * high]
        scale = alt.Scale(type="symlog", constant=0.2, domain=ends_room, nice=False)
        axis = alt.Axis(values=[-10, -1, 0, 0.5, 1, 5, 20, 100, 500, 2000], format="~r")
    names = sorted(group["quantity"].unique())
    ends = pd.DataFrame({"paper": [low, high], "ours": [low, high]})
    x = alt.X("paper:Q", title="the paper's", scale=scale, axis=axis)
    y = alt.Y("ours:Q", title="ours", scale=scale, axis=axis)
    diagonal = alt.Chart(ends).mark_line(color=FAINT, strokeDash=[4, 3]).encode(x=x, y=y)
    base = alt.Chart(group).encode(x=x)
    bars = base.mark_rule(color=QUIET).encode(
        y=alt.Y("ours_low:Q", title="ours", scale=scale, axis=axis), y2="ours_high:Q"
    )
    points = base.mark_point(filled=True, opacity=1, size=48, color=ACCENT).encode(
        y=y,
        **marks_by("quantity", names, SIDE),
        tooltip=["name:N", "quantity:N", "paper:Q", "ours:Q", "difference:Q"],
    )
    title = head(f"{group['panel'].iloc[0]} (n = {len(group)})")
    return alt.layer(diagonal, bars, points, width=SIDE, height=SIDE, title=title)
