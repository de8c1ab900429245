"""Spool segments: small files that make batches and runs durable before they are merged.

A segment holds up to three Arrow streams, one after the other, and a checksum over them: a row a
run, a row a batch with its site scores nested in it, so that a batch and its scores are one thing,
and a row a measure of a whole network with its curve; a stream without rows is left out. It appears
under its name whole or not at all; names sort in the order of writing. The format is Arrow's
because every query reads what is not merged yet, and small Parquet files take ten times as long to
write and to read; and one file, one wait for the disk, can hold all kinds of rows.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from catalog.arrow_arrays import table_of
from catalog.arrow_streams import read_stream
from catalog.files import CHECKSUM_BYTES, checksum, sync_folder, write_all
from catalog.home import REPAIR_HINT, SEGMENT_ENDING
from catalog.store.arrow_rows import (
    BATCH_SCHEMA,
    NETWORK_SCHEMA,
    RUN_SCHEMA,
    empty,
    score_type,
)
from survey.errors import StoreError

#: Ending of a segment that is not whole yet.
UNFINISHED = ".unfinished"

#: Bytes a segment from which on joining it to others by copying takes longer than it saves.
_LARGE_BYTES = 1 << 19

_counter = itertools.count()

#: When this module was loaded, less the reading of the steady clock then.
_LOADED = time.time_ns() - time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one segment, or of several in the order they were written."""

    #: A row a run, as ``RUN_SCHEMA``.
    runs: pa.Table
    #: A row a batch, as ``BATCH_SCHEMA``.
    batches: pa.Table
    #: A row a measure of a whole network, as ``NETWORK_SCHEMA``, which nests its curve.
    network: pa.Table


def write_segment(spool: Path, *tables: pa.Table) -> Path:
    """Write rows as one segment that is on the disk when this returns.

    Raises
    ------
    StoreError
        If the disk is full or fails; then nothing is left behind.
    """
    # By a clock that nobody sets back: of two rows of a run the one written later counts.
    moment = _LOADED + time.monotonic_ns()
    path = spool / f"{moment:020d}-{os.getpid()}-{next(_counter):06d}{SEGMENT_ENDING}"
    unfinished = path.with_name(path.name + UNFINISHED)
    # Gathered first: a write to the file for each of some hundred buffers takes longer.
    gathered = pa.BufferOutputStream()
    for table in filter(len, tables):
        with pa.ipc.new_stream(gathered, table.schema) as stream:
            stream.write_table(table)
    content = gathered.getvalue()
    try:
        with unfinished.open("xb", buffering=0) as file:
            write_all(file.fileno(), memoryview(content))
            write_all(file.fileno(), memoryview(checksum(content)))
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(spool)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(
            f"{sum(map(len, tables))} rows could not be written to {spool}: {error}",
            hint=_hint(error),
        ) from error
    return path


def read_segment(path: Path) -> Segment:
    """Return the rows of one segment.

    Raises
    ------
    FileNotFoundError
        If it is not there any more: it was merged.
    StoreError
        If it cannot be read.
    """
    try:
        content = memoryview(path.read_bytes())
        content, stated = content[:-CHECKSUM_BYTES], content[-CHECKSUM_BYTES:]
        # Arrow and DuckDB trust what they are given: a failing disk must be noticed here.
        if not content or checksum(content) != stated:
            raise pa.ArrowInvalid("its checksum is not that of its content")
        source = pa.BufferReader(content)
        segment = Segment(empty(RUN_SCHEMA), empty(BATCH_SCHEMA), empty(NETWORK_SCHEMA))
        while source.tell() < source.size():
            rows = read_stream(source)
            segment = dataclasses.replace(segment, **{_kind(rows.schema): rows})
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"segment {path} cannot be read: {error}",
            hint=f"{REPAIR_HINT}; it leaves the spool, and what it held is measured again",
        ) from error
    return segment


def joined(segments: Iterable[Segment], metrics: Iterable[str] = ()) -> Segment:
    """Return the rows of some segments, in the order they were written, as one.

    Parameters
    ----------
    segments : iterable of Segment
        In the order they were written.
    metrics : iterable of str
        Metrics of which the result has a column, also where no segment has one.
    """
    parts = list(segments)
    more = table_of((), pa.schema({"scores": pa.list_(score_type(tuple(metrics)))}))
    return Segment(
        _in_few_pieces([empty(RUN_SCHEMA)], (part.runs for part in parts)),
        _in_few_pieces([empty(BATCH_SCHEMA), more], (part.batches for part in parts)),
        _in_few_pieces([empty(NETWORK_SCHEMA)], (part.network for part in parts)),
    )


def _kind(schema: pa.Schema) -> str:
    """Return which rows of a segment a stream has."""
    if "measure" in schema.names:
        return "network"
    return "batches" if "scores" in schema.names else "runs"


def _in_few_pieces(first: list[pa.Table], rest: Iterable[pa.Table]) -> pa.Table:
    """Return the tables as one; where one lacks a column, or a metric of its scores, it is NULL."""
    tables = [*first, *filter(len, rest)]
    # DuckDB takes long over many small pieces, and copying large ones takes longer than that.
    whole = pa.concat_tables(tables, promote_options="permissive")
    small = whole.get_total_buffer_size() < len(tables) * _LARGE_BYTES
    return whole.combine_chunks() if small else whole


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some disk space and run the same command again: finished batches are kept"
    return "check the disk, then run the same command again: finished batches are kept"
