"""Means over the checkpoints of architectures, where some checkpoints were measured repeatedly."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def checkpoint_means(
    runs: pd.DataFrame,
    point: Sequence[str],
    names: Sequence[str],
    checkpoint: Sequence[str] = ("checkpoint",),
    *,
    skipna: bool = True,
) -> pd.DataFrame:
    """Return the means of each point over its checkpoints, each with the mean over its runs.

    Parameters
    ----------
    runs : pandas.DataFrame
        One row a run.
    point : sequence of str
        The columns whose values make a point, such as those of an architecture and a dataset.
    names : sequence of str
        The columns of numbers.
    checkpoint : sequence of str
        The columns in which the repeats of a point are equal.
    skipna : bool
        Whether a run without a number is left out; else its point has none.

    Returns
    -------
    pandas.DataFrame
        The numbers by point, in order of the points.
    """
    # As they come: the mean of a point whose runs are no repeats is theirs to the last digit.
    each = runs.groupby([*point, *checkpoint], sort=False, dropna=False)[list(names)]
    repeats = each.mean(skipna=skipna)
    return repeats.groupby(list(point), dropna=False).mean(skipna=skipna)
