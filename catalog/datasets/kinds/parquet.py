"""Parquet files of images in the model hub's layout: a column of pictures, a column of labels.

Owns which files are one dataset; how their rows are read is ``parquet_rows``'s business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from survey.errors import DatasetError

if TYPE_CHECKING:
    from catalog.datasets.kinds.parquet_rows import ParquetDataset

#: The hub's names of a split's files, such as ``test-00000-of-00002.parquet``.
_SHARD = re.compile(r"(?P<split>.+)-\d{5}-of-(?P<shards>\d{5})(-\w+)?\.parquet")

#: The name of a split within that of a file or a folder.
_SPLIT = re.compile(r"(?i)(?<![a-z])(train(ing)?|test(ing)?|val(id(ation)?)?|dev|eval)(?![a-z])")


def open_parquet(request: DatasetRequest) -> ParquetDataset:
    """Return the images in a Parquet file, a folder of them, or those that match a glob.

    A glob is a path whose last part has ``*`` or ``?`` in it.

    Raises
    ------
    DatasetError
        If there is no such file, files of several splits or not all of one, no column of
        pictures, or labels that no class has.
    """
    from catalog.datasets.kinds.parquet_rows import ParquetDataset

    path = request.path
    root, files = _files(path)
    if not files:
        happened = "holds no Parquet files" if path.is_dir() else "does not exist"
        raise DatasetError(
            f"{path} {happened}",
            hint="a relative path starts where the command was called, or beside the survey file",
        )
    _require_one_split(path, root, files)
    return ParquetDataset(request.name, root, files)


def _files(path: Path) -> tuple[Path, list[Path]]:
    """Return the folder and the files a path stands for, sorted."""
    asked = path
    if path.is_file():
        return path.parent, [path]
    if path.is_dir():
        matches = path.rglob("*.parquet")
    elif "*" in path.name or "?" in path.name:
        path, matches = path.parent, path.parent.glob(path.name)
    else:
        return path, []
    shown = (file for file in matches if file.is_file() and not _hidden(file.relative_to(path)))
    try:
        return path, sorted(shown)
    except ValueError as error:
        raise DatasetError(f"{asked} is no glob: {error}") from None


def _hidden(relative: Path) -> bool:
    # The hub's tools keep what they are fetching in a folder of their own, .cache.
    return any(part.startswith(".") for part in relative.parts)


def _require_one_split(asked: Path, root: Path, files: Sequence[Path]) -> None:
    parts = [_part(root, file) for file in files]
    examples = {split: example for split, example, _ in parts if split}
    if len(examples) > 1:
        names = [split.relative_to(root).as_posix() for split in sorted(examples)]
        raise DatasetError(
            f"{root} holds several splits: {', '.join(names)}",
            hint=f"name one of them, such as parquet:{examples[min(examples)]}",
        )
    for shards in {shards for _, _, shards in parts if shards is not None}:
        # A file may be asked for alone; some of many would be a part under a whole's name.
        if len(files) != shards and not asked.is_file():
            raise DatasetError(
                f"{root} holds {len(files)} of the {shards} files of its split",
                hint="get the others too, or name one file",
            )


def _part(root: Path, file: Path) -> tuple[Path | None, Path, int | None]:
    """Return a file's split, what names all its files in one folder, and how many these are.

    None where no split is named, or no number.
    """
    if match := _SHARD.fullmatch(file.name):
        split = file.with_name(match["split"])
        return split, split.with_name(f"{split.name}-*"), int(match["shards"])
    if match := _SPLIT.search(file.stem):
        return root / match[0].lower(), file.with_name(f"*{match[0]}*.parquet"), None
    below = file.relative_to(root).parents
    for folder in (root / each for each in below if each.name):
        if match := _SPLIT.search(folder.name):
            return folder.with_name(match[0].lower()), folder, None
    return None, root, None


KIND = DatasetKind(
    names=(
        DatasetInfo(
            syntax="parquet:PATH",
            sentence="A Parquet file of images or a folder of them, in the model hub's layout.",
        ),
    ),
    open=open_parquet,
)
