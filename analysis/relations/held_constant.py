"""Which variables a partial correlation holds constant: those that enough architectures have."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.statistics.pearson import LEAST_SITES, constant

#: What a measure must add to: logarithms of the layers with weights on the longest path and of the
#: median site's channels, and the mean over sites of the share of outputs near zero.
GIVEN = ("depth", "width", "sparsity")

#: The least share of the architectures that must have what is held constant.
LEAST_SHARE = 0.5


def held_constant(runs: pd.DataFrame) -> tuple[tuple[str, ...], str]:
    """Return the variables of ``GIVEN`` to hold constant, and why not those that are known of few.

    One that few architectures have would leave only these for all the others. The best known comes
    first; what it leaves must be enough architectures, and at least half of them.

    Parameters
    ----------
    runs : pandas.DataFrame
        Rows of ``analysis.relations.network_measures.measured_runs``.
    """
    differ = [name for name in GIVEN if runs[name].notna().any() and not alike(runs[name])]
    total, kept = _architectures(runs), list[str]()
    for name in sorted(differ, key=lambda each: -runs[each].count()):
        left = _architectures(runs.dropna(subset=[*kept, name]))
        if left >= max(LEAST_SHARE * total, min(total, LEAST_SITES + len(kept) + 1)):
            kept.append(name)
    few = " and ".join(name for name in differ if name not in kept)
    given = tuple(name for name in differ if name in kept)
    return given, f"{few} not held constant: known of too few architectures" if few else ""


def alike(values: pd.Series[float]) -> bool:
    """Return whether all known values are one."""
    return constant(np.asarray(values.dropna(), float))


def _architectures(runs: pd.DataFrame) -> int:
    return len(runs[["source", "architecture"]].drop_duplicates())
