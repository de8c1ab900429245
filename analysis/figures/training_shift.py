"""Training: signatures of networks at initialisation and after training (Fig. 9)."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.contrasts.training_shift import SETTING, training_finding, training_shift
from analysis.data.model_names import measured_on
from analysis.data.provenance import narrowed
from analysis.data.random_weights import trained
from analysis.data.rows_of_runs import of_runs
from analysis.figures.figure import Figure, figure, first_of, head, side_by_side
from analysis.figures.marks.depth_axis import depth_choice, depths, over_depth
from analysis.figures.marks.hollow_marks import hollow_note
from analysis.figures.theme import ACCENT, CONTRAST, line_legend

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 3, 250, 170

#: Most panels.
MOST = 24

#: Which runs of a selection are shown.
_BOTH = "architectures with initial and trained weights"

STATES = ("initial", "trained")


def training_rows(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the sites of every architecture that was measured both untrained and trained.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``.

    Returns
    -------
    pandas.DataFrame
        ``panel`` (architecture and dataset), ``run_id``, ``checkpoint``, ``state`` (initial or
        trained), ``site``, ``relative_depth``, ``graph_depth``, ``affinity`` (NaN where there is
        no score), ``few_images`` (whether the site has that flag).
    """
    rows = depths(signatures)
    rows["state"] = trained(rows["checkpoint"]).map({False: STATES[0], True: STATES[1]})
    both = rows.groupby(list(SETTING), dropna=False)["state"].transform("nunique") == 2
    by_name = rows.groupby(["architecture", "dataset", "pooling"])["source"]
    sources = (rows["source"] + ":").where(by_name.transform("nunique") > 1, "")
    runs = rows.drop_duplicates("run_id").to_dict("records")
    where = rows["run_id"].map({run["run_id"]: measured_on(run) for run in runs}).astype("str")
    rows["panel"] = sources + rows["architecture"] + " on " + where
    names = ["panel", "run_id", "checkpoint", "state", "site", "relative_depth", "graph_depth"]
    return rows.loc[both, [*names, "affinity", "few_images"]].reset_index(drop=True)


def training_chart(signatures: pd.DataFrame) -> Figure:
    """Draw signatures before and after training, a panel an architecture.

    Of more than 24 architectures the first are drawn, in the order of the rows. Its parameters are
    those of ``training_rows``.
    """
    rows = training_rows(signatures)
    names, left_out = first_of(list(dict.fromkeys(rows["panel"])), MOST, "the first")
    shown = rows[rows["panel"].isin(names)]
    panels = [_panel(group) for _, group in shown.groupby("panel", sort=False)]
    return figure(
        side_by_side(panels, COLUMNS, "no architecture has initial and trained weights"),
        training_finding(training_shift(signatures)),
        note="A line a checkpoint, a gap where a site has no score."
        + hollow_note(shown)
        + left_out,
        source=narrowed(of_runs(signatures, rows), _BOTH),
        width=max(520, min(len(panels), COLUMNS) * (WIDTH + 55)),
        params=[depth_choice(shown)],
    )


def _panel(group: pd.DataFrame) -> Any:
    shown, domain = line_legend(columns=2), list(STATES)
    colours = alt.Scale(domain=domain, range=[CONTRAST, ACCENT])
    dashes = alt.Scale(domain=domain, range=[[5, 3], [1, 0]])
    colour = alt.Color("state:N", scale=colours, legend=shown)

    def strokes(base: Any) -> Any:
        return base.mark_line(strokeWidth=1.5).encode(
            detail="run_id:N",
            order="site:Q",
            color=colour,
            strokeDash=alt.StrokeDash("state:N", scale=dashes, legend=shown),
        )

    def points(base: Any) -> Any:
        return base.mark_point(filled=True, opacity=1, size=26).encode(
            color=colour,
            # No scale, or the legend would draw its dashes around shapes.
            shape=alt.condition(
                f"datum.state == '{STATES[0]}'", alt.value("square"), alt.value("circle")
            ),
        )

    runs = group.drop_duplicates("run_id")["state"].value_counts()
    counts = f"({runs['initial']} initial, {runs['trained']} trained)"
    return over_depth(group, strokes, points, width=WIDTH, height=HEIGHT, size=26).properties(
        title=head(str(group["panel"].iloc[0]), counts)
    )
