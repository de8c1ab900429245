"""Accuracies: how far those of a group differ, beside how far chance alone would move them.

Owns no regression: it says what one has to explain, and whether that is anything at all.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.given import MODELS, require_columns
from analysis.labels import measured_on, trained
from analysis.provenance import carried

COLUMNS = {
    "group": "str",
    "dataset": "str",
    "n": "int64",
    "images": "int64",
    "span": "float64",
    "std": "float64",
    "sampling_error": "float64",
    "within_chance": "bool",
}


def accuracy_spread(models: pd.DataFrame) -> pd.DataFrame:
    r"""Hold the differences between accuracies against the error of having seen so many images.

    An accuracy p over n images has the standard error sqrt(p (1 - p) / n) of a share. Networks that
    differ by no more than that would be in another order on other images, and whatever explains
    their order explains chance.

    Parameters
    ----------
    models : pandas.DataFrame
        Rows of ``analysis.models``: ``family_group``, ``checkpoint``, ``dataset``, ``pooling``,
        ``measured_top1`` and ``images``. Runs without a group, without a measured accuracy, or of
        random weights (``init:...``) have no part in this.

    Returns
    -------
    pandas.DataFrame
        One row a group of families and dataset (with the pooling unless that is mean) with at least
        two models: ``group``, ``dataset``, ``n`` (models), ``images`` (the fewest that one saw),
        ``span`` (largest less smallest accuracy, a fraction), ``std`` (their sample deviation),
        ``sampling_error`` (the root of the mean of the squared standard errors), ``within_chance``
        (whether the deviation is at most that).

    Notes
    -----
    Networks that saw the same images err on the same ones, so that their differences are surer than
    independent samples' would be: ``within_chance`` does not show that networks are equal.
    """
    needed = ("family_group", "checkpoint", "dataset", "pooling", "measured_top1", "images")
    require_columns(models, needed, MODELS)
    known = models[trained(models["checkpoint"]) & models["measured_top1"].notna()]
    known = known[known["images"].fillna(0) > 0]
    pairs = zip(known["dataset"], known["pooling"], strict=True)
    on = [measured_on(*each) for each in pairs]
    rows = []
    for (group, dataset), own in known.assign(on=on).groupby(["family_group", "on"], sort=True):
        if len(own) < 2:
            continue
        top1, images = own["measured_top1"].to_numpy(float), own["images"].to_numpy(float)
        error, std = float(np.sqrt(np.mean(top1 * (1 - top1) / images))), float(top1.std(ddof=1))
        span, few = float(np.ptp(top1)), int(images.min())
        rows.append((group, dataset, len(own), few, span, std, error, std <= error))
    return carried(pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS), models)


def chance_words(spread: pd.DataFrame, least: int = 2) -> list[str]:
    """Say of which groups the accuracies differ by no more than chance moves them.

    Parameters
    ----------
    spread : pandas.DataFrame
        What ``accuracy_spread`` found.
    least : int
        Groups of fewer models are passed over.

    Returns
    -------
    list of str
        One clause a group; empty where all differ by more.
    """
    rows = spread[spread["within_chance"] & (spread["n"] >= least)]
    return [
        f"accuracies of the {row['n']} {row['group']} networks on {row['dataset']} span"
        f" {row['span'] * row['images']:.0f} of {row['images']:,} images: less than chance moves"
        f" them (standard error {row['sampling_error'] * row['images']:.1f} images)"
        for row in rows.to_dict("records")
    ]
