"""Families as groups of alike networks: one of no known family is a group by itself."""

from __future__ import annotations

import pandas as pd


def families_of(networks: pd.DataFrame) -> pd.Series[str]:
    """Return the family of each network, ``source:architecture`` where none is known.

    Parameters
    ----------
    networks : pandas.DataFrame
        ``family``, ``source`` and ``architecture``.
    """
    families = networks["family"].astype("object").fillna("")
    alone = networks["source"].astype(str) + ":" + networks["architecture"].astype(str)
    return families.where(families != "", alone)
