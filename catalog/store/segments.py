"""Spool segments: small files that make batches and runs durable before they are merged.

A segment holds one or two Arrow streams, one after the other, and a checksum over them: a row a
run, then a row a batch with its site scores nested in it, so that a batch and its scores are one
thing; a stream without rows is left out. It appears under its name whole or not at all; names sort
in the order of writing. Arrow's own form it is because every query reads what is not merged yet,
and small Parquet files take ten times as long to write and to read; and one file, one wait for the
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
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.files import sync_folder
from catalog.home import SEGMENT_ENDING
from catalog.store.records import BatchRecord, RunRecord
from catalog.store.schema import BATCH_SCORES, BATCHES, METRIC_COLUMNS, RUNS
from survey.columns import Column, columns_of
from survey.errors import StoreError
from survey.results import BatchScores, Site, SiteScore, Status

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

_METRICS = tuple(column.name for column in METRIC_COLUMNS)

_DECLARED = frozenset(BATCH_SCORES.names)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of rows of some columns."""
    return pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])


@cache
def batch_schema(extra: tuple[str, ...] = ()) -> pa.Schema:
    """Return what a segment holds of batches, whose scores have more metrics than are declared."""
    scores = [*arrow_schema(BATCH_SCORES.columns), *(pa.field(n, pa.float64()) for n in extra)]
    nested = pa.struct([field for field in scores if field.name not in _KEY])
    return arrow_schema(BATCHES.columns).append(pa.field("scores", pa.list_(nested)))


#: What a segment holds of runs.
RUN_SCHEMA = arrow_schema(RUNS.columns)

_CHECKSUM_BYTES = 4

#: Bytes a segment from which on joining it to others by copying takes longer than it saves.
_LARGE_BYTES = 1 << 19

_counter = itertools.count()

#: When this module was loaded, less what its steady clock said then.
_LOADED = time.time_ns() - time.monotonic_ns()


@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of one segment, or of several in the order they were written."""

    #: A row a run, as ``RUN_SCHEMA``.
    runs: pa.Table
    #: A row a batch, as ``batch_schema``.
    batches: pa.Table

    @property
    def score_fields(self) -> tuple[pa.Field, ...]:
        """The fields of a batch's scores."""
        return tuple(self.batches.schema.field("scores").type.value_type)

    @property
    def extra(self) -> tuple[str, ...]:
        """The names of metrics, of installed packages, that the scores have."""
        return tuple(f.name for f in self.score_fields if f.name not in _DECLARED)


