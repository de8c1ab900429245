"""Model names in tables and figures: the shortest label that is unique among the runs shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations, count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: A row of ``runs``.
Run = Mapping[str, Any]

#: The least digits of a run's id in a label, where runs differ in nothing else.
ID_DIGITS = 8


def labels(runs: Iterable[Run]) -> dict[str, str]:
    """Return a label for each run that no other of them has.

    Parameters
    ----------
    runs : iterable of mapping
        Rows of ``runs``: ``run_id``, ``source``, ``architecture``, ``checkpoint``, ``dataset`` and
        ``pooling``.

    Returns
    -------
    dict of str to str
        By run id: the architecture; where several runs have it, with as few as possible of
        ``source:`` before it and ``@checkpoint``, ``on dataset``, ``pooled POOLING`` behind it;
        where these do not tell them apart, with the first digits of the run's id.
    """
    namesakes: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        namesakes[run["architecture"]].append(run)
    return {
        run["run_id"]: label
        for group in namesakes.values()
        for run, label in zip(group, _unique_labels(group), strict=True)
    }


def _unique_labels(runs: Sequence[Run]) -> list[str]:
    by_parts = (
        [_label(run, parts) for run in runs]
        for number in range(len(_PARTS) + 1)
        for parts in combinations(_PARTS, number)
    )
    by_id = (
        [f"{run['architecture']} {run['run_id'][:digits]}" for run in runs]
        for digits in count(ID_DIGITS)
    )
    return next(each for each in chain(by_parts, by_id) if len(set(each)) == len(runs))


def short_checkpoint(run: Run) -> str:
    """Return a checkpoint's name, without the architecture's where it begins with that."""
    name, full = str(run["checkpoint"]), f"{run['source']}:{run['architecture']}"
    return name[len(full) + 1 :] if name.startswith((f"{full}/", f"{full}.")) else name


def trained(checkpoints: pd.Series[str]) -> pd.Series[bool]:
    """Return which checkpoints are not random weights (``init:...``)."""
    return ~checkpoints.str.startswith("init:").fillna(value=False).astype(bool)


def measured_on(dataset: object, pooling: object) -> str:
    """Return what a run was measured on: the dataset, with the pooling unless that is mean."""
    return str(dataset) if pooling == "mean" else f"{dataset}, pooled {pooling}"


def _label(run: Run, parts: Sequence[str]) -> str:
    pieces = {name: _PARTS[name](run) if name in parts else "" for name in _PARTS}
    return "{source}{architecture}{checkpoint}{dataset}{pooling}".format(
        architecture=run["architecture"], **pieces
    )


#: What a label may add to the architecture, in order of preference.
_PARTS: Mapping[str, Callable[[Run], str]] = {
    "checkpoint": lambda run: f"@{short_checkpoint(run)}",
    "dataset": lambda run: f" on {run['dataset']}",
    "source": lambda run: f"{run['source']}:",
    "pooling": lambda run: f" pooled {run['pooling']}",
}
