"""Hollow marks: sites with no more images than channels, whose score depends on their number."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.figures.theme import with_mark


def few_images(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of sites have the flag ``few_images``; none where no flags are known."""
    flags = rows["flags"] if "flags" in rows else [()] * len(rows)
    return pd.Series(["few_images" in each for each in flags], index=rows.index, dtype="bool")


def hollowed(
    points: Any, rows: pd.DataFrame, size: float, shape: alt.Shape | None = None
) -> list[Any]:
    """Return white marks within those of flagged sites, as a layer; none without any.

    Parameters
    ----------
    points : altair.Chart
        The chart of the marks, with their places encoded.
    rows : pandas.DataFrame
        Its rows, with ``few_images``.
    size : float
        Area of the marks, in square pixels.
    shape : altair.Shape, optional
        The shape of the marks; a circle by default, which would cover a triangle.
    """
    if not rows["few_images"].any():
        return []
    flagged = points.transform_filter("datum.few_images")
    white = with_mark(flagged, "point", filled=True, size=0.4 * size, color="white", opacity=1)
    return [white if shape is None else white.encode(shape=shape)]


def hollow_note(rows: pd.DataFrame, score: str = "affinity") -> str:
    """Return what hollow marks mean, where rows with a score have any; else nothing."""
    hollow = rows["few_images"] & rows[score].notna()
    return " Hollow: few_images, no more images than channels." if hollow.any() else ""
