"""Representative models, for figures that cannot show all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

#: How a subtitle says which models ``sample`` takes.
SAMPLED = "of each family evenly many, from the lowest median affinity to the highest"


def sample(lines: pd.DataFrame, most: int) -> list[Any]:
    """Return representative runs: of each family evenly many, over its range of medians.

    A family's runs are taken in even steps of their rank by median affinity, its lowest and its
    highest among them, or its middle one where it is to have only one. A small family gives all
    of its runs, and its room to the others; where families outnumber the runs that are wanted,
    the smallest give none.

    Parameters
    ----------
    lines : pandas.DataFrame
        ``run_id``, ``family``, ``affinity``; a row a site.
    most : int
        How many runs at most, from 1.

    Returns
    -------
    list
        Ids of runs that have a score.
    """
    runs = lines.groupby("run_id").agg(family=("family", "first"), median=("affinity", "median"))
    ordered = runs.dropna(subset="median").reset_index().sort_values(["median", "run_id"])
    group = {name: list(each["run_id"]) for name, each in ordered.groupby("family")}
    shares = _shares({name: len(runs) for name, runs in group.items()}, most)
    return [run for name, share in shares.items() for run in _spread(group[name], share)]


def _shares(sizes: dict[Any, int], most: int) -> dict[Any, int]:
    """Return the share of each family: equal ones, with the rest that small families leave."""
    shares, left = {}, most
    ascending = sorted(sizes, key=lambda name: (sizes[name], str(name)))
    for place, name in enumerate(ascending):
        shares[name] = min(sizes[name], left // (len(ascending) - place))
        left -= shares[name]
    return shares


def _spread(runs: list[Any], number: int) -> list[Any]:
    if number == 1:
        return [runs[(len(runs) - 1) // 2]]
    return [runs[place] for place in np.linspace(0, len(runs) - 1, number).round().astype(int)]
