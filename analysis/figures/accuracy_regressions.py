"""Regressions of accuracy on what picks itself as the best predictor, a panel a group (Fig. 4)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.choices import Accuracy
from analysis.data.model_names import measured_on, trained
from analysis.data.validation import MODELS, require_columns
from analysis.figures.panels import head, side_by_side
from analysis.figures.theme import ACCENT, CONTRAST, Figure, figure
from analysis.relations.accuracy_regressions import (
    NEEDED_OF_MODELS,
    NEEDED_OF_SITES,
    regressions_finding,
    statistics,
)
from analysis.text import chance, number

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 4, 190, 160

#: The roles of sites that each kind of statistic is taken over.
ROLES = {"signature": ("main", "gate"), "gates": ("gate",), "main": ("main",)}

_WORDS = {"signature": "all sites", "gates": "gates", "main": "main sites"}


def regression_rows(
    regressions: pd.DataFrame,
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    accuracy: Accuracy = "measured",
    kinds: tuple[str, ...] = ("signature", "characteristic"),
) -> pd.DataFrame:
    """Return the points behind the picked regressions, one row a model and panel.

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
        ``panel`` (from 0), ``group``, ``dataset``, ``kind``, ``predictor``, ``model``, ``value``
        (of the predictor), ``top1`` (a fraction), ``fitted`` (by the line), and of the regression
        ``n``, ``r2``, ``r2_left_out``, ``p``, ``p_picked``.
    """
    require_columns(regressions, ("picked", "r2_left_out"), "regressions(signatures, models)")
    require_columns(signatures, NEEDED_OF_SITES)
    require_columns(models, NEEDED_OF_MODELS, MODELS)
    picked = regressions[regressions["picked"] & regressions["kind"].isin(kinds)]
    known = models.set_index("run_id")
    known = known[known.index.isin(signatures["run_id"]) & trained(known["checkpoint"])]
    pairs = zip(known["dataset"], known["pooling"], strict=True)
    known = known.assign(dataset=[measured_on(*each) for each in pairs])
    fractions = known[["measured_top1", "reported_top1"]].astype("float64")
    other = "reported" if accuracy == "measured" else "measured"
    top1 = fractions[f"{accuracy}_top1"].fillna(fractions[f"{other}_top1"])
    frames = []
    for panel, row in enumerate(picked.to_dict("records")):
        group = known[
            (known["family_group"] == row["group"]) & (known["dataset"] == row["dataset"])
        ]
        value = _predictor(row, signatures, group)
        points = pd.DataFrame({"model": group["model"], "value": value, "top1": top1[group.index]})
        points["fitted"] = row["intercept"] + row["slope"] * points["value"]
        names = ("group", "dataset", "kind", "predictor", "n", "r2", "r2_left_out", "p", "p_picked")
        frames.append(points.dropna().assign(panel=panel, **{name: row[name] for name in names}))
    columns = ["panel", "group", "dataset", "kind", "predictor", "model", "value", "top1", "fitted"]
    columns += ["n", "r2", "r2_left_out", "p", "p_picked"]
    if not frames:
        return pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True)[columns]


def regression_chart(
    regressions: pd.DataFrame,
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    accuracy: Accuracy = "measured",
    kinds: tuple[str, ...] = ("signature", "characteristic"),
) -> Figure:
    """Draw the best predictor of each group and kind with its line, and what picking it is worth.

    Its parameters are those of ``regression_rows``.
    """
    rows = regression_rows(regressions, signatures, models, accuracy, kinds)
    panels = [_panel(group) for _, group in rows.groupby("panel", sort=True)]
    wide = max(min(len(panels), COLUMNS) * (WIDTH + 65), 520)
    return figure(
        side_by_side(panels, COLUMNS, "No group has enough models."),
        regressions_finding(regressions, kinds),
        note="The best predictor of each kind in each group. R2 left out: of models that the line"
        " was not fitted on. p picked: chance of so good a best predictor if accuracies belonged"
        " to any model.",
        source=regressions,
        width=wide,
    )


def _predictor(row: dict[Any, Any], signatures: pd.DataFrame, group: pd.DataFrame) -> Any:
    if row["kind"] == "characteristic":
        return group[row["predictor"]].astype("float64")
    sites = signatures[signatures["role"].isin(ROLES[row["kind"]])]
    result = {
        run_id: statistics(each["affinity"])[row["predictor"]]
        for run_id, each in sites[sites["run_id"].isin(group.index)].groupby("run_id")
    }
    return pd.Series(result, dtype="float64").reindex(group.index)


def _panel(group: pd.DataFrame) -> Any:
    first = group.iloc[0]
    ours = first["kind"] != "characteristic"
    result = [
        f"R2 {number(first['r2'])}, left out {number(first['r2_left_out'])}, n = {first['n']}",
        f"{chance(first['p_picked']).replace('p ', 'p picked ')}",
    ]
    title = head(f"{first['group']} on {first['dataset']}", result)
    text = f" of {_WORDS[first['kind']]}" if ours else ""
    scale = alt.Scale(zero=False, padding=12)
    base = alt.Chart(group).encode(
        x=alt.X(
            "value:Q", title=f"{first['predictor']}{text}", scale=scale,
            axis=alt.Axis(tickCount=4, format="~s" if not ours else ""),
        )
    )  # fmt: skip
    y = alt.Y("top1:Q", title="top-1 accuracy", scale=scale, axis=alt.Axis(format="%", tickCount=5))
    line = base.mark_line(color="#555555", strokeWidth=1.4).encode(
        y=alt.Y("fitted:Q", title="top-1 accuracy", scale=scale)
    )
    points = base.mark_point(
        filled=True, size=52, opacity=1, color=ACCENT if ours else CONTRAST,
        shape="circle" if ours else "square",
    ).encode(y=y, tooltip=["model:N", "value:Q", "top1:Q"])  # fmt: skip
    return alt.layer(line, points).properties(width=WIDTH, height=HEIGHT, title=title)
