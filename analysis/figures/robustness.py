"""Robustness: how far each metric varies over the checkpoints of an architecture (Table 3)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.contrasts.checkpoints import robustness_finding
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, first_of, head, side_by_side
from analysis.figures.theme import ACCENT, LABEL_SIZE, QUIET, names_down
from analysis.text import number
from survey.metrics import title_of

#: Panels side by side, width of each and height of a bar, in pixels.
COLUMNS, WIDTH, BAR = 2, 340, 20

#: Most panels.
MOST = 24


def robustness_rows(robustness: pd.DataFrame) -> pd.DataFrame:
    """Return the bars, one row an architecture, dataset and metric with a relative deviation.

    Parameters
    ----------
    robustness : pandas.DataFrame
        From ``analysis.robustness``.

    Returns
    -------
    pandas.DataFrame
        ``panel`` (architecture, with its source where several have it, dataset and number of
        checkpoints), ``metric`` (by its heading), ``relative_std`` and ``cell`` (mean and
        deviation, in words).
    """
    require_columns(robustness, ("metric", "relative_std"), "robustness(signatures)")
    rows = robustness[robustness["relative_std"].notna()].copy()
    rows["metric"] = rows["metric"].map(title_of)
    most = rows.groupby(["source", "architecture", "dataset"])["n"].transform("max")
    by_name = rows.groupby(["architecture", "dataset"])["source"]
    sources = (rows["source"] + ":").where(by_name.transform("nunique") > 1, "")
    places = sources + rows["architecture"] + " on " + rows["dataset"]
    rows["panel"] = places + " (" + most.astype("str") + " checkpoints)"
    rows["cell"] = [
        f"{number(row['mean'])} ± {number(row['std'])}"
        + (f" (n = {row['n']})" if row["n"] != count else "")
        for row, count in zip(rows.to_dict("records"), most, strict=True)
    ]
    return rows[["panel", "metric", "relative_std", "cell"]].reset_index(drop=True)


def robustness_chart(robustness: pd.DataFrame) -> Figure:
    """Draw each metric's deviation over checkpoints in units of its mean, a panel an architecture.

    Of more than 24 architectures those are drawn whose affinity varies most. Its parameters are
    those of ``robustness_rows``.
    """
    rows = robustness_rows(robustness)
    spread = rows["relative_std"].where(rows["metric"] == "affinity")
    spread = spread.groupby(rows["panel"], sort=False).max()
    ordered = spread.sort_values(ascending=False, kind="stable").index.to_list()
    which = "whose affinity varies most" if spread.notna().any() else "the first"
    drawn, left_out = first_of(ordered, MOST, which)
    shown = rows[rows["panel"].isin(drawn)]
    # Room to the right of the longest bar for its words.
    reach = 1.45 * float(shown["relative_std"].max() or 1.0) if len(shown) else 1.0
    panels = [_panel(group, reach) for _, group in shown.groupby("panel", sort=False)]
    return figure(
        side_by_side(panels, COLUMNS, "no architecture has several checkpoints"),
        robustness_finding(robustness),
        note="Deviation over checkpoints of a metric's mean over the sites, over the size of its"
        " mean: metrics have different units. Beside the bars: mean ± deviation." + left_out,
        source=robustness,
        width=min(max(len(panels), 1), COLUMNS) * (WIDTH + 80),
    )


def _panel(rows: pd.DataFrame, reach: float) -> Any:
    order = list(rows.sort_values("relative_std")["metric"])
    base = alt.Chart(rows).encode(
        x=alt.X("relative_std:Q", title="deviation over mean", scale=alt.Scale(domain=[0, reach])),
        y=names_down("metric", order),
    )
    ours = alt.condition("datum.metric == 'affinity'", alt.value(ACCENT), alt.value(QUIET))
    bars = base.mark_bar(size=BAR - 7).encode(color=ours)
    labels = base.mark_text(align="left", dx=5, fontSize=LABEL_SIZE).encode(text="cell:N")
    title = head(str(rows["panel"].iloc[0]))
    layered = alt.layer(bars, labels)
    return layered.properties(width=WIDTH, height=BAR * len(rows), title=title)
