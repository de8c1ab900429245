"""Residual against plain: whether activations after an addition are nearer to linear (Fig. 5D).

Owns which sites follow a shortcut's addition, and two comparisons: of those sites with the others
of their network, and of a residual network with its plain twin.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd

from analysis.contrasts.network_means import ALL, corrected_p, network_means, over_networks
from analysis.data.checkpoint_means import checkpoint_means
from analysis.data.model_names import measured_on
from analysis.data.paired_sites import last_run_each, paired
from analysis.data.random_weights import trained
from analysis.data.tables import Row, result_table
from analysis.data.validation import require_columns
from analysis.statistics.effect_size import cliffs_delta
from analysis.statistics.p_values import SIGNIFICANT
from analysis.text import number, span
from survey.text import counted

#: Families whose blocks activate after the addition, as globs. In DenseNets and in residual
#: networks of the second version (arXiv:1603.05027) no activation follows it.
POST_ACTIVATION = ("*ResNet", "ResNeSt", "TResNet", "RegNet")

#: Architectures of those families that activate before their convolutions instead, or not after
#: the addition.
PRE_ACTIVATION = ("resnetv2*", "regnetz*", "regnetv*")

#: What the names of twins differ in: networks that differ in their shortcuts alone.
TWIN_NAMES = ("resnet", "plain")

#: What makes two runs comparable beside their architectures.
SETTING = ("source", "checkpoint", "dataset", "pooling")

CONTRAST_COLUMNS = {
    **dict.fromkeys(("level", "model", "architecture", "family", "checkpoint", "dataset"), "str"),
    **dict.fromkeys(("n", "after", "others"), "int64"),
    **dict.fromkeys(("mean_after", "mean_others", "median_after", "median_others"), "float64"),
    **dict.fromkeys(("difference", "cliffs_delta", "p"), "float64"),
    "reason": "str",
}

TWIN_COLUMNS = {
    **dict.fromkeys(("level", "residual", "plain", "checkpoint", "dataset"), "str"),
    "n": "int64",
    **dict.fromkeys(("median_residual", "median_plain", "difference", "std_residual"), "float64"),
    **dict.fromkeys(("std_plain", "p"), "float64"),
    "reason": "str",
}

_NEEDED = (
    *("run_id", "model", "architecture", "family", *SETTING, "site", "role", "repeat", "affinity"),
)

_NEEDED_OF_TWINS = ("run_id", "model", "architecture", *SETTING, "site", "affinity")

#: Numbers of a network, and of a pair of twins, with a mean over networks.
_CONTRASTS = tuple(name for name, kind in CONTRAST_COLUMNS.items() if kind == "float64")[:-1]
_TWIN_NUMBERS = tuple(name for name, kind in TWIN_COLUMNS.items() if kind == "float64")[:-1]


def post_shortcut(signatures: pd.DataFrame) -> pd.Series[bool]:
    """Return which sites take the sum of a block and its shortcut.

    A block is a run of sites of one network whose ``repeat`` counts up from 1. Where it counts at
    least two, and the family activates after the addition (``POST_ACTIVATION``), its last main
    site is the one after the addition.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``site``, ``architecture``, ``family``,
        ``role`` and ``repeat``.

    Returns
    -------
    pandas.Series of bool
        One value a row, by the frame's index. A plain twin has none.
    """
    # Frames put together may have several rows of one index.
    numbered = signatures.reset_index(drop=True)
    ordered = numbered.sort_values(["run_id", "site"], kind="stable")
    main = ordered[ordered["role"] == "main"]
    run, repeat = main["run_id"], main["repeat"]
    # The sites of a gate lie between those of its block, and are counted with them.
    goes_on = (run.shift(-1) == run) & (repeat.shift(-1) > repeat)
    last = (repeat >= 2) & ~goes_on
    after = _of_each(main["family"], POST_ACTIVATION)
    before = _of_each(main["architecture"], PRE_ACTIVATION)
    result = (last & after & ~before).reindex(numbered.index, fill_value=False)
    return result.astype(bool).set_axis(signatures.index)


def residual_contrast(signatures: pd.DataFrame, *, untrained: bool = False) -> pd.DataFrame:
    """Compare the sites after each network's additions with its other sites.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``, as ``post_shortcut`` reads them, with ``model``,
        ``source``, ``checkpoint``, ``dataset``, ``pooling`` and ``affinity``. Gates are left out.
    untrained : bool
        Whether random weights (``init:...``) count over all; each has its own row either way.

    Returns
    -------
    pandas.DataFrame
        One row a network that has sites after an addition, and one a dataset for the means over its
        networks: ``level`` (network or all), ``model``, ``architecture`` (with its source),
        ``family``, ``checkpoint``, ``dataset`` (with the pooling unless that is mean), ``n``
        (architectures, of which each counts once, with the mean over its checkpoints; 1 for a
        network), ``after`` and ``others`` (how many sites, with an affinity), ``mean_after``,
        ``mean_others``, ``median_after``, ``median_others``, ``difference`` (of the means, after
        less others), ``cliffs_delta`` in [-1, 1] (1 where every site after an addition is more
        linear than every other one), ``p`` (over all: see ``analysis.contrasts.network_means``),
        ``reason`` (why something is blank; empty if nothing is).

    Raises
    ------
    SettingsError
        If a column is missing.

    Notes
    -----
    The unit of replication is the network: its sites alternate between the two kinds, and depend on
    each other, so that one network alone shows no more than the difference of two samples of one.
    """
    require_columns(signatures, _NEEDED)
    sites = signatures.assign(after=post_shortcut(signatures))
    sites = sites[sites["role"] == "main"]
    networks = (network for _, network in sites.groupby("run_id", sort=False))
    rows = [_contrast_row(network) for network in networks if network["after"].any()]
    counts = ("after", "others")
    means = network_means(rows, _CONTRASTS, "difference", counts=counts, untrained=untrained)
    every = ({"model": ALL} | row for row in means)
    result = result_table([*rows, *every], CONTRAST_COLUMNS, signatures)
    result.attrs["untrained"] = untrained
    return result


def twins(signatures: pd.DataFrame, *, untrained: bool = False) -> pd.DataFrame:
    """Compare residual networks with plain ones that differ in the shortcuts alone.

    Twins are architectures whose names differ in ``resnet`` and ``plain``, of one source, measured
    with checkpoints of one name on one dataset with one pooling, and with equally many sites.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``architecture``, ``source``,
        ``checkpoint``, ``dataset``, ``pooling``, ``site`` and ``affinity``.
    untrained : bool
        Whether random weights (``init:...``) count over all pairs; each has its own row either way.

    Returns
    -------
    pandas.DataFrame
        ``level`` (pair, or all of a dataset), ``residual`` and ``plain`` (labels of the two),
        ``checkpoint``, ``dataset`` (with the pooling unless that is mean), ``n`` (sites that both
        have an affinity at; pairs of architectures, where level is all: each counts once, with
        the mean over its checkpoints), ``median_residual``, ``median_plain``,
        ``difference`` (residual less plain; of the medians, over all pairs their mean),
        ``std_residual`` and ``std_plain`` (sample deviation over the sites; over all pairs their
        mean), ``p`` (over all pairs: the chance of so large a mean difference of medians if signs
        were chance; see ``analysis.contrasts.network_means``), ``reason`` (why something is blank;
        empty if nothing is).

    Raises
    ------
    SettingsError
        If a column is missing.

    Notes
    -----
    The unit of replication is the pair of architectures: the sites of one pair depend on each other
    and test nothing.
    """
    require_columns(signatures, _NEEDED_OF_TWINS)
    rows = [_twin_row(one, other) for one, other in _twin_pairs(signatures)]
    means = network_means(rows, _TWIN_NUMBERS, "difference", untrained=untrained)
    every = ({"residual": ALL, "plain": ALL} | row for row in means)
    return result_table([*rows, *every], TWIN_COLUMNS, signatures)


def residual_finding(contrast: pd.DataFrame) -> str:
    """Return in how many networks the sites after a shortcut are closer to affine, as a sentence.

    Parameters
    ----------
    contrast : pandas.DataFrame
        From ``residual_contrast``; the networks count that its tests count.
    """
    one, untrained = contrast[contrast["level"] != ALL], contrast.attrs.get("untrained", False)
    known = one[one["cliffs_delta"].notna() & (untrained | trained(one["checkpoint"]))]
    datasets, network = known["dataset"].nunique(), "network" if untrained else "trained network"
    if known.empty:
        families = ", ".join(POST_ACTIVATION)
        return (
            f"No {network} of a family that activates after its shortcuts ({families}) has sites"
            " with a score both there and elsewhere"
        )
    networks = checkpoint_means(known, ["dataset", "architecture"], ["difference", "cliffs_delta"])
    effect = networks["cliffs_delta"]
    size = span(effect.min(), effect.max())
    many = (f"comparisons, of {network}s on {datasets} datasets",) if datasets > 1 else ()
    size += f", median {number(effect.median())}" if effect.nunique() > 1 else ""
    every = _compared(contrast)
    tested = (corrected_p(every) <= SIGNIFICANT).any()
    lead = "" if tested else "No difference beyond chance; "
    return (
        f"{lead}{'S' if tested else 's'}ites after the shortcut are closer to affine in"
        f" {int((networks['difference'] > 0).sum())} of {counted(len(networks), network, *many)}:"
        f" Cliff's delta {size} ({over_networks(every)})"
    )


def twins_finding(pairs: pd.DataFrame) -> str:
    """Return how far residual networks' medians are from their plain twins', as a sentence.

    Parameters
    ----------
    pairs : pandas.DataFrame
        From ``twins``.
    """
    every = _compared(pairs)
    if every.empty:
        return "No residual network was measured with its plain twin"
    means = " and ".join(number(each, 3) for each in every["difference"])
    tested = (corrected_p(every) <= SIGNIFICANT).any()
    lead = "" if tested else "No difference beyond chance; "
    return (
        f"{lead}{'R' if tested else 'r'}esidual networks' medians less their plain twins':"
        f" {means} on average ({over_networks(every, 'pair')})"
    )


def _compared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the means over networks."""
    return rows[(rows["level"] == ALL) & rows["difference"].notna()]


