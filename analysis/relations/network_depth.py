"""Depth: how the typical affinity of a family's networks changes with their number of sites."""

from __future__ import annotations

import math

import pandas as pd

from analysis.data.provenance import carried
from analysis.data.validation import require_columns
from analysis.statistics.trend import Trend
from analysis.text import number
from survey.text import counted

#: Networks of a family that are compared: more are no longer followed one by one.
MOST_NETWORKS = 12

#: What a row of ``depths`` is known by.
NETWORK = ["family", "source", "architecture", "model", "run_id"]

_NEEDED = (*NETWORK, "site", "affinity")

#: What networks of one architecture have in common: they are one point of a trend.
_ARCHITECTURE = ["source", "architecture"]


def depths(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the networks of every family with several depths, the shallowest first.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``source``, ``architecture``,
        ``family``, ``site``, ``affinity``.

    Returns
    -------
    pandas.DataFrame
        One row a network: ``NETWORK``, ``sites``, ``median`` (of their affinity). Families of
        several architectures and of two to ``MOST_NETWORKS`` networks that differ in their sites.
    """
    require_columns(signatures, _NEEDED)
    networks = signatures.groupby(NETWORK, as_index=False).agg(
        sites=("site", "size"), median=("affinity", "median")
    )
    known = networks[networks["median"].notna()]
    family = known.assign(number=known.groupby(_ARCHITECTURE).ngroup()).groupby("family")
    varied = (family[["number", "sites"]].transform("nunique") > 1).all(axis="columns")
    kept = (family["sites"].transform("size") <= MOST_NETWORKS) & varied
    ordered = known[kept].sort_values(["family", "sites", "run_id"], ignore_index=True)
    return carried(ordered, signatures)


def depth_finding(networks: pd.DataFrame, families: int = 1) -> str:
    """Return whether the median affinity of one family changes with depth, as a sentence.

    It is said to change where the trend is beyond chance, which takes five networks, and its ends
    differ as they are printed.

    Parameters
    ----------
    networks : pandas.DataFrame
        One row a network of the family: ``NETWORK``, ``sites``, ``median``. Those of one
        architecture are one point of the trend, their mean.
    families : int
        Of how many families it is the one picked for its trend.
    """
    family, known = networks["family"].iloc[0], _architectures(networks)
    if len(known) < 2:
        count = counted(len(known), "architecture")
        return f"{family}: {count} with scores, no depths to compare"
    first, last = known.iloc[0], known.iloc[-1]
    trend = Trend.of(known["sites"], known["median"], tests=families)
    # The p of the one that is picked accounts for the others.
    picked = f" as the clearest of {families} families" if families > 1 else ""
    tested = f"{trend}{picked}, {counted(trend.n, 'architecture')}"
    start, end = number(first["median"]), number(last["median"])
    if verb := trend.verb(first["median"], last["median"]):
        return (
            f"{family}: the median affinity {verb} from {start} to {end} between"
            f" {first['sites']:g} and {last['sites']:g} sites ({tested})"
        )
    return (
        f"{family}: the median affinity shows no trend with depth: {start} at {first['sites']:g}"
        f" sites, {end} at {last['sites']:g} ({tested})"
    )


def depths_finding(networks: pd.DataFrame) -> str:
    """Return how many families have networks of several depths, and the clearest trend among them.

    Parameters
    ----------
    networks : pandas.DataFrame
        From ``depths``.
    """
    if networks.empty:
        return (
            f"No family of several architectures has two to {MOST_NETWORKS} networks that differ in"
            " their number of sites"
        )
    families = [rows for _, rows in networks.groupby("family")]
    clearest = min(families, key=_p)
    have = counted(len(families), "family has", "families have")
    return f"{have} networks of several depths: {depth_finding(clearest, len(families))}"


def _architectures(networks: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each architecture's networks with a score, the shallowest first."""
    known = networks[networks["median"].notna()]
    means = known.groupby(_ARCHITECTURE, sort=False)[["sites", "median"]].mean()
    return means.sort_values("sites", kind="stable")


def _p(networks: pd.DataFrame) -> float:
    known = _architectures(networks)
    p = Trend.of(known["sites"], known["median"]).p
    return 1.0 if math.isnan(p) else p
