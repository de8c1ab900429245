"""Names of models, checkpoints and datasets in tables and figures: the shortest that are unique.

A file or folder goes by the end of its path that tells it apart, never by the whole.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, count
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.text import missing
from catalog.training_steps import spelled_out

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

#: A reference to a file or folder: its kind, its path, and the images of it that are meant.
_REFERENCE = re.compile(
    r"(?P<kind>file|folder|parquet|\w+(?=:[/~.])):(?P<path>.+?)(?P<part>\[[^][]*\])?"
)

#: Endings of files of weights or images.
_ENDINGS = re.compile(
    r"(\.(pth|pt|th|tar|ckpt|bin|safetensors|pkl|npz|parquet|zip|gz))+$", re.IGNORECASE
)

#: Where a part of a file's name ends: not at the minus of ``5e-4``.
_BOUNDARY = re.compile(r"(_|-(?!\d))")


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


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Return the shortest name of each checkpoint or dataset that none of the others has.

    Parameters
    ----------
    names : iterable of str
        Names of checkpoints or of datasets, such as ``file:PATH``, ``folder:PATH[:100]`` and
        ``init:0``.

    Returns
    -------
    dict of str to str
        By name: of a file or folder as few of the last parts of its path as tell it apart, without
        those that all have in common, and an epoch or step as ``epoch 30``. Other names stay.
    """
    every = list(dict.fromkeys(names))
    paths = {name: match for name in every if (match := _REFERENCE.fullmatch(name))}
    others = {name: name for name in every if name not in paths}
    for ends in _ends(list(paths.values())):
        result = {**others, **dict(zip(paths, ends, strict=True))}
        if len(set(result.values())) == len(every) and all(result.values()):
            return result
    return {name: name for name in every}


def path_ends(name: str) -> tuple[str, ...]:
    """Return the last part of the path in a file's or folder's name, with and without its ending.

    A name that is no path has none.
    """
    match = _REFERENCE.fullmatch(name)
    components = re.findall(r"[^/\\]+", match["path"]) if match else []
    if match is None or not components:
        return ()
    end, part = components[-1], match["part"] or ""
    return end + part, _ENDINGS.sub("", end) + part


#: The columns of tables that hold names of checkpoints, and those that hold names of datasets.
_NAMED = (("checkpoint", "initial", "trained"), ("dataset", "reference"))


def without_paths(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table for people: the checkpoints and datasets in it by their short names."""
    result = table.copy(deep=False)
    for columns in _NAMED:
        texts = {name: result[name].astype("object") for name in columns if name in result}
        names = short_names(
            each for text in texts.values() for each in text.unique() if not missing(each)
        )
        for name, text in texts.items():
            result[name] = text.map(lambda each, names=names: names.get(each, each))
    return result


#: What the names of random weights begin with.
_UNTRAINED = "init:"


def is_untrained(checkpoint: object) -> bool:
    """Return whether a checkpoint is random weights (``init:...``)."""
    return str(checkpoint).startswith(_UNTRAINED)


def names_untrained(glob: str) -> bool:
    """Return whether a glob over checkpoints or models names random weights."""
    return _UNTRAINED in glob.casefold()


def trained(checkpoints: pd.Series[str]) -> pd.Series[bool]:
    """Return which checkpoints are not random weights (``init:...``)."""
    return ~checkpoints.str.startswith(_UNTRAINED).fillna(value=False).astype(bool)


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


def _ends(paths: Sequence[re.Match[str]]) -> Iterator[list[str]]:
    """Yield the ends of paths as names, shorter ones first."""
    components = [re.findall(r"[^/\\]+", path["path"]) or [path["path"]] for path in paths]
    for depth in range(1, max(map(len, components), default=0) + 1):
        ends = [each[-depth:] for each in components]
        stems = [[*end[:-1], _ENDINGS.sub("", end[-1]) or end[-1]] for end in ends]
        for each in (_differing(paths, stems), stems, ends):
            yield [
                " ".join(filter(None, end)) + (path["part"] or "")
                for path, end in zip(paths, each, strict=True)
            ]


def _differing(
    paths: Sequence[re.Match[str]], stems: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """Return the components in which ends of paths differ; of files, their differing parts."""
    files = all(path["kind"] == "file" for path in paths)
    depth = max(map(len, stems))
    aligned = ([""] * (depth - len(stem)) + list(stem) for stem in stems)
    columns = [
        [spelled_out(each) if files else each for each in column]
        for column in zip(*aligned, strict=True)
    ]
    kept = [column for column in columns if len(set(column)) > 1]
    trimmed = [_trimmed(column) for column in kept] if files else kept
    return list(zip(*(trimmed or columns[-1:]), strict=True))


def _trimmed(names: Sequence[str]) -> list[str]:
    """Return names without the parts that all begin with, then without those that all end with."""
    parts = [_BOUNDARY.split(name) for name in names]
    begun = _without_common(parts)
    # A number alone says nothing.
    if any(each[0][:1].isdigit() for each in begun):
        begun = parts
    ended = _without_common([each[::-1] for each in begun])
    return ["".join(each[::-1]) for each in ended]


def _without_common(parts: list[list[str]]) -> list[list[str]]:
    """Return lists of parts and separators without the first ones while all have the same."""
    while all(len(each) > 1 for each in parts) and len({(*each[:2],) for each in parts}) == 1:
        parts = [each[2:] for each in parts]
    return parts
