"""Means over networks, which are the units that replicate a contrast, and their test.

The sites of one network depend on each other, so that no number of them tells chance from a
difference; networks do. Each architecture counts once, with the mean over its checkpoints.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pandas as pd

from analysis.array_types import Floats
from analysis.data.checkpoint_means import checkpoint_means
from analysis.data.random_weights import trained
from analysis.data.tables import Row
from analysis.statistics.p_values import corrected
from analysis.statistics.permutations import signs_p
from analysis.text import chance
from survey.text import counted

#: The level of a row that is the mean over the networks of a dataset.
ALL = "all"

#: The columns in which repeats of a network or pair are equal.
_CHECKPOINT = ("checkpoint", "initial")


def network_means(
    rows: Iterable[Row],
    names: Sequence[str],
    tested: str,
    *,
    counts: Sequence[str] = (),
    untrained: bool = False,
) -> Iterator[Row]:
    """Yield the means over the networks of each dataset, with the test of one of them.

    Parameters
    ----------
    rows : iterable of dict
        One a network or pair of networks: ``architecture``, ``checkpoint``, ``initial`` (the random
        weights of a pair, where it has any), ``dataset`` and, where they are known, the numbers.
    names : sequence of str
        The numbers.
    tested : str
        The one of them that is 0 where there is no difference; a row without it does not count.
    counts : sequence of str
        Numbers of sites, of which the sum is taken.
    untrained : bool
        Whether random weights (``init:...``) count.

    Yields
    ------
    dict
        ``level``, ``dataset``, ``n`` (architectures), the means over them, the sums of counts, and
        ``p`` (see ``signs_p``; not below 2 / 2^n) of ``tested``; or ``reason``.
    """
    columns = ["architecture", *_CHECKPOINT, "dataset", *names, *counts]
    frame = pd.DataFrame(list(rows), columns=columns).astype(dict.fromkeys(names, "float64"))
    counting = frame[tested].notna() & (untrained | trained(frame["checkpoint"]))
    for dataset in dict.fromkeys(frame["dataset"]):
        known = frame[counting & (frame["dataset"] == dataset)]
        row: Row = {"level": ALL, "dataset": dataset, "n": 0}
        row |= {name: int(known[name].sum()) for name in counts}
        if known.empty:
            yield row | {"reason": "nothing that counts can be compared"}
            continue
        networks = checkpoint_means(known, ["architecture"], names, _CHECKPOINT)
        row |= {"n": len(networks), **dict(zip(names, networks.mean(), strict=True))}
        if len(networks) == 1:
            yield row | {"reason": "one network: no test"}
            continue
        yield row | {"p": signs_p(networks[tested].to_numpy(float)), "reason": ""}


def over_networks(means: pd.DataFrame, noun: str = "network") -> str:
    """Return on how many networks means stand, and how likely chance made them, as a clause.

    Parameters
    ----------
    means : pandas.DataFrame
        The rows of ``network_means``, at least one.
    noun : str
        What a unit is called.
    """
    several = len(means) > 1
    method = "sign flips, Holm's correction, " if several else "sign flips, "
    clauses = [
        (f"{chance(p)}, {method}" if pd.notna(p) else "no test: ")
        + counted(int(row["n"]), noun)
        + (f" on {row['dataset']}" if several else "")
        for p, row in zip(corrected_p(means), means.to_dict("records"), strict=True)
    ]
    return "; ".join(clauses)


def corrected_p(means: pd.DataFrame) -> Floats:
    """Return the p-values of the rows of ``network_means``, corrected for their number (Holm)."""
    return corrected(means["p"])[0]
