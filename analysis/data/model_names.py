"""Names of runs in tables and figures: of models, their checkpoints and datasets, all unique."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, count
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.data.short_names import short_names
from analysis.text import missing

if TYPE_CHECKING:
    import pandas as pd

#: A row of ``runs``.
Run = Mapping[str, Any]

#: Columns of names that people read: of models, checkpoints and datasets.
NAMES = ("model", "checkpoint_name", "dataset_name")

#: The least digits of a run's id in a label, where runs differ in nothing else.
ID_DIGITS = 8

#: Groups of names whose short ones are kept, and names of such a group.
_MOST_KEPT = 256


class _Named(NamedTuple):
    """A run, with what a label may be made of."""

    run_id: str
    name: str
    #: Empty where it is the name.
    architecture: str
    source: str
    checkpoint: str
    dataset: str
    pooling: str


def labels(runs: Iterable[Run]) -> dict[str, str]:
    """Return a label for each run that no other of them has.

    Parameters
    ----------
    runs : iterable of mapping
        Rows of ``runs``: ``run_id``, ``source``, ``architecture``, ``checkpoint``, ``dataset`` and
        ``pooling``; and ``label``, a name given by the user, where there is one. One twice counts
        once.

    Returns
    -------
    dict of str to str
        By run id: the user's label, else the architecture; where several runs have it, with as few
        as possible of ``source:`` and the architecture before it and ``@checkpoint``, ``on
        dataset``, ``pooled POOLING`` behind it, checkpoint and dataset by their short names; where
        these do not tell them apart, with the first digits of the run's id.
    """
    return names_of(runs)["model"]


def names_of(runs: Iterable[Run]) -> dict[str, dict[str, str]]:
    """Return the names that people read, each by run id, by the column that holds them.

    Its parameters are those of ``labels``.
    """
    every = list({run["run_id"]: run for run in runs}.values())
    checkpoints, datasets = checkpoint_names(every), dataset_names(every)
    namesakes: defaultdict[str, list[_Named]] = defaultdict(list)
    for run in every:
        run_id, label = run["run_id"], run.get("label")
        labelled = label is not None and not missing(label)
        name, other = (str(label), run["architecture"]) if labelled else (run["architecture"], "")
        short = checkpoints[run_id], datasets[run_id]
        namesakes[name].append(_Named(run_id, name, other, run["source"], *short, run["pooling"]))
    models = {
        run.run_id: label
        for group in namesakes.values()
        for run, label in zip(group, _composed(group), strict=True)
    }
    return dict(zip(NAMES, (_apart(models), checkpoints, datasets), strict=True))


def checkpoint_names(runs: Iterable[Run]) -> dict[str, str]:
    """Return the short name of each run's checkpoint, unique among its architecture's, by run id.

    Its parameters are those of ``labels``.
    """
    checkpoints: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for run in runs:
        checkpoints[run["architecture"]][run["run_id"]] = _without_architecture(run)
    return dict(chain.from_iterable(_by_run(each) for each in checkpoints.values()))


def dataset_names(runs: Iterable[Run]) -> dict[str, str]:
    """Return the short name of each run's dataset, unique among all, by run id.

    Its parameters are those of ``labels``.
    """
    return dict(_by_run({run["run_id"]: str(run["dataset"]) for run in runs}))


def measured_on(run: Mapping[Any, Any] | pd.Series[Any]) -> str:
    """Return what a run was measured on: the dataset, with the pooling unless that is mean.

    Parameters
    ----------
    run : mapping
        A row of ``analysis.signatures`` or ``analysis.models``; the dataset goes by its
        ``dataset_name``, where the frame has that.
    """
    dataset, pooling = run.get("dataset_name", run["dataset"]), run["pooling"]
    return str(dataset) if pooling == "mean" else f"{dataset}, pooled {pooling}"


def _composed(runs: Sequence[_Named]) -> list[str]:
    """Return names with as few parts as tell runs apart; the names alone where none do."""
    values = dict(zip(_Named._fields, zip(*runs, strict=True), strict=True))
    by_parts = (
        _labels(runs, parts)
        for number in range(len(_PARTS) + 1)
        for parts in combinations(_PARTS, number)
        # Labels of many runs take long to make; equal parts make equal ones.
        if len(set(zip(*(values[part] for part in ("name", *parts)), strict=True))) == len(runs)
    )
    alike = [run.name for run in runs]
    return next((each for each in by_parts if len(set(each)) == len(runs)), alike)


def _apart(labels: dict[str, str]) -> dict[str, str]:
    """Return labels by run id; those that several runs have get the first digits of the id."""
    runs_of: defaultdict[str, list[str]] = defaultdict(list)
    for run_id, label in labels.items():
        runs_of[label].append(run_id)
    if len(runs_of) == len(labels):
        return labels
    digits = {
        label: next(each for each in count(ID_DIGITS) if len({i[:each] for i in ids}) == len(ids))
        for label, ids in runs_of.items()
    }
    # Again: another's label may end in these very digits.
    return _apart(
        {
            run_id: label if len(runs_of[label]) == 1 else f"{label} {run_id[: digits[label]]}"
            for run_id, label in labels.items()
        }
    )


def _labels(runs: Sequence[_Named], parts: Sequence[str]) -> list[str]:
    form = "".join(form for part, form in _FORMS.items() if part in ("name", *parts))
    return [form.format(run) for run in runs]


#: What a name may add to the label or the architecture, in order of preference.
_PARTS = ("architecture", "checkpoint", "dataset", "source", "pooling")

#: How each part of a label is written, in their order in it.
_FORMS = {
    "source": "{0.source}:",
    "architecture": "{0.architecture} ",
    "name": "{0.name}",
    "checkpoint": "@{0.checkpoint}",
    "dataset": " on {0.dataset}",
    "pooling": " pooled {0.pooling}",
}


def _without_architecture(run: Run) -> str:
    """Return a checkpoint's name, without the architecture's where it begins with that."""
    name, full = str(run["checkpoint"]), f"{run['source']}:{run['architecture']}"
    return name[len(full) + 1 :] if name.startswith((f"{full}/", f"{full}.")) else name


def _by_run(names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    every = tuple(dict.fromkeys(names.values()))
    short = _kept(every) if len(every) <= _MOST_KEPT else short_names(every)
    return ((run, short[name]) for run, name in names.items())


@lru_cache(maxsize=_MOST_KEPT)
def _kept(names: tuple[str, ...]) -> dict[str, str]:
    """Return short names, kept: a new run changes those of its architecture alone."""
    return short_names(names)
