"""Spread of accuracies in a group of networks, beside that of sampling alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import chdtrc

from analysis.array_types import Floats
from analysis.data.model_names import measured_on
from analysis.data.paired_sites import last_run_each
from analysis.data.random_weights import trained
from analysis.data.tables import Row, result_table
from analysis.data.validation import MODELS, require_columns
from analysis.statistics.p_values import SIGNIFICANT

COLUMNS = {
    **dict.fromkeys(("group", "dataset"), "str"),
    **dict.fromkeys(("n", "images"), "int64"),
    **dict.fromkeys(("span", "std", "sampling_error", "q", "p"), "float64"),
    "within_chance": "bool",
}


def accuracy_spread(models: pd.DataFrame) -> pd.DataFrame:
    r"""Test whether networks of one true accuracy would differ as much on so many images each.

    With the shares x_i of n_i images and their weighted mean m = sum n_i x_i / sum n_i, networks of
    one accuracy have the squared standard errors s_i^2 = m (1 - m) / n_i, and Q = sum (x_i - m)^2 /
    s_i^2 follows the chi-squared distribution with n - 1 degrees of freedom [1]_.

    Parameters
    ----------
    models : pandas.DataFrame
        Rows of ``analysis.models``, the newest last: ``source``, ``architecture``,
        ``family_group``, ``checkpoint``, ``dataset``, ``pooling``, ``measured_top1`` and
        ``images``. Runs without a group, without a measured accuracy, or of random weights
        (``init:...``) have no part in this. Of several runs of one source, architecture,
        checkpoint, dataset and pooling the last counts.

    Returns
    -------
    pandas.DataFrame
        One row a group of families and dataset (with the pooling unless that is mean) with at least
        two networks: ``group``, ``dataset``, ``n`` (networks, each checkpoint one), ``images`` (the
        fewest that one saw), ``span`` (largest less smallest accuracy, a fraction), ``std`` (their
        sample deviation), ``sampling_error`` (the root of the mean of s_i^2), ``q``, ``p`` (chance
        of so large a Q among equal networks), ``within_chance`` (whether p is above
        ``SIGNIFICANT``).

    Notes
    -----
    The standard errors are those of the common accuracy: a network's own, sqrt(x_i (1 - x_i) /
    n_i), is 0 for one without a mistake. Networks that saw the same images err on the same ones, so
    that their differences are surer than independent samples' would be: ``within_chance`` does not
    show that networks are equal.

    References
    ----------
    .. [1] W. G. Cochran, "The chi-squared test of goodness of fit", Annals of Mathematical
       Statistics 23 (1952), 315-345, doi:10.1214/aoms/1177729380.
    """
    needed = ("family_group", "checkpoint", "dataset", "pooling", "measured_top1", "images")
    require_columns(models, needed, MODELS)
    known = models[trained(models["checkpoint"]) & models["measured_top1"].notna()]
    known = last_run_each(known[known["images"].fillna(0) > 0])
    on = [measured_on(run) for run in known.to_dict("records")]
    rows: list[Row] = []
    for (group, dataset), part in known.assign(on=on).groupby(["family_group", "on"], sort=True):
        if len(part) < 2:
            continue
        top1, images = part["measured_top1"].to_numpy(float), part["images"].to_numpy(float)
        error, q, p = _homogeneity(top1, images)
        row: Row = {"group": group, "dataset": dataset, "n": len(part), "images": images.min()}
        row |= {"span": np.ptp(top1), "std": top1.std(ddof=1), "sampling_error": error}
        rows.append(row | {"q": q, "p": p, "within_chance": p > SIGNIFICANT})
    return result_table(rows, COLUMNS, models)


def _homogeneity(shares: Floats, images: Floats) -> tuple[float, float, float]:
    """Return the usual standard error, Q and its p, were all shares of one accuracy."""
    common = float(shares @ images / images.sum())
    squares = common * (1 - common) / images
    # All right or all wrong: the standard errors are 0.
    q = float(((shares - common) ** 2 / squares).sum()) if np.ptp(shares) else 0.0
    return float(np.sqrt(squares.mean())), q, float(chdtrc(len(shares) - 1, q))


def chance_sentences(spread: pd.DataFrame, least: int = 2) -> list[str]:
    """Return of which groups the accuracies differ by no more than chance would make them.

    Parameters
    ----------
    spread : pandas.DataFrame
        From ``accuracy_spread``.
    least : int
        Groups of fewer networks are passed over.

    Returns
    -------
    list of str
        One sentence a group; empty where all differ by more.
    """
    rows = spread[spread["within_chance"] & (spread["n"] >= least)]
    return [
        f"Accuracies of the {row['n']} {row['group']} networks on {row['dataset']} differ by no"
        f" more than chance would make them (standard deviation {100 * row['std']:.2f} %, of chance"
        f" {100 * row['sampling_error']:.2f} %; p {row['p']:.2f})."
        for row in rows.to_dict("records")
    ]
