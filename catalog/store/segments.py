"""Spool segments: small files that make batches and runs durable before they are merged.

A segment holds one or two Arrow streams, one after the other, and a checksum over them: a row a
run, then a row a batch with its site scores nested in it, so that a batch and its scores are one
thing; a stream without rows is left out. It appears under its name whole or not at all; names sort
in the order of writing. The format is Arrow's because every query reads what is not merged yet, and
small Parquet files take ten times as long to write and to read; and one file, one wait for the
disk, can hold both kinds of rows.

Which numbers may enter the store is decided here: NaN and infinity become NULL, with a reason, and
for a metric beside the affinity with a note, which leaves the affinity as it is.

The scores of a segment have a column of every metric that one of them has: also of a metric from
a package that is not installed where the segment is read.

Owns the files' form; ``catalog.store.writer`` writes and merges them, ``catalog.store.reader``
reads them.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import math
import os
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.files import sync_folder
from catalog.home import SEGMENT_ENDING
from catalog.store.records import BatchRecord, RunRecord
from catalog.store.schema import BATCH_SCORES, BATCHES, METRIC_COLUMNS, RUNS
from survey.column_fields import Column, columns_of
from survey.errors import StoreError
from survey.results import BatchScores, Site, SiteScore

#: Ending of a segment that is not whole yet.
UNFINISHED = ".unfinished"

#: How Arrow carries the SQL types in use from the spool into the store.
_ARROW_TYPES: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}

_KEY = ("run_id", "batch")

#: Which row of a segment's batches it is, in the order of writing; a score has that of its batch.
PLACE = "place"

_METRICS = tuple(column.name for column in METRIC_COLUMNS)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of rows of some columns."""
    return pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])


#: What a segment holds of runs.
RUN_SCHEMA = arrow_schema(RUNS.columns)

_BATCH, _RECORD = arrow_schema(columns_of(BatchScores)), arrow_schema(columns_of(BatchRecord))
_SITE = arrow_schema(columns_of(Site))
_SCORE = arrow_schema(
    c for c in BATCH_SCORES.columns if c.name not in (*_KEY, *_SITE.names, *_METRICS)
)
_run_values = attrgetter(*RUN_SCHEMA.names)
_batch_values, _record_values = attrgetter(*_BATCH.names), attrgetter(*_RECORD.names)
_site_values, _score_values = attrgetter(*_SITE.names), attrgetter(*_SCORE.names)


def _scores_field(metrics: Iterable[str]) -> pa.Field:
    """Return the field of a batch that holds its scores."""
    scores = [*_SITE, *_SCORE, *(pa.field(name, pa.float64()) for name in metrics)]
    return pa.field("scores", pa.list_(pa.struct(scores)))


#: What a segment holds of batches, whose scores may have more metrics than are declared.
BATCH_SCHEMA = arrow_schema(BATCHES.columns).append(_scores_field(_METRICS))

_CHECKSUM_BYTES = 4

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


#: The numbers of a score beside its metrics.
_NUMBERS = tuple(field.name for field in _SCORE if pa.types.is_floating(field.type))


@cache
def _empty(schema: pa.Schema) -> pa.Table:
    """Return a table without rows, made once: that takes longer than making a full one.

    Not at import: with its first array pyarrow imports pandas, which many readers never need.
    """
    return schema.empty_table()


@cache
def _ok() -> pa.Scalar:
    return pa.scalar("ok")


def run_table(records: Sequence[RunRecord]) -> pa.Table:
    """Return the segment rows of some runs."""
    if not records:
        return _empty(RUN_SCHEMA)
    rows = [_run_values(_storable_run(record)) for record in records]
    return pa.Table.from_struct_array(pa.array(rows, pa.struct(list(RUN_SCHEMA))))


