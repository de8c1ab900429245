"""Training: how signatures differ from those of random initialisations (Fig. 9).

Owns the comparison of checkpoints with the random initialisation of the same architecture.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from analysis.array_types import Floats
from analysis.contrasts.network_means import ALL, corrected_p, network_means
from analysis.data.checkpoint_means import checkpoint_means
from analysis.data.model_names import measured_on
from analysis.data.paired_sites import paired
from analysis.data.random_weights import is_untrained
from analysis.data.tables import Row, result_table
from analysis.data.validation import require_columns
from analysis.statistics.p_values import SIGNIFICANT
from analysis.statistics.pearson import constant
from analysis.text import chance, number
from survey.text import counted

#: What must be equal for two runs to differ in their training alone.
SETTING = ("source", "architecture", "dataset", "pooling")

#: Sites below which there is no trend.
LEAST_SITES = 4

COLUMNS = {
    **dict.fromkeys(("level", "source", "model", "family", "dataset"), "str"),
    **dict.fromkeys(("initial", "trained"), "str"),
    **dict.fromkeys(("n", "sites"), "int64"),
    **dict.fromkeys(("mean_initial", "mean_trained", "shift", "lowered"), "float64"),
    **dict.fromkeys(("trend_initial", "trend_trained", "dtw", "euclidean", "p"), "float64"),
    "reason": "str",
}

#: The numbers with a mean over networks.
_NUMBERS = tuple(name for name, kind in COLUMNS.items() if kind == "float64")[:-1]

_NEEDED = ("run_id", *SETTING, "checkpoint", "family", "site", "affinity")


def training_shift(signatures: pd.DataFrame) -> pd.DataFrame:
    """Compare each trained checkpoint with each random initialisation of its architecture.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``source``, ``architecture``, ``checkpoint``
        (``init:...`` for a random initialisation), ``dataset``, ``pooling``, ``family``, ``site``
        and ``affinity``.

    Returns
    -------
    pandas.DataFrame
        One row a trained run and an untrained one of the same source, architecture, dataset and
        pooling, and one a dataset for the means over its networks: ``level`` (pair or all),
        ``source``, ``model`` (the architecture), ``family``, ``dataset`` (with the pooling unless
        that is mean), ``initial`` and ``trained`` (the checkpoints), ``n`` (architectures, of which
        each counts once, with the mean over its pairs; 1 for a pair), ``sites`` (that have an
        affinity in both), ``mean_initial`` and ``mean_trained`` (affinity over these sites),
        ``shift`` (trained less initial), ``lowered`` (share of the sites that training made less
        linear), ``trend_initial`` and ``trend_trained`` (Spearman's correlation of affinity with
        the site's number), ``dtw`` and ``euclidean`` (distances between the two over these sites),
        ``p`` (over all, of the shift: see ``analysis.contrasts.network_means``), ``reason`` (why
        something is blank; empty if nothing is).

    Raises
    ------
    SettingsError
        If a column is missing.

    Notes
    -----
    The unit of replication is the network: the sites of one depend on each other. Where several
    initialisations were measured, each has its row.
    """
    require_columns(signatures, _NEEDED)
    rows = list(_rows(signatures))
    means = (
        {"model": ALL} | row for row in network_means(rows, _NUMBERS, "shift", counts=("sites",))
    )
    return result_table([*rows, *means], COLUMNS, signatures)


def training_finding(shift: pd.DataFrame) -> str:
    """Return where training moves the mean affinity of architectures, as a sentence.

    Parameters
    ----------
    shift : pandas.DataFrame
        From ``training_shift``.
    """
    known = shift[shift["shift"].notna()]
    every, pairs = known[known["level"] == ALL], known[known["level"] != ALL]
    if every.empty:
        return (
            "No architecture was measured both with random and with trained weights on the same"
            " dataset, with the same pooling"
        )
    point = ["dataset", "source", "model"]
    networks = checkpoint_means(pairs, point, ["shift"], ("initial", "trained"))["shift"]
    several = len(every) > 1
    clauses = [
        _clause(row, p, networks.loc[row["dataset"]], several=several)
        for p, row in zip(corrected_p(every), every.to_dict("records"), strict=True)
    ]
    return f"Training {'; it '.join(clauses)}"


def _clause(row: Mapping[Hashable, Any], p: float, shifts: pd.Series[float], several: bool) -> str:
    """Return what training does to the mean affinity on a dataset, without its subject."""
    start, end = number(row["mean_initial"]), number(row["mean_trained"])
    alike = start == end
    moves = "lowers" if row["shift"] < 0 else "raises"
    ends = f"{start} before and after" if alike else f"from {start} to {end}"
    if len(shifts) == 1:
        moves = "hardly moves" if alike else moves
        _, model = shifts.index[0]
        return f"{moves} the mean affinity of {model} on {row['dataset']}, {ends}: one, no test"
    if alike or not p <= SIGNIFICANT:
        moves = "shows no effect beyond chance on"
    on = f" on {row['dataset']}" if several else ""
    tested = f"{chance(p)}, sign flips{', corrected' if several else ''}"
    return (
        f"{moves} the mean affinity{on}, {ends} on average, and it falls in"
        f" {int((shifts < 0).sum())} of {counted(len(shifts), 'architecture')} ({tested})"
    )


def _rows(signatures: pd.DataFrame) -> Iterator[Row]:
    for _, runs in signatures.groupby(list(SETTING), sort=True):
        networks = [sites for _, sites in runs.groupby("run_id", sort=False)]
        named = [(str(sites["checkpoint"].iloc[0]), sites) for sites in networks]
        untrained = [each for each in named if is_untrained(each[0])]
        for trained, sites in named:
            for initial, origin in () if is_untrained(trained) else untrained:
                first = sites.iloc[0]
                basics = {"model": first["architecture"], "family": first["family"]}
                basics |= {
                    "source": first["source"],
                    "level": "pair",
                    "n": 1,
                    "checkpoint": trained,
                }
                basics["architecture"] = first["source"], first["architecture"]
                basics["dataset"] = measured_on(first)
                basics |= {"initial": initial, "trained": trained}
                yield basics | _numbers(*paired(origin, sites))


def _numbers(before: Floats, after: Floats) -> Row:
    n = len(before)
    if n == 0:
        return {"sites": 0, "reason": "no site has an affinity in both"}
    from analysis.statistics.dtw import dtw

    moved = after - before
    row: Row = {"sites": n, "mean_initial": before.mean(), "mean_trained": after.mean()}
    row |= {"shift": moved.mean(), "lowered": (moved < 0).mean(), "dtw": dtw(before, after)}
    row |= {"euclidean": np.linalg.norm(moved)}
    if n < LEAST_SITES:
        sites = counted(n, "site")
        return row | {"reason": f"{sites}, at least {LEAST_SITES} are needed for a trend"}
    row |= {"trend_initial": _trend(before), "trend_trained": _trend(after)}
    flat = [name for name, each in (("initial", before), ("trained", after)) if constant(each)]
    reason = f"the {' and the '.join(flat)} affinity does not vary: no trend" if flat else ""
    return row | {"reason": reason}


def _trend(values: Floats) -> float:
    """Return the rank correlation of values with their order; NaN where they do not vary."""
    if constant(values):
        return np.nan
    return float(spearmanr(np.arange(len(values)), values).statistic)
