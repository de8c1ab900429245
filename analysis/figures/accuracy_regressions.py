"""Regressions of accuracy on the best predictor of each group, a panel a group (Fig. 4)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.choices import Accuracy
from analysis.data.tag_conditions import PREFIX
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, head, side_by_side
from analysis.figures.theme import ACCENT, CONTRAST
from analysis.relations.accuracy_predictors import GIVEN, GROUP, predictors
from analysis.relations.accuracy_regressions import regressions_finding
from analysis.text import chance, number

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 4, 190, 160

#: The kinds of predictor that are drawn by default.
SHOWN = ("signature", "characteristic", GIVEN)

#: Which sites each kind of statistic is taken over, in words.
_SITES = {"signature": "all sites", "gates": "gates", "main": "main sites"}


def regression_rows(
    regressions: pd.DataFrame,
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    accuracy: Accuracy = "measured",
    kinds: tuple[str, ...] = SHOWN,
) -> pd.DataFrame:
    """Return the points behind the picked regressions, one row an architecture and panel.

    Parameters
    ----------
    regressions : pandas.DataFrame
        From ``analysis.relations.accuracy_regressions.regressions``.
    signatures, models : pandas.DataFrame
        What they were made from.
    accuracy : {"measured", "reported"}
        Which top-1 they were made from.
    kinds : tuple of str
        The kinds of predictor to show.

    Returns
    -------
    pandas.DataFrame
        ``panel`` (from 0), ``group``, ``dataset``, ``kind``, ``predictor``, ``model`` (of several
        checkpoints, the architecture), ``value`` (of the predictor), ``top1`` (a fraction),
        ``fitted`` (by the line), and of the regression ``n``, ``r2``, ``r2_left_out``, ``p``,
        ``p_picked``, ``p_corrected``, ``q``.
    """
    needed = ("kind", "predictor", "picked", "r2_left_out")
    require_columns(regressions, needed, "regressions(signatures, models)")
    given = list(dict.fromkeys(regressions.loc[regressions["kind"] == GIVEN, "predictor"]))
    known = predictors(signatures, models, accuracy, given)
    picked = regressions[regressions["picked"] & regressions["kind"].isin(kinds)]
    rows = picked.assign(panel=range(len(picked))).merge(
        known, left_on=["group", "dataset"], right_on=list(GROUP)
    )
    rows["value"] = [row[f"{row['kind']}:{row['predictor']}"] for row in rows.to_dict("records")]
    rows["fitted"] = rows["intercept"] + rows["slope"] * rows["value"]
    columns = ["panel", "group", "dataset", "kind", "predictor", "model", "value", "top1", "fitted"]
    columns += ["n", "r2", "r2_left_out", "p", "p_picked", "p_corrected", "q"]
    drawn = rows.dropna(subset=["model", "value", "top1", "fitted"])
    return drawn[columns].reset_index(drop=True)


def regression_chart(
    regressions: pd.DataFrame,
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    accuracy: Accuracy = "measured",
    kinds: tuple[str, ...] = SHOWN,
) -> Figure:
    """Draw the best predictor of each group and kind with its line, R2 and p-value.

    Its parameters are those of ``regression_rows``.
    """
    rows = regression_rows(regressions, signatures, models, accuracy, kinds)
    panels = [_panel(group) for _, group in rows.groupby("panel", sort=True)]
    wide = max(min(len(panels), COLUMNS) * (WIDTH + 65), 520)
    return figure(
        side_by_side(panels, COLUMNS, "no group has enough models"),
        regressions_finding(regressions, kinds),
        note="The best predictor of each kind in each group. A point is an architecture, with the"
        " mean over its checkpoints. R2 left out: of points that the line was not fitted on."
        " p picked: chance of so good a best predictor if accuracies belonged to any architecture."
        " q: false discovery rate over all picks.",
        source=regressions,
        width=wide,
    )


def _panel(group: pd.DataFrame) -> Any:
    first = group.iloc[0]
    ours = first["kind"] in _SITES
    result = [
        f"R2 {number(first['r2'])}, left out {number(first['r2_left_out'])}, n = {first['n']}",
        chance(first["p_picked"]).replace("p ", "p picked ") + f", q = {first['q']:.2g}",
    ]
    title = head(f"{first['group']} on {first['dataset']}", result)
    text = f" of {_SITES[first['kind']]}" if ours else ""
    scale = alt.Scale(zero=False, padding=12)
    base = alt.Chart(group).encode(
        x=alt.X(
            "value:Q", title=f"{first['predictor'].removeprefix(PREFIX)}{text}", scale=scale,
            axis=alt.Axis(tickCount=4, format="~s" if first["kind"] == "characteristic" else ""),
        )
    )  # fmt: skip
    y = alt.Y("top1:Q", title="top-1 accuracy", scale=scale, axis=alt.Axis(format="%", tickCount=5))
    fitted = alt.Y("fitted:Q", title="top-1 accuracy", scale=scale)
    line = base.mark_line(color="#555555", strokeWidth=1.4).encode(y=fitted)
    points = base.mark_point(
        filled=True, size=52, opacity=1, color=ACCENT if ours else CONTRAST,
        shape="circle" if ours else "square",
    ).encode(y=y, tooltip=["model:N", "value:Q", "top1:Q"])  # fmt: skip
    return alt.layer(line, points, width=WIDTH, height=HEIGHT, title=title)
