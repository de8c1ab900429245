"""Cache of distances in a home, so that a new model costs one row of a matrix.

One SQLite file below the home's cache, which may be deleted at any time. Where it cannot be read,
distances are computed; where it cannot be written, they are not kept. Any number of processes may
use it at once.

The key of a curve is a digest of its values after normalisation, so normalisations that leave the
values as they are share their sums. One stored row holds the squared distances between one curve
and many others, 16 bytes a pair, with a checksum: a damaged row is ignored.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

from analysis.array_types import Floats, Integers

#: The name of the file below a home's cache.
FILE_NAME = "distances.sqlite"

#: Part of every digest: another number invalidates all stored distances.
_DEFINITION = b"dtw 1"

#: A row of the table.
_StoredRow = tuple[int, int, bytes, bytes, bytes]

#: How long to wait for other processes that write.
_WAIT_SECONDS = 10.0

_TABLE = """
CREATE TABLE IF NOT EXISTS known (
  curve INTEGER NOT NULL, band INTEGER NOT NULL, others BLOB NOT NULL, squares BLOB NOT NULL,
  seal BLOB NOT NULL
)
"""
_INDEX = "CREATE INDEX IF NOT EXISTS known_curve ON known (curve, band)"
_FIND = """
SELECT curve, others, squares, seal FROM known
WHERE band = ? AND curve IN (SELECT value FROM json_each(?))
"""


def digest(curve: Floats) -> int:
    """Return the key of a curve: 64 bits of a hash of its values."""
    result = blake2b(np.ascontiguousarray(curve, "<f8").tobytes(), digest_size=8, key=_DEFINITION)
    return int.from_bytes(result.digest(), "little", signed=True)


class DistanceCache:
    """Squared distances between curves, kept in a file.

    Parameters
    ----------
    path : Path
        The file; its folder is made where the folder above it exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def fetch(self, digests: Sequence[int], band: int | None) -> Floats:
        """Return the stored squared distances between curves.

        Parameters
        ----------
        digests : sequence of int
            The curves, all different.
        band : int, optional
            The band of the distances.

        Returns
        -------
        array of float, shape (m, m)
            Squared distances, NaN where unknown; 0 on the diagonal.
        """
        curves = np.array(digests, np.int64)
        squares = np.full((len(curves), len(curves)), np.nan)
        np.fill_diagonal(squares, 0.0)
        order = np.argsort(curves)
        # After an error what was read so far stays: every row has a checksum.
        with suppress(sqlite3.Error, OSError):
            for curve, others, values in self._rows(curves, band):
                row = order[np.searchsorted(curves[order], curve)]
                places, known = _places(curves, order, others)
                squares[row, places] = squares[places, row] = values[known]
        return squares

    def store(self, digests: Sequence[int], band: int | None, squares: Floats) -> None:
        """Keep squared distances.

        Parameters
        ----------
        digests : sequence of int
            The curves, all different.
        band : int, optional
            The band of the distances.
        squares : array of float, shape (m, m)
            What is new, symmetric; NaN elsewhere.
        """
        rows = list(_new_rows(np.array(digests, np.int64), -1 if band is None else band, squares))
        with suppress(sqlite3.Error, OSError):
            self._path.parent.mkdir(exist_ok=True)
            try:
                self._write(rows)
            except sqlite3.Error as error:
                # The low byte holds the kind of error.
                kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if kind in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                    self._path.unlink(missing_ok=True)
                    self._write(rows)

    def _rows(self, curves: Integers, band: int | None) -> Iterator[tuple[int, Integers, Floats]]:
        if not self._path.is_file():
            return
        radius = -1 if band is None else band
        # Read-only, so that a home without write permission can be read.
        address = f"{self._path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, _WAIT_SECONDS, uri=True)) as connection:
            wanted = json.dumps(curves.tolist())
            for curve, others, squares, seal in connection.execute(_FIND, (radius, wanted)):
                if seal == _seal(curve, radius, others, squares):
                    yield curve, np.frombuffer(others, "<i8"), np.frombuffer(squares, "<f8")

    def _write(self, rows: list[_StoredRow]) -> None:
        with closing(sqlite3.connect(self._path, _WAIT_SECONDS, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")
            file.execute(_TABLE)
            file.execute(_INDEX)
            file.executemany("INSERT INTO known VALUES (?, ?, ?, ?, ?)", rows)
            file.execute("COMMIT")


def _places(curves: Integers, order: Integers, others: Integers) -> tuple[Integers, Integers]:
    """Return where the others are among the curves, and which of the others those are."""
    ranks = np.searchsorted(curves[order], others)
    candidates = order[np.minimum(ranks, len(order) - 1)]
    known = np.flatnonzero(curves[candidates] == others)
    return candidates[known], known


def _new_rows(curves: Integers, radius: int, squares: Floats) -> Iterator[_StoredRow]:
    new = ~np.isnan(squares)
    np.fill_diagonal(new, val=False)
    # A pair is kept with the curve that has more new ones: a model that is added gets one row.
    count = new.sum(axis=1)
    rank = np.empty(len(curves), np.int64)
    rank[np.argsort(count, kind="stable")] = np.arange(len(curves))
    for place in np.flatnonzero(count):
        mine = np.flatnonzero(new[place] & (rank < rank[place]))
        if mine.size:
            others = curves[mine].astype("<i8").tobytes()
            values = squares[place, mine].astype("<f8").tobytes()
            curve = int(curves[place])
            yield curve, radius, others, values, _seal(curve, radius, others, values)


def _seal(curve: object, radius: int, others: object, squares: object) -> bytes:
    """Return the checksum of a row; nothing for values of another type or length."""
    if not (isinstance(others, bytes) and isinstance(squares, bytes)):
        return b""
    if len(others) % 8 or len(others) != len(squares):
        return b""
    head = f"{curve} {radius} {len(others)} ".encode()
    return blake2b(head + others + squares, digest_size=16).digest()