def batch_table(records: Sequence[BatchRecord]) -> pa.Table:
    """Return the segment rows of some batches."""
    if not records:
        return _empty(BATCH_SCHEMA)
    rows = [(*_batch_values(record.batch), *_record_values(record)) for record in records]
    batches = pa.array(rows, pa.struct([*_BATCH, *_RECORD]))
    columns = dict(zip((*_BATCH.names, *_RECORD.names), batches.flatten(), strict=True))
    scores = _storable_rows([score for record in records for score in record.batch.scores])
    ends = np.cumsum([0, *(len(record.batch.scores) for record in records)], dtype=np.int32)
    seconds = columns["seconds"]
    columns |= {
        "seconds": pc.if_else(pc.is_finite(seconds), seconds, pa.scalar(None, pa.float64())),
        "skipped_images": pc.list_value_length(columns["skipped_names"]).cast(pa.int64()),
        "recorded_at": pa.repeat(
            pa.scalar(datetime.now(UTC), _ARROW_TYPES["TIMESTAMPTZ"]), len(records)
        ),
        "scores": pa.ListArray.from_arrays(pa.array(ends), scores),
    }
    return pa.table(columns).select(BATCH_SCHEMA.names)


def write_segment(spool: Path, runs: pa.Table, batches: pa.Table) -> Path:
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
    for table in filter(len, (runs, batches)):
        with pa.ipc.new_stream(gathered, table.schema) as stream:
            stream.write_table(table)
    content = gathered.getvalue()
    try:
        with unfinished.open("xb", buffering=0) as file:
            _write_all(file.fileno(), memoryview(content))
            _write_all(file.fileno(), memoryview(_checksum(content)))
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(spool)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(
            f"{runs.num_rows + batches.num_rows} rows could not be written to {spool}: {error}",
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
        content, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
        # Arrow and DuckDB trust what they are given: a failing disk must be noticed here.
        if not content or _checksum(content) != checksum:
            raise pa.ArrowInvalid("its checksum is not that of its content")
        source = pa.BufferReader(content)
        segment = Segment(_empty(RUN_SCHEMA), _empty(BATCH_SCHEMA))
        while source.tell() < source.size():
            rows = pa.ipc.open_stream(source).read_all()
            kind = "batches" if "scores" in rows.schema.names else "runs"
            segment = dataclasses.replace(segment, **{kind: rows})
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"segment {path} cannot be read: {error}",
            hint="move that file out of the spool; what it held will be measured again",
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
    more = pa.schema([_scores_field(metrics)]).empty_table()
    return Segment(
        _in_few_pieces([_empty(RUN_SCHEMA), *(part.runs for part in parts if len(part.runs))]),
        _in_few_pieces(
            [_empty(BATCH_SCHEMA), more, *(part.batches for part in parts if len(part.batches))]
        ),
    )


def score_rows(batches: pa.Table) -> pa.Table:
    """Return the scores nested in batches, a row each in their order, with ``PLACE``."""
    places = pc.list_parent_indices(batches["scores"])
    rows = pa.Table.from_struct_array(pc.list_flatten(batches["scores"]))
    for name in _KEY:
        rows = rows.append_column(name, batches[name].take(places))
    return rows.append_column(PLACE, places)


def storable(score: SiteScore) -> SiteScore:
    """Return the score as it may be stored: finite numbers, an affinity if and only if it is ok."""
    broken = [name for name in _NUMBERS if not _finite(getattr(score, name))]
    missing = [name for name, value in score.metrics.items() if not _finite(value)]
    status, reason = score.status, score.reason
    if broken:
        reason = _with(reason, f"not finite: {', '.join(broken)}")
    if status == "ok" and broken:
        status = "nonfinite"
    elif status == "ok" and score.affinity is None:
        status, reason = "failed", _with(reason, "its status is ok, but it has no affinity")
    elif status == "ok" and not 0 <= cast("float", score.affinity) <= 1:
        status, reason = "out_of_range", _with(reason, f"{score.affinity!r} lies outside [0, 1]")
    changes: dict[str, Any] = {
        **dict.fromkeys(broken),
        "status": status,
        "reason": reason,
        "metrics": {**score.metrics, **dict.fromkeys(missing)},
        "notes": score.notes + tuple(f"{name}: not finite" for name in missing),
    }
    if status != "ok":
        changes["affinity"] = None
    if status != score.status and score.raw_affinity is None and "affinity" not in broken:
        changes["raw_affinity"] = score.affinity
    return dataclasses.replace(score, **changes)


def _finite(value: float | None) -> bool:
    return value is None or math.isfinite(value)


def _storable_rows(scores: Sequence[SiteScore]) -> pa.StructArray:
    rows = _score_rows(scores)
    unfit = _infinite(rows) | _mistaken(rows)
    if unfit.any():
        rows = _score_rows(
            [storable(s) if bad else s for s, bad in zip(scores, unfit, strict=True)]
        )
    return rows


def _score_rows(scores: Sequence[SiteScore]) -> pa.StructArray:
    """Return a row a score, with the declared metrics and any others that one has a value of."""
    metrics = [score.metrics for score in scores]
    names = (*_METRICS, *sorted(set().union(*metrics).difference(_METRICS)))
    complete = all(len(each) == len(names) for each in metrics)
    of = itemgetter(*names) if complete else lambda each: map(each.get, names)
    rows = [(*_site_values(s.place), *_score_values(s), *of(s.metrics)) for s in scores]
    return pa.array(rows, _scores_field(names).type.value_type)


def _infinite(rows: pa.StructArray) -> np.ndarray:
    """Return which rows hold a number that is not finite."""
    numbers = [column for column in rows.flatten() if pa.types.is_floating(column.type)]
    finite = pc.fill_null(pc.is_finite(pa.concat_arrays(numbers)), fill_value=True)
    by_column = finite.to_numpy(zero_copy_only=False).reshape(len(numbers), len(rows))
    unfit: np.ndarray = ~by_column.all(axis=0)
    return unfit


def _mistaken(rows: pa.StructArray) -> np.ndarray:
    """Return which scores are ok without an affinity in [0, 1], or have one without being ok."""
    # NULL becomes NaN, which is within nothing.
    numbers = rows.field("affinity").to_numpy(zero_copy_only=False)
    ok = pc.equal(rows.field("status"), _ok()).to_numpy(zero_copy_only=False)
    mistaken: np.ndarray = ~np.where(ok, (numbers >= 0) & (numbers <= 1), np.isnan(numbers))
    return mistaken


def _storable_run(record: RunRecord) -> RunRecord:
    """Return the run with no number that is not finite."""
    values = zip(RUN_SCHEMA.names, _run_values(record), strict=True)
    broken = [k for k, v in values if isinstance(v, float) and not math.isfinite(v)]
    if not broken:
        return record
    error = _with(record.error, f"not finite: {', '.join(broken)}")
    changes: dict[str, Any] = {**dict.fromkeys(broken), "error": error}
    return dataclasses.replace(record, **changes)


def _with(first: str | None, second: str) -> str:
    return f"{first}; {second}" if first else second


def _write_all(descriptor: int, content: memoryview) -> None:
    # One call may write less than it was given, such as on a disk that is nearly full.
    while content:
        content = content[os.write(descriptor, content) :]


def _checksum(content: memoryview | pa.Buffer) -> bytes:
    return zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "little")


def _in_few_pieces(tables: list[pa.Table]) -> pa.Table:
    """Return the tables as one; where one lacks a column, or a metric of its scores, it is NULL."""
    # DuckDB takes long over many small pieces, and copying large ones takes longer than that.
    whole = pa.concat_tables(tables, promote_options="permissive")
    small = whole.get_total_buffer_size() < len(tables) * _LARGE_BYTES
    return whole.combine_chunks() if small else whole


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some disk space and run the same command again: finished batches are kept"
    return "check the disk, then run the same command again: finished batches are kept"
