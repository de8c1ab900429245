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

#: Folders that hold a split each.
_SPLITS = ("train", "test", "validation")


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
    _require_one_split(root, files)
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


def _require_one_split(root: Path, files: Sequence[Path]) -> None:
    parts = {file: _part(file) for file in files}
    splits = {split for split, _ in parts.values() if split}
    if len(splits) > 1:
        first = min(splits)
        example = next(file for file, (split, _) in parts.items() if split == first)
        glob = "*" if example.parent.name == first else f"{first}-*"
        raise DatasetError(
            f"{root} holds several splits: {', '.join(sorted(splits))}",
            hint=f"name one of them, such as parquet:{example.parent / glob}",
        )
    promised = {shards for _, shards in parts.values()}
    for shards in promised - {None}:
        # A single file may be asked for alone; some of many would be a part under a whole's name.
        if 1 < len(files) != shards:
            raise DatasetError(
                f"{root} holds {len(files)} of the {shards} files of its split",
                hint="get the others too, or name one file",
            )


def _part(file: Path) -> tuple[str | None, int | None]:
    """Return the split a file belongs to and its number of files; None where neither is named."""
    match = _SHARD.fullmatch(file.name)
    if match:
        return match["split"], int(match["shards"])
    return (file.parent.name if file.parent.name in _SPLITS else None), None


KIND = DatasetKind(
    names=(
        DatasetInfo(
            syntax="parquet:PATH",
            sentence="A Parquet file of images or a folder of them, in the model hub's layout.",
        ),
    ),
    open=open_parquet,
)
