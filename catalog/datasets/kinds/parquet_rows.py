"""The rows of Parquet files of images: labels and names are read at once, pictures by row group.

A dataset larger than memory can therefore be read in any order. A picture that is only a path is
never followed: it is a sample with an error.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from catalog.bounds import MOST_EXPANSION, allowance
from catalog.datasets.base import INCOMPLETE, require_unchanged
from catalog.datasets.images.encoded import Opener, Picture, PictureDataset
from catalog.datasets.kinds.parquet_listing import (
    BATCH_BYTES,
    Columns,
    labelled,
    names_of,
    read_columns,
    reading,
    require_alike,
)
from catalog.files import change_mark, stat_signature_of
from survey.errors import DatasetError

#: Encoded pictures held at a time, in bytes. Images come in a shuffled order, and a row group is
#: read whole: the larger this is, the fewer times every group is read.
BLOCK_BYTES = 1 << 28

#: Encoded bytes that all rows may have beyond ``MOST_EXPANSION`` times those of the files.
_SPARE_DECODED = 1 << 20

#: Rows unpacked at a time within a row group.
_BATCH_ROWS = 64


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: where it is, and which rows of the dataset it holds."""

    file: Path
    number: int
    rows: range
    #: Rows that may be unpacked at a time.
    batch: int
    #: The file's ``change_mark`` of when its columns were read.
    mark: int


class ParquetDataset(PictureDataset):
    """Pictures in Parquet files.

    A picture is named by its path in the files where all have one of their own, else by its row.
    Labels are numbers with the hub's class names, plain numbers, or class names.

    Parameters
    ----------
    name : str
        The name it was asked for by.
    root : Path
        The folder that the files lie in.
    files : sequence of Path
        The files, in the order of their rows.

    Raises
    ------
    DatasetError
        If a file cannot be read or has no pictures, or a label is no class's.
    """

    def __init__(self, name: str, root: Path, files: Sequence[Path]) -> None:
        self._files = tuple(files)
        read = [read_columns(file) for file in self._files]
        require_alike(read)
        self._groups = _numbered(read)
        names = names_of([path for columns in read for path in columns.paths])
        class_names, labels = labelled(read)
        super().__init__(name, root, class_names, map(Picture, names, labels))
        self._column = read[0].image
        self._mean_bytes = sum(columns.pages.total for columns in read) // max(1, len(names))
        self._file_bytes = sum(file.stat().st_size for file in self._files)

    def stat_signature(self) -> str:
        return stat_signature_of("parquet", files=self._files)

    def _openers(self, positions: Sequence[int]) -> Iterator[tuple[int, Opener]]:
        rest = iter(positions)
        size = max(1, BLOCK_BYTES // max(1, self._mean_bytes))
        left = MOST_EXPANSION * self._file_bytes + _SPARE_DECODED
        while block := tuple(itertools.islice(rest, size)):
            held = dict(self._contents({self._order[position] for position in block}))
            # Equal ones count each time: each is decoded, and a small file would take hours.
            left -= sum(len(content or b"") for content in held.values())
            if left < 0:
                raise DatasetError(
                    f"the rows of {self.name} name {MOST_EXPANSION} times as many bytes of pictures"
                    " as its files have, such as one picture again and again",
                    hint="keep each picture once, as PNG or JPEG",
                )
            for position in block:
                yield position, partial(_opened, held[self._order[position]])
            # Not two blocks at a time while the next one is read.
            del held

    def _reading_order(self) -> Sequence[int]:
        return sorted(range(len(self)), key=self._order.__getitem__)

    def _contents(self, wanted: Collection[int]) -> Iterator[tuple[int, bytes | None]]:
        """Yield the rows wanted with their pictures' bytes, in the order of the rows."""
        # A file holds equal pictures once: once each they fit into a block, each anew they may not.
        known: dict[bytes | None, bytes | None] = {}
        left = allowance(self._file_bytes)
        for group in self._groups:
            if any(row in wanted for row in group.rows):
                for row, content in _contents(group, self._column, wanted):
                    if content is not None and content not in known:
                        left -= len(content)
                        if left < 0:
                            raise DatasetError(
                                f"the pictures in {group.file} are larger than a file of its size"
                                " may hold",
                                hint=INCOMPLETE,
                            )
                    yield row, known.setdefault(content, content)


def _numbered(read: Sequence[Columns]) -> tuple[_Group, ...]:
    groups, first = [], 0
    for columns in read:
        batch = columns.pages.rows_within(BATCH_BYTES, _BATCH_ROWS)
        for number, rows in enumerate(columns.groups):
            groups.append(
                _Group(columns.file, number, range(first, first + rows), batch, columns.mark)
            )
            first += rows
    if not first:
        raise DatasetError(f"{read[0].file} holds no rows", hint=INCOMPLETE)
    return tuple(groups)


def _contents(
    group: _Group, leaf: str, wanted: Collection[int]
) -> Iterator[tuple[int, bytes | None]]:
    """Yield the rows wanted of a row group with their pictures' bytes."""
    row = group.rows.start
    with reading(group.file) as opened:
        batches = opened.iter_batches(
            group.batch, row_groups=[group.number], columns=[leaf], use_threads=False
        )
        for batch in batches:
            column = batch.column(0)
            if pa.types.is_struct(column.type):
                (column,) = column.flatten()
            for value in column:
                if row in wanted:
                    yield row, value.as_py()
                row += 1
    require_unchanged(group.file, group.mark, change_mark(group.file))
    if row != group.rows.stop:
        raise DatasetError(
            f"{group.file} holds {row - group.rows.start:,} rows of the {len(group.rows):,} that"
            " it states",
            hint=INCOMPLETE,
        )


def _opened(content: bytes | None) -> io.BytesIO:
    if content is None:
        raise ValueError("it has no bytes of its own, only a path")
    return io.BytesIO(content)
