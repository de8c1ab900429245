"""Depth: how the typical affinity of a family's networks changes with their number of sites."""

from __future__ import annotations

import pandas as pd

from analysis.data.provenance import carried
from analysis.data.validation import require_columns
from analysis.text import number
from survey.text import counted

#: Networks of a family that are compared: more are no longer followed one by one.
MOST_NETWORKS = 12

_NEEDED = ("run_id", "model", "family", "site", "affinity")


def depths(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the networks of every family with several depths, the shallowest first.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``family``, ``site``, ``affinity``.

    Returns
    -------
    pandas.DataFrame
        One row a network: ``family``, ``model``, ``run_id``, ``sites``, ``median`` (of their
        affinity). Families of two to ``MOST_NETWORKS`` networks that differ in their sites.
    """
    require_columns(signatures, _NEEDED)
    networks = signatures.groupby(["family", "model", "run_id"], as_index=False).agg(
        sites=("site", "size"), median=("affinity", "median")
    )
    known = networks[networks["median"].notna()]
    sites = known.groupby("family")["sites"]
    kept = (sites.transform("size") <= MOST_NETWORKS) & (sites.transform("nunique") > 1)
    ordered = known[kept].sort_values(["family", "sites", "run_id"], ignore_index=True)
    return carried(ordered, signatures)


def depth_finding(networks: pd.DataFrame) -> str:
    """Return how the median affinity of one family changes with depth, as a sentence.

    Parameters
    ----------
    networks : pandas.DataFrame
        One row a network of the family, the shallowest first: ``family``, ``sites``, ``median``.
    """
    family, known = networks["family"].iloc[0], networks[networks["median"].notna()]
    if len(known) < 2:
        return f"{family}: {counted(len(known), 'model')} with scores, no depths to compare"
    first, last = known.iloc[0], known.iloc[-1]
    change = last["median"] - first["median"]
    moves = "hardly moves" if abs(change) < 0.01 else ("rises" if change > 0 else "falls")
    return (
        f"{family}: the median affinity {moves} from {number(first['median'])} to"
        f" {number(last['median'])} between {first['sites']} and {last['sites']} sites"
        f" (n = {len(known)} models)"
    )


def depths_finding(networks: pd.DataFrame) -> str:
    """Return how many families have networks of several depths, and how the first one's differ.

    Parameters
    ----------
    networks : pandas.DataFrame
        From ``depths``.
    """
    if networks.empty:
        return f"No family has two to {MOST_NETWORKS} networks that differ in their number of sites"
    first = networks[networks["family"] == networks["family"].iloc[0]]
    families = counted(networks["family"].nunique(), "family has", "families have")
    return f"{families} networks of several depths: {depth_finding(first)}"