class _Form:
    """Makes rows of what objects have as attributes, all columns at once.

    A call a column takes three times as long where rows are few.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        schema = arrow_schema(columns)
        self.names, self.type = tuple(schema.names), pa.struct(list(schema))
        self._values = attrgetter(*self.names)

    def columns(self, objects: Iterable[object]) -> dict[str, pa.Array]:
        """Return the columns, by name, of a row an object."""
        rows = pa.array(list(map(self._values, objects)), self.type)
        return dict(zip(self.names, rows.flatten(), strict=True))


_RUN_FORM, _SITE_FORM = _Form(columns_of(RunRecord)), _Form(columns_of(Site))
_BATCH_FORM, _RECORD_FORM = _Form(columns_of(BatchScores)), _Form(columns_of(BatchRecord))
_SCORE_FORM = _Form((*columns_of(SiteScore), Column("affinity", "DOUBLE", "")))

#: The numbers of a score beside its metrics.
_NUMBERS = tuple(f.name for f in _SCORE_FORM.type if pa.types.is_floating(f.type))


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
    columns = _RUN_FORM.columns(records)
    unfit = _infinite(columns.values(), len(records))
    if unfit.any():
        fit = [_storable_run(r) if bad else r for r, bad in zip(records, unfit, strict=True)]
        columns = _RUN_FORM.columns(fit)
    return pa.table(columns, RUN_SCHEMA)


def batch_table(records: Sequence[BatchRecord]) -> pa.Table:
    """Return the segment rows of some batches."""
    if not records:
        return _empty(batch_schema())
    batches = [record.batch for record in records]
    scores = [score for batch in batches for score in batch.scores]
    columns = _storable_columns(scores)
    schema = batch_schema(tuple(name for name in columns if name not in _DECLARED))
    fields = list(schema.field("scores").type.value_type)
    rows = pa.StructArray.from_arrays([columns[field.name] for field in fields], fields=fields)
    ends = np.cumsum([0, *(len(batch.scores) for batch in batches)], dtype=np.int32)
    seconds = [b.seconds if math.isfinite(b.seconds) else None for b in batches]
    columns = {
        **_BATCH_FORM.columns(batches),
        **_RECORD_FORM.columns(records),
        "skipped_images": pa.array([len(record.skipped_names) for record in records], pa.int64()),
        "seconds": pa.array(seconds, pa.float64()),
        "recorded_at": pa.array([datetime.now(UTC)] * len(records), pa.timestamp("us", "UTC")),
        "scores": pa.ListArray.from_arrays(pa.array(ends), rows),
    }
    return pa.table(columns, schema)


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
        segment = Segment(_empty(RUN_SCHEMA), _empty(batch_schema()))
        while source.tell() < source.size():
            rows = pa.ipc.open_stream(source).read_all()
            if "scores" in rows.schema.names:
                segment = dataclasses.replace(segment, batches=rows)
            else:
                segment = dataclasses.replace(segment, runs=_adapted(rows, RUN_SCHEMA))
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"segment {path} cannot be read: {error}",
            hint="move that file out of the spool; what it held will be measured again",
        ) from error
    return dataclasses.replace(
        segment, batches=_adapted(segment.batches, batch_schema(segment.extra))
    )


def joined(segments: Iterable[Segment], extra: Iterable[str] = ()) -> Segment:
    """Return the rows of some segments, in the order they were written, as one.

    Parameters
    ----------
    segments : iterable of Segment
        In the order they were written.
    extra : iterable of str
        Metrics of which the result has a column, also where no segment has one.
    """
    parts = list(segments)
    names = dict.fromkeys((*extra, *(name for part in parts for name in part.extra)))
    schema = batch_schema(tuple(name for name in names if name not in _METRICS))
    runs = [part.runs for part in parts if len(part.runs)]
    batches = [_adapted(part.batches, schema) for part in parts if len(part.batches)]
    return Segment(
        _in_few_pieces([_empty(RUN_SCHEMA), *runs]), _in_few_pieces([_empty(schema), *batches])
    )


def score_rows(rows: Segment) -> pa.Table:
    """Return the rows of ``batch_scores`` nested in a segment's batches, in their order."""
    keys = [rows.batches.schema.field(name) for name in _KEY]
    schema = pa.schema([*keys, *rows.score_fields])
    pieces = [
        pa.RecordBatch.from_arrays(
            [
                *(piece[name].take(pc.list_parent_indices(piece["scores"])) for name in _KEY),
                *piece["scores"].flatten().flatten(),
            ],
            schema=schema,
        )
        for piece in rows.batches.to_batches()
    ]
    return pa.Table.from_batches(pieces, schema)


def score_owners(batches: pa.Table) -> pa.ChunkedArray:
    """Return which of the batches, counting from 0, each of their ``score_rows`` belongs to."""
    lengths = pc.fill_null(pc.list_value_length(batches["scores"]), 0).to_numpy()
    return pa.chunked_array([np.repeat(np.arange(batches.num_rows), lengths)], pa.int64())


def storable(score: SiteScore) -> SiteScore:
    """Return the score as it may be stored: finite numbers, an affinity if and only if it is ok."""
    broken = [name for name in _NUMBERS if not _finite(getattr(score, name))]
    missing = [name for name, value in score.metrics.items() if not _finite(value)]
    changes: dict[str, Any] = {
        **dict.fromkeys(broken),
        "metrics": {**score.metrics, **dict.fromkeys(missing)},
        "notes": score.notes + tuple(f"{name}: not finite" for name in missing),
    }
    if broken:
        changes["reason"] = _with(score.reason, f"not finite: {', '.join(broken)}")
    if score.status != "ok":
        return dataclasses.replace(score, **{**changes, "affinity": None})
    status, reason = _status(score, broken)
    if status != "ok":
        changes |= {"status": status, "reason": reason, "affinity": None}
        if "raw_affinity" not in broken and score.raw_affinity is None:
            changes["raw_affinity"] = None if "affinity" in broken else score.affinity
    return dataclasses.replace(score, **changes)


