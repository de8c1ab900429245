"""Figures: what to draw as tidy data, then the drawing.

Altair draws; vl-convert turns the drawing into SVG or PNG without a browser or network.
"""

from __future__ import annotations

from pathlib import Path

import altair as alt
import pandas as pd


def signature_lines(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return what a signature figure shows: affinity over relative depth, one line a run.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``.

    Returns
    -------
    pandas.DataFrame
        ``family``, ``model``, ``site``, ``depth`` (in [0, 1], 0 the first site), ``affinity``.
    """
    last = signatures.groupby("run_id")["site"].transform("max").clip(lower=1)
    model = signatures["architecture"] + " (" + signatures["checkpoint"] + ")"
    return signatures.assign(depth=signatures["site"] / last, model=model)[
        ["family", "model", "site", "depth", "affinity"]
    ]


def signature_chart(signatures: pd.DataFrame) -> alt.FacetChart:
    """Draw signatures, one panel a family.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``.
    """
    lines = signature_lines(signatures)
    # Most linear family first: the order says something, the alphabet does not.
    order = list(lines.groupby("family")["affinity"].mean().sort_values(ascending=False).index)
    drawn = (
        alt.Chart(lines)
        .mark_line(point=alt.OverlayMarkDef(size=22), strokeWidth=1.5, clip=True)
        .encode(
            x=alt.X("depth:Q", title="relative depth", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("affinity:Q", title="affinity score", scale=alt.Scale(domain=[0, 1])),
            color=alt.Color(
                "model:N", title=None, scale=alt.Scale(scheme="tableau10"),
                legend=alt.Legend(orient="bottom", columns=3),
            ),
        )
        .properties(width=250, height=230)
    )  # fmt: skip
    faceted: alt.FacetChart = drawn.facet(column=alt.Column("family:N", title=None, sort=order))
    styled: alt.FacetChart = faceted.configure_view(stroke="#ccc").configure_axis(gridColor="#eee")
    return styled


def save_signatures(signatures: pd.DataFrame, path: Path) -> None:
    """Draw signatures into an SVG or PNG file; see ``signature_chart``."""
    signature_chart(signatures).save(str(path))
