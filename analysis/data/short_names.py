"""Short names of checkpoints and datasets: the shortest that are unique.

A file or folder goes by the end of its path that tells it apart, never by the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from analysis.text import missing
from catalog.training_steps import spelled_out

if TYPE_CHECKING:
    import pandas as pd

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
