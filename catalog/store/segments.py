"""Spool segments: small files that make batches and runs durable before they are merged.

A segment holds one or two Arrow streams, one after the other, and a checksum over them: a row a
run, then a row a batch with its site scores nested in it, so that a batch and its scores are one
thing; a stream without rows is left out. It appears under its name whole or not at all; names sort
in the order of writing. Arrow's own form it is because every query reads what is not merged yet,
and small Parquet files take ten times as long to write and to read; and one file, one wait for the
disk, can hold both kinds of rows.

Which numbers may enter the store is decided here: NaN and infinity become NULL, with a reason, and
for a metric beside the affinity with a note, which leaves the affinity as it is.

Owns the files' form; who writes, merges and reads them is told in ``catalog.store.writer`` and
``catalog.store.reader``.
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
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catalog.files import sync_folder
from catalog.home import SEGMENT_ENDING
from catalog.store.records import BatchRecord, RunRecord
from catalog.store.schema import ARROW_TYPES, BATCH_SCORES, BATCHES, METRICS, RUNS
from survey.errors import StoreError
from survey.results import SiteScore, Status

#: Ending of a segment that is not whole yet.
UNFINISHED = ".unfinished"

_SCORE_COLUMNS = tuple(c for c in BATCH_SCORES.columns if c.name not in ("run_id", "batch"))
_METRICS = frozenset(column.name for column in METRICS)
_SCORE_TYPE = pa.struct([(column.name, ARROW_TYPES[column.type]) for column in _SCORE_COLUMNS])

#: What a segment holds of batches.
BATCH_SCHEMA = BATCHES.arrow().append(pa.field("scores", pa.list_(_SCORE_TYPE)))

#: What a segment holds of runs.
RUN_SCHEMA = RUNS.arrow()

_CHECKSUM_BYTES = 4

_KEY = ("run_id", "batch")

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
    #: A row a batch, as ``BATCH_SCHEMA``.
    batches: pa.Table


class _Form:
    """Makes rows of what objects have as attributes of the columns' names, all columns at once.

    A call a column takes three times as long where rows are few.
    """

    def __init__(self, fields: Iterable[pa.Field]) -> None:
        self.type = pa.struct(list(fields))
        self.names = tuple(field.name for field in self.type)
        self._values = attrgetter(*self.names)

    def rows(self, objects: Sequence[object]) -> pa.StructArray:
        """Return a row an object."""
        return pa.array(list(map(self._values, objects)), self.type)


_RUN_FORM, _SCORE_FORM = _Form(RUN_SCHEMA), _Form(_SCORE_TYPE)

#: Columns of ``batches`` that a batch's own scores tell, ...
_BATCH_FORM = _Form(
    map(BATCH_SCHEMA.field, ("batch", "images", "labelled", "top1_hits", "top5_hits"))
)

#: ... that are made here, ...
_MADE = ("skipped_images", "seconds", "recorded_at", "scores")

#: ... and that the batch's record tells.
_RECORD_FORM = _Form(
    field for field in BATCH_SCHEMA if field.name not in (*_BATCH_FORM.names, *_MADE)
)


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
    rows = _RUN_FORM.rows(records)
    unfit = _infinite(rows.flatten(), len(records))
    if unfit.any():
        fit = [_storable_run(r) if bad else r for r, bad in zip(records, unfit, strict=True)]
        rows = _RUN_FORM.rows(fit)
    return pa.Table.from_arrays(rows.flatten(), schema=RUN_SCHEMA)


def batch_table(records: Sequence[BatchRecord]) -> pa.Table:
    """Return the segment rows of some batches."""
    if not records:
        return _empty(BATCH_SCHEMA)
    batches = [record.batch for record in records]
    ends = np.cumsum([0, *(len(batch.scores) for batch in batches)], dtype=np.int32)
    scores = _storable_rows([score for batch in batches for score in batch.scores])
    made = (
        pa.array([len(record.skipped_names) for record in records], pa.int64()),
        pa.array([b.seconds if math.isfinite(b.seconds) else None for b in batches], pa.float64()),
        pa.array([datetime.now(UTC)] * len(records), BATCH_SCHEMA.field("recorded_at").type),
        pa.ListArray.from_arrays(pa.array(ends), scores),
    )
    columns = dict(zip(_MADE, made, strict=True))
    for form, objects in ((_BATCH_FORM, batches), (_RECORD_FORM, records)):
        columns |= zip(form.names, form.rows(objects).flatten(), strict=True)
    return pa.Table.from_arrays([columns[name] for name in BATCH_SCHEMA.names], schema=BATCH_SCHEMA)


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
        runs, batches = _empty(RUN_SCHEMA), _empty(BATCH_SCHEMA)
        while source.tell() < source.size():
            rows = pa.ipc.open_stream(source).read_all()
            if "scores" in rows.schema.names:
                batches = rows
            else:
                runs = rows
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"segment {path} cannot be read: {error}",
            hint="move that file out of the spool; what it held will be measured again",
        ) from error
    return Segment(_adapted(runs, RUN_SCHEMA), _adapted(batches, BATCH_SCHEMA))


def joined(segments: Iterable[Segment]) -> Segment:
    """Return the rows of some segments, given in the order they were written, as one."""
    met = list(segments)
    return Segment(
        _in_few_pieces([_empty(RUN_SCHEMA), *(one.runs for one in met if len(one.runs))]),
        _in_few_pieces([_empty(BATCH_SCHEMA), *(one.batches for one in met if len(one.batches))]),
    )


def score_rows(batches: pa.Table) -> pa.Table:
    """Return the rows of ``batch_scores`` nested in some batches, in their order."""
    pieces = [
        pa.RecordBatch.from_arrays(
            [
                *(piece[name].take(pc.list_parent_indices(piece["scores"])) for name in _KEY),
                *piece["scores"].flatten().flatten(),
            ],
            schema=BATCH_SCORES.arrow(),
        )
        for piece in batches.to_batches()
    ]
    return pa.Table.from_batches(pieces, BATCH_SCORES.arrow())


def score_owners(batches: pa.Table) -> pa.ChunkedArray:
    """Return which of the batches, counting from 0, each of their ``score_rows`` belongs to."""
    lengths = pc.fill_null(pc.list_value_length(batches["scores"]), 0).to_numpy()
    return pa.chunked_array([np.repeat(np.arange(batches.num_rows), lengths)], pa.int64())


def require_storable(batches: pa.Table) -> None:
    """Refuse a table that ``batch_table`` cannot have made.

    Raises
    ------
    StoreError
        If its columns are others, or it holds a number that may not be stored.
    """
    hint = "make it with catalog.store.segments.batch_table"
    if not batches.schema.equals(BATCH_SCHEMA):
        names = set(batches.schema.names) ^ set(BATCH_SCHEMA.names)
        what = f"they differ in {', '.join(sorted(names))}" if names else "their types differ"
        raise StoreError(f"a table's columns are not those of a segment: {what}", hint=hint)
    for piece in batches.to_batches():
        scores = piece["scores"].flatten().flatten()
        unfit = _infinite(scores, len(scores[0])) | _mistaken(scores)
        if unfit.any() or _infinite([piece["seconds"]], piece.num_rows).any():
            raise StoreError(
                f"a table holds {max(int(unfit.sum()), 1)} rows with a number that may not be"
                " stored: NaN, infinite, or an affinity that does not fit its status",
                hint=hint,
            )


def storable(score: SiteScore) -> SiteScore:
    """Return the score as it may be stored: finite numbers, an affinity if and only if it is ok."""
    unfit = [
        field.name
        for field in dataclasses.fields(score)
        if isinstance(value := getattr(score, field.name), float) and not math.isfinite(value)
    ]
    changes: dict[str, Any] = dict.fromkeys(unfit)
    notes = tuple(f"{name}: not finite" for name in unfit if name in _METRICS)
    changes["notes"] = score.notes + notes
    broken = [name for name in unfit if name not in _METRICS]
    if broken:
        changes["reason"] = _with(score.reason, f"not finite: {', '.join(broken)}")
    if score.status != "ok":
        return dataclasses.replace(score, **{**changes, "affinity": None})
    status, reason = _verdict(score, broken)
    if status != "ok":
        changes |= {"status": status, "reason": reason, "affinity": None}
        if "raw_affinity" not in broken and score.raw_affinity is None:
            changes["raw_affinity"] = None if "affinity" in broken else score.affinity
    return dataclasses.replace(score, **changes)


def _verdict(score: SiteScore, broken: list[str]) -> tuple[Status, str | None]:
    if broken:
        return "nonfinite", _with(score.reason, f"not finite: {', '.join(broken)}")
    if score.affinity is None:
        return "failed", _with(score.reason, "said to be ok, but came without an affinity")
    if not 0 <= score.affinity <= 1:
        return "out_of_range", _with(score.reason, f"{score.affinity!r} lies outside [0, 1]")
    return "ok", score.reason


def _storable_rows(scores: Sequence[SiteScore]) -> pa.StructArray:
    rows = _SCORE_FORM.rows(scores)
    columns = rows.flatten()
    unfit = _infinite(columns, len(scores)) | _mistaken(columns)
    if unfit.any():
        fit = [storable(s) if bad else s for s, bad in zip(scores, unfit, strict=True)]
        rows = _SCORE_FORM.rows(fit)
    return rows


def _infinite(columns: list[pa.Array], rows: int) -> np.ndarray:
    """Return which rows hold a number that is none."""
    numbers = [column for column in columns if pa.types.is_floating(column.type)]
    finite = pc.fill_null(pc.is_finite(pa.concat_arrays(numbers)), fill_value=True)
    by_column = finite.to_numpy(zero_copy_only=False).reshape(len(numbers), rows)
    unfit: np.ndarray = ~by_column.all(axis=0)
    return unfit


def _mistaken(columns: list[pa.Array]) -> np.ndarray:
    """Return which scores are ok without an affinity in [0, 1], or have one without being ok."""
    affinity, status = (columns[_SCORE_FORM.names.index(n)] for n in ("affinity", "status"))
    numbers = affinity.to_numpy(zero_copy_only=False)  # NULL becomes NaN, which is within nothing
    ok = pc.equal(status, _ok()).to_numpy(zero_copy_only=False)
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
    if rows.schema.equals(schema):
        return rows
    # A segment of an older version lacks newer columns.
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _hint(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some disk space and run the same command again: finished batches are kept"
    return "check the disk, then run the same command again: finished batches are kept"
