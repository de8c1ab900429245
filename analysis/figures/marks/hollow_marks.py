"""Hollow marks: sites with no more images than channels, whose score depends on their number."""

from __future__ import annotations

from typing import Any

import pandas as pd


def few_images(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return which rows of sites have the flag ``few_images``; none where no flags are known."""
    flags = rows["flags"] if "flags" in rows else [()] * len(rows)
    return pd.Series(["few_images" in each for each in flags], index=rows.index, dtype="bool")


def hollowed(points: Any, rows: pd.DataFrame, size: float) -> list[Any]:
    """Return a white dot within the marks of flagged sites, as a layer; none without any.

    Parameters
    ----------
    points : altair.Chart
        The chart of the marks, with their places encoded.
    rows : pandas.DataFrame
        Its rows, with ``few_images``.
    size : float
        Area of the marks, in square pixels.
    """
    if not rows["few_images"].any():
        return []
    flagged = points.transform_filter("datum.few_images")
    return [flagged.mark_circle(size=0.4 * size, color="white", opacity=1)]


def hollow_note(rows: pd.DataFrame, score: str = "affinity") -> str:
    """Return what hollow marks mean, where rows with a score have any; else nothing."""
    hollow = rows["few_images"] & rows[score].notna()
    return " Hollow: few_images, no more images than channels." if hollow.any() else ""
