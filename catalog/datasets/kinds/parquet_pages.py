"""Pages of Parquet files: what they unpack to, summed before any is unpacked.

A file's footer may state any size, and Arrow makes what a page's own header states. So the headers
are read here, of which Arrow gives no account, and the footer too: asked about a damaged one,
Arrow's Python classes end the process. https://github.com/apache/parquet-format has both,
``thrift_values`` their encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from catalog.bounds import MOST_EXPANSION, allowance, open_file
from catalog.datasets.base import INCOMPLETE
from catalog.datasets.kinds.thrift_values import structure
from survey.errors import DatasetError

#: How a file ends: four bytes of the footer's length, and these.
_MAGIC = b"PAR1"
#: Bytes of a header that are read at first, and at most: it may hold a smallest and largest value.
_HEADER_BYTES, _LONGEST_HEADER = 2**9, 2**24
#: Names in the path of a column at most.
_DEEPEST = 32
#: Bytes that a row takes at least in memory, once read.
_ROW_BYTES = 64


@dataclass(frozen=True, slots=True)
class Pages:
    """What the pages of a column unpack to."""

    #: Bytes of the largest.
    largest: int
    #: Bytes of all together.
    total: int

    def rows_within(self, limit: int, most: int) -> int:
        """Return how many rows stay within so many bytes, each being as large as a page."""
        return max(1, min(most, limit // max(1, self.largest)))


class Footer:
    """What a file's footer states of its row groups.

    Parameters
    ----------
    file : Path
        The file.

    Raises
    ------
    ValueError
        If it is damaged.
    DatasetError
        If it states more rows than a file of its size can hold.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        with open_file(file) as opened:
            size = opened.seek(0, 2)
            opened.seek(max(0, size - 8))
            end = opened.read()
            length = int.from_bytes(end[:4], "little")
            if end[4:] != _MAGIC or length > size - 8:
                raise ValueError("its end is not that of a Parquet file")
            opened.seek(size - 8 - length)
            stated = structure(opened.read(length))[0]
        self._groups = [group for group in _listed(stated, 4) if isinstance(group, dict)]
        # Arrow reads a column by its place in the schema, whatever path the row groups give it.
        leaves = list(_leaves(_listed(stated, 2)))
        if any([chunk[3] for chunk in _chunks_of(group)] != leaves for group in self._groups):
            raise ValueError("its row groups have other columns than its schema")
        #: Rows of each row group.
        self.rows = [_number(group, 3) for group in self._groups]
        #: The most bytes that may come out.
        self.limit = allowance(size)
        if min(self.rows, default=0) < 0 or sum(self.rows) * _ROW_BYTES > MOST_EXPANSION * size:
            raise DatasetError(
                f"{file} states {sum(self.rows):,} rows, too many for its {size:,} bytes",
                hint=INCOMPLETE,
            )

    def pages(self, leaf: str) -> Pages:
        """Return what the pages of a column unpack to.

        Parameters
        ----------
        leaf : str
            The column's path; of a structure, all of its columns.

        Raises
        ------
        ValueError
            If a page's header is damaged.
        DatasetError
            If a page, or all of them, would unpack to more than a file of its size may.
        """
        largest, total = 0, 0
        with open_file(self._file) as opened:
            for start, end in self._chunks(leaf):
                for packed, unpacked in _sizes(opened, start, end):
                    largest, total = max(largest, unpacked), total + unpacked
                    if unpacked > allowance(packed) or total > self.limit:
                        raise DatasetError(
                            f"{self._file} has a page of {packed:,} bytes in column {leaf} that"
                            f" would unpack to {unpacked:,} ({total:,} with those before it)",
                            hint="no file of pictures does that: get it from its publisher",
                        )
        return Pages(largest, total)

    def _chunks(self, leaf: str) -> Iterator[tuple[int, int]]:
        """Yield where each row group's part of a column begins and ends."""
        wanted = f"{leaf}.".encode()
        for group in self._groups:
            for chunk in _chunks_of(group):
                if b"".join(part + b"." for part in chunk[3]).startswith(wanted):
                    first, dictionary = _number(chunk, 9), _number(chunk, 11)
                    start = min(first, dictionary) if dictionary > 0 else first
                    yield start, start + _number(chunk, 7)


def _leaves(elements: list[Any]) -> Iterator[list[bytes]]:
    """Yield the path of each column of a schema, whose first element is its root."""
    path: list[bytes] = []
    children: list[int] = []
    for element in elements[1:]:
        if not isinstance(element, dict) or len(path) == _DEEPEST:
            raise ValueError("its schema is damaged")
        path.append(element.get(4, b""))
        children.append(_number(element, 5))
        if not children[-1]:
            yield list(path)
        while children and children[-1] <= 0:
            path.pop()
            children.pop()
            if children:
                children[-1] -= 1


def _chunks_of(group: dict[int, Any]) -> list[dict[int, Any]]:
    try:
        chunks = [column[3] for column in group[1]]
        if all(isinstance(part, bytes) for chunk in chunks for part in chunk[3]):
            return chunks
    except (LookupError, TypeError) as problem:
        raise ValueError("its footer is damaged") from problem
    raise ValueError("its footer is damaged")


def _listed(stated: dict[int, Any], field: int) -> list[Any]:
    value = stated.get(field, [])
    if not isinstance(value, list):
        raise ValueError("its footer is damaged")
    return value


def _number(stated: dict[int, Any], field: int) -> int:
    value = stated.get(field, 0)
    if not isinstance(value, int):
        raise ValueError("its footer is damaged")
    return value


def _sizes(opened: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the packed and unpacked bytes of each page."""
    size = opened.seek(0, 2)
    while start < end:
        header, length = _header(opened, start)
        unpacked, packed = _number(header, 2), _number(header, 3)
        if min(start, unpacked, packed) < 0:
            raise ValueError("a page has less than no bytes")
        start += length + packed
        # Arrow makes room for what a header states before it reads that.
        if start > size:
            raise ValueError("a page ends beyond the file")
        yield packed, unpacked


def _header(opened: BinaryIO, start: int) -> tuple[dict[int, Any], int]:
    """Return what a page's header states, and its length."""
    size = _HEADER_BYTES
    while True:
        opened.seek(start)
        data = opened.read(size)
        try:
            return structure(data)
        except ValueError:
            if len(data) < size or size >= _LONGEST_HEADER:
                raise
            size *= 8