def _finite(value: float | None) -> bool:
    return value is None or math.isfinite(value)


def _status(score: SiteScore, broken: list[str]) -> tuple[Status, str | None]:
    if broken:
        return "nonfinite", _with(score.reason, f"not finite: {', '.join(broken)}")
    if score.affinity is None:
        return "failed", _with(score.reason, "said to be ok, but came without an affinity")
    if not 0 <= score.affinity <= 1:
        return "out_of_range", _with(score.reason, f"{score.affinity!r} lies outside [0, 1]")
    return "ok", score.reason


def _storable_columns(scores: Sequence[SiteScore]) -> dict[str, pa.Array]:
    columns = _score_columns(scores)
    unfit = _infinite(columns.values(), len(scores)) | _mistaken(columns)
    if unfit.any():
        fit = [storable(s) if bad else s for s, bad in zip(scores, unfit, strict=True)]
        columns = _score_columns(fit)
    return columns


def _score_columns(scores: Sequence[SiteScore]) -> dict[str, pa.Array]:
    return {
        **_SITE_FORM.columns(map(attrgetter("place"), scores)),
        **_SCORE_FORM.columns(scores),
        **_metric_columns(list(map(attrgetter("metrics"), scores))),
    }


def _metric_columns(values: list[Mapping[str, float | None]]) -> dict[str, pa.Array]:
    """Return the columns of the declared metrics, and of any others that have a value."""
    names, rows = _METRICS, None
    if set(map(len, values)) <= {len(names)}:
        with suppress(KeyError):
            rows = list(map(itemgetter(*names), values))
    if rows is None:
        others = sorted(set(itertools.chain(*values)) - set(names))
        names = (*names, *others)
        rows = [tuple(map(each.get, names)) for each in values]
    columns = pa.array(rows, pa.struct([(name, pa.float64()) for name in names])).flatten()
    return dict(zip(names, columns, strict=True))


def _infinite(columns: Iterable[pa.Array], rows: int) -> np.ndarray:
    """Return which rows hold a number that is none."""
    numbers = [column for column in columns if pa.types.is_floating(column.type)]
    finite = pc.fill_null(pc.is_finite(pa.concat_arrays(numbers)), fill_value=True)
    by_column = finite.to_numpy(zero_copy_only=False).reshape(len(numbers), rows)
    unfit: np.ndarray = ~by_column.all(axis=0)
    return unfit


def _mistaken(columns: dict[str, pa.Array]) -> np.ndarray:
    """Return which scores are ok without an affinity in [0, 1], or have one without being ok."""
    # NULL becomes NaN, which is within nothing.
    numbers = columns["affinity"].to_numpy(zero_copy_only=False)
    ok = pc.equal(columns["status"], _ok()).to_numpy(zero_copy_only=False)
    mistaken: np.ndarray = ~np.where(ok, (numbers >= 0) & (numbers <= 1), np.isnan(numbers))
    return mistaken


def _storable_run(record: RunRecord) -> RunRecord:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    broken = [k for k, v in values.items() if isinstance(v, float) and not math.isfinite(v)]
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
    # DuckDB takes long over many small pieces, and copying large ones takes longer than that.
    whole = pa.concat_tables(tables)
    small = whole.get_total_buffer_size() < len(tables) * _LARGE_BYTES
    return whole.combine_chunks() if small else whole


def _adapted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema: those that are missing are NULL."""
    if rows.schema.equals(schema):
        return rows
    return pa.table([_column(rows, field) for field in schema], schema)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in rows.column_names:
        return pa.nulls(rows.num_rows, field.type)
    if field.name != "scores":
        return rows[field.name].cast(field.type)
    lengths = pc.fill_null(pc.list_value_length(rows["scores"]), 0).to_numpy()
    ends = np.cumsum([0, *lengths], dtype=np.int32)
    nested = pa.Table.from_struct_array(pc.list_flatten(rows["scores"]))
    scores = _adapted(nested, pa.schema(list(field.type.value_type))).to_struct_array()
    return pa.ListArray.from_arrays(pa.array(ends), scores.combine_chunks())


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some disk space and run the same command again: finished batches are kept"
    return "check the disk, then run the same command again: finished batches are kept"
