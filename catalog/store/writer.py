"""The signature store's one writer.

A row is durable when the call that writes it returns: in a small Arrow segment in the spool. Now
and then the writer merges the segments into the DuckDB file in one short transaction, each at most
once, and only when no reader has the file open: a reader never stops a scan, and a scan never
stops a reader. A crash at any moment is harmless. Merged segments leave the spool for the store's
log; those that were merged but are still in the spool are known by name and only moved; files that
were not finished were never acknowledged and are swept away.

A call waits for the disk twice: many records in one call wait as long as one.

One thread uses a writer at a time. Every process may read at any time, through
``catalog.store.reader``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import duckdb
from filelock import FileLock, Timeout

from catalog.home import Home, segment_paths
from catalog.store.arrow_rows import batch_table, network_table, run_table
from catalog.store.connection import writing
from catalog.store.merged_segments import keep, prune
from catalog.store.records import BatchRecord, NetworkRecord, RunRecord
from catalog.store.segments import (
    UNFINISHED,
    joined,
    read_segment,
    write_segment,
)
from catalog.store.staging import merged_names, stage, store_staged
from catalog.store.upgrade import add_metrics, check_version
from catalog.store.writer_lock import holder, is_lockless, no_locks, own_process
from survey.errors import StoreError

#: A merge is due when this many segments wait ...
SEGMENTS_DUE = 200

#: ... or when some wait and the last try is this many seconds ago.
SECONDS_DUE = 5.0

#: Segments and bytes in one transaction: bounds its memory and how long readers wait for it.
SEGMENTS_A_MERGE = 1000
BYTES_A_MERGE = 64 << 20

#: Days for which a merged segment is known by name after it left the spool.
DAYS_KNOWN = 1

#: Seconds between two looks for what the log need not keep.
SECONDS_UNPRUNED = 60.0

#: How long opening waits for the lock: longer than asking whether it is held takes.
OPENING_SECONDS = 0.3

#: How long closing waits for readers before it leaves the rest to the next writer.
CLOSING_SECONDS = 5.0


class Writer:
    """The one writer of a home. Use ``Writer.open``, best as a context manager."""

    def __init__(self, home: Home, lock: FileLock) -> None:
        self.home = home
        self._lock = lock
        self._waiting = len(segment_paths(home.spool))
        self._last_try = time.monotonic()
        self._last_pruning = 0.0

    @classmethod
    def open(cls, home: Home) -> Writer:
        """Take the home's writer lock and sweep away what a killed writer left unfinished.

        Raises
        ------
        StoreError
            If another writer has the lock, or it cannot be had.
        """
        lock = FileLock(home.writer_lock, timeout=OPENING_SECONDS, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise StoreError(
                f"another scan is writing to {home.path} ({holder(home)})",
                hint="wait for it to end, or pass --home with another directory",
            ) from None
        except OSError as error:
            if is_lockless(error):
                raise no_locks(home.path, error) from error
            raise StoreError(
                f"{home.writer_lock} cannot be locked: {error}",
                hint="check the directory's permissions, or pass --home with another one",
            ) from error
        try:
            home.writer_note.write_text(
                f"process {own_process()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC\n",
                encoding="utf-8",
            )
            for path in home.spool.glob(f"*{UNFINISHED}"):
                path.unlink()
            return cls(home, lock)
        except OSError as error:
            lock.release()
            raise StoreError(
                f"{home.path} cannot be written: {error}",
                hint="free some disk space, or check the directory's permissions",
            ) from error

    def write(
        self,
        runs: Sequence[RunRecord] = (),
        batches: Sequence[BatchRecord] = (),
        network: Sequence[NetworkRecord] = (),
    ) -> None:
        """Make some runs' rows, batches and measures durable at once, all or none of them.

        Parameters
        ----------
        runs : sequence of RunRecord
            Rows that replace the runs' earlier ones, the latest last.
        batches : sequence of BatchRecord
            Batches of any runs, in any order; a late writer of an earlier attempt never replaces
            a later one's batch.
        network : sequence of NetworkRecord
            Measures of whole networks, which replace the runs' earlier ones of the same names.

        Raises
        ------
        StoreError
            If the disk is full or fails.
        """
        if not self._lock.is_locked:
            raise StoreError(
                f"the writer of {self.home.path} is closed",
                hint="open another one with Writer.open",
            )
        if runs or batches or network:
            tables = run_table(runs), batch_table(batches), network_table(network)
            write_segment(self.home.spool, *tables)
            self._waiting += 1

    def merge_if_due(self) -> int:
        """Merge if many segments wait or some wait long; return how many were merged."""
        since = time.monotonic() - self._last_try
        due = self._waiting >= SEGMENTS_DUE and since >= SECONDS_DUE / 5
        if self._waiting and (due or since >= SECONDS_DUE):
            return self.merge()
        return 0

    def merge(self) -> int:
        """Move waiting segments into the store; never waits for readers.

        Returns
        -------
        int
            How many segments were merged; 0 while a reader has the file open.

        Raises
        ------
        StoreError
            If the store or a segment cannot be used.
        """
        merged = 0
        while paths := next_part(segment_paths(self.home.spool)):
            count = merge_segments(self.home.signatures, paths)
            if count is None:
                break
            merged += count
            _leave_spool(paths, self.home.merged)
        if merged and time.monotonic() - self._last_pruning > SECONDS_UNPRUNED:
            prune(self.home.merged)
            self._last_pruning = time.monotonic()
        self._waiting = len(segment_paths(self.home.spool))
        self._last_try = time.monotonic()
        return merged

    def close(self) -> None:
        """Merge what waits, as far as readers let it, and give the lock back."""
        if not self._lock.is_locked:
            return
        try:
            deadline = time.monotonic() + CLOSING_SECONDS
            self.merge()
            while self._waiting and time.monotonic() < deadline:
                time.sleep(0.05)
                self.merge()
        finally:
            self.home.writer_note.unlink(missing_ok=True)
            self._lock.release()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def next_part(paths: list[Path]) -> list[Path]:
    """Return the first segments, as many as one transaction may hold and at least one."""
    sizes = accumulate(path.stat().st_size for path in paths[:SEGMENTS_A_MERGE])
    count = sum(size <= BYTES_A_MERGE for size in sizes)
    return paths[: max(count, 1)]


def merge_segments(path: Path, segments: list[Path]) -> int | None:
    """Merge the segments that are not merged yet into a store; None while the file is busy."""
    with writing(path) as connection:
        if connection is None:
            return None
        check_version(connection, path)
        names = merged_names(connection, segments)
        fresh = [segment for segment in segments if segment.name not in names]
        if fresh:
            _merge_fresh(connection, fresh)
    return len(fresh)


def _merge_fresh(connection: duckdb.DuckDBPyConnection, segments: list[Path]) -> None:
    rows = joined(read_segment(path) for path in segments)
    staged = stage(connection, "main", rows)
    add_metrics(connection, staged.score_columns)
    if not staged.replaces:
        # Closing would join row groups that are not full, and for a few write all beside them anew.
        connection.execute("SET max_vacuum_tasks = 0").fetchall()
    connection.execute("BEGIN").fetchall()
    store_staged(connection, staged)
    connection.execute(
        "INSERT INTO segments SELECT unnest(?), now()", [[path.name for path in segments]]
    ).fetchall()
    _forget_removed(connection, segments[0].parent)
    connection.execute("COMMIT").fetchall()


def _forget_removed(connection: duckdb.DuckDBPyConnection, spool: Path) -> None:
    connection.execute(
        "DELETE FROM segments WHERE merged_at < now() - to_days(?)"
        " AND name NOT IN (SELECT unnest(?::VARCHAR[]))",
        [DAYS_KNOWN, [path.name for path in segment_paths(spool)]],
    ).fetchall()


def _leave_spool(segments: list[Path], log: Path) -> None:
    try:
        keep(segments, log)
    except OSError as error:
        raise StoreError(
            f"merged segments cannot be moved to {log}: {error}",
            hint="check the disk and its permissions",
        ) from error
