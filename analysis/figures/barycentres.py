"""Barycentres: the mean curve of each cluster of k-means, over the signatures it stands for."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.data.validation import require_kind
from analysis.figures.figure import Figure, figure, head, side_by_side
from analysis.figures.marks.model_colours import FAMILIES, ModelColours
from analysis.figures.theme import UNIT, UNKNOWN
from analysis.similarity.kmeans import Barycentres, barycentres_finding
from analysis.similarity.signature_curve import Curve
from analysis.text import listed

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 3, 250, 170

#: Families that a panel's head names; the others are counted.
NAMED = 3


def barycentre_rows(barycentres: Barycentres) -> pd.DataFrame:
    """Return the curves of every cluster: its members, and the barycentre they lie around.

    Parameters
    ----------
    barycentres : Barycentres
        From ``analysis.similarity.kmeans.kmeans``.

    Returns
    -------
    pandas.DataFrame
        ``cluster``, ``kind`` (member or barycentre), ``run_id``, ``model`` and ``family`` (empty
        for barycentres), ``relative_depth`` in [0, 1], ``affinity``, and ``piece``: which unbroken
        part of a member's curve, from 0, as sites without a score break it.
    """
    require_kind(barycentres, Barycentres, "kmeans(distance_matrix(signatures), number)")
    members = barycentres.table.set_index("run_id")
    frames = [
        _member(curve, members.loc[curve.run_id])
        for curve in barycentres.matrix.curves
        if curve.run_id in members.index
    ]
    middles = barycentres.curves[["cluster", "relative_depth", "affinity"]].assign(
        kind="barycentre", run_id="", model="", family="", piece=0
    )
    # The members come first: theirs is the order of the columns.
    rows = pd.concat([*frames, middles], ignore_index=True)
    return rows.sort_values("cluster", kind="stable", ignore_index=True)


def barycentre_chart(barycentres: Barycentres, colours: ModelColours = FAMILIES) -> Figure:
    """Draw each cluster's barycentre over the signatures of its members, a panel a cluster.

    Parameters
    ----------
    barycentres : Barycentres
        See ``barycentre_rows``.
    colours : ModelColours
        What colour and dash of the members stand for.
    """
    rows = barycentre_rows(barycentres)
    members = barycentres.table.assign(colour=colours.of(barycentres.table))
    looks = colours.lines(members, COLUMNS * WIDTH)
    panels = [_panel(group, looks, members) for _, group in rows.groupby("cluster")]
    wide = min(len(panels), COLUMNS) * (WIDTH + 55)
    return figure(
        side_by_side(panels, COLUMNS),
        barycentres_finding(barycentres),
        note="Thick: the barycentre, the mean of a cluster under dynamic time warping; thin: its"
        f" members, by {colours.title}. {barycentres.matrix.normalisation.capitalize()} signatures,"
        f" k-means from seed {barycentres.table.attrs.get('seed', 0)}.",
        source=barycentres.table,
        width=max(wide, 420),
    )


def _member(curve: Curve, run: Any) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "cluster": run["cluster"],
            "kind": "member",
            "run_id": curve.run_id,
            "model": run["model"],
            "family": run["family"] if pd.notna(run["family"]) else UNKNOWN,
            "relative_depth": curve.depths,
            "affinity": curve.values,
            "piece": _pieces(curve),
        }
    )


def _pieces(curve: Curve) -> NDArray[np.int64]:
    """Return the number, from 0, of the unbroken part of a curve that each site is in."""
    # Where none was left out, numbers that skip are sites of another role: no gap.
    if not curve.left_out:
        return np.zeros(curve.values.size, np.int64)
    result: NDArray[np.int64] = np.cumsum(np.diff(curve.sites, prepend=curve.sites[:1]) > 1)
    return result


def _panel(rows: pd.DataFrame, looks: dict[str, Any], table: pd.DataFrame) -> Any:
    cluster = rows["cluster"].iloc[0]
    group = table[table["cluster"] == cluster]
    members, middle = (rows[rows["kind"] == kind] for kind in ("member", "barycentre"))
    members = members.merge(group[["run_id", "colour"]], on="run_id")
    x = alt.X("relative_depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("affinity:Q", title="affinity score", scale=UNIT)
    lines = (
        alt.Chart(members)
        .mark_line(strokeWidth=1)
        .encode(x=x, y=y, **looks, detail=["run_id:N", "piece:N"], tooltip=["model:N", "family:N"])
    )
    # A site between two gaps has no line; a point shows it.
    lonely = members[members.groupby(["run_id", "piece"])["piece"].transform("size") == 1]
    points = [alt.Chart(lonely).mark_circle(size=12).encode(x=x, y=y, color=looks["color"])]
    thick = alt.Chart(middle).mark_line(strokeWidth=2.5, color="black").encode(x=x, y=y)
    layers = [lines, *(points if len(lonely) else []), thick]
    counts = group["colour"].value_counts()
    text = listed((f"{many} {name}" for name, many in counts.items()), NAMED)
    title = head(
        f"cluster {cluster} (n = {len(group)})",
        text if table["colour"].nunique() > 1 else "",
        limit=WIDTH + 30,
    )
    return alt.layer(*layers, width=WIDTH, height=HEIGHT, title=title)