def _contrast_row(network: pd.DataFrame) -> Row:
    first = network.iloc[0]
    known = network[network["affinity"].notna()]
    after = known["affinity"][known["after"]].to_numpy(float)
    others = known["affinity"][~known["after"]].to_numpy(float)
    row: Row = {name: first[name] for name in ("model", "family", "checkpoint")}
    row |= {"level": "network", "dataset": measured_on(first)}
    row["architecture"] = f"{first['source']}:{first['architecture']}"
    row |= {"n": 1, "after": len(after), "others": len(others), "reason": ""}
    if len(after) == 0 or len(others) == 0:
        which = "after an addition" if len(after) == 0 else "elsewhere"
        return row | {"reason": f"no site {which} has an affinity"}
    row |= {"mean_after": after.mean(), "mean_others": others.mean()}
    row |= {"median_after": np.median(after), "median_others": np.median(others)}
    delta = cliffs_delta(after, others)
    return row | {"difference": after.mean() - others.mean(), "cliffs_delta": delta}


def _twin_pairs(signatures: pd.DataFrame) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Yield the sites of every residual network and of its twin."""
    residual, plain = TWIN_NAMES
    single = last_run_each(signatures)
    first = single.drop_duplicates("run_id")
    names = zip(*(first[name] for name in ("architecture", *SETTING)), strict=True)
    by_name = dict(zip(names, first["run_id"], strict=True))
    pairs = [
        (run, twin)
        for (name, *setting), run in by_name.items()
        if residual in name and (twin := by_name.get((name.replace(residual, plain, 1), *setting)))
    ]
    in_pairs = single[single["run_id"].isin({run for pair in pairs for run in pair})]
    sites = dict(iter(in_pairs.groupby("run_id", sort=False)))
    yield from ((sites[one], sites[other]) for one, other in pairs)


def _twin_row(one: pd.DataFrame, other: pd.DataFrame) -> Row:
    first = one.iloc[0]
    row: Row = {"level": "pair", "residual": first["model"], "plain": other["model"].iloc[0]}
    row["architecture"] = first["source"], first["architecture"]
    row |= {"checkpoint": first["checkpoint"], "dataset": measured_on(first), "n": 0}
    if len(one) != len(other):
        return row | {"reason": f"{len(one)} sites against {len(other)}"}
    a, b = paired(one, other)
    if len(a) == 0:
        return row | {"reason": "no site has an affinity in both"}
    medians = float(np.median(a)), float(np.median(b))
    row |= {"n": len(a), "median_residual": medians[0], "median_plain": medians[1]}
    row |= {"difference": medians[0] - medians[1], "reason": ""}
    if len(a) < 2:
        return row | {"reason": "one site: no deviation"}
    return row | {"std_residual": a.std(ddof=1), "std_plain": b.std(ddof=1)}


def _of_each(names: pd.Series[str], globs: tuple[str, ...]) -> pd.Series[bool]:
    """Return which names fit one of some patterns; each different name is compared once."""
    fits = {
        name: isinstance(name, str) and any(fnmatchcase(name, glob) for glob in globs)
        for name in names.unique()
    }
    return names.map(fits).astype(bool)
