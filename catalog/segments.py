"""Spool segments: small Parquet files that make batches and runs durable before they are merged.

A segment holds one kind of row: ``batch-*.parquet`` a row a batch with its site scores nested in
it, so that a batch and its scores are one thing, ``run-*.parquet`` a row a run. Names sort in the
order of writing. A segment appears under its name whole or not at all. Which numbers may enter the
store is decided here: NaN and infinity become NULL, with a reason, and for a metric beside the
affinity with a note, which leaves the affinity as it is.

Owns the files' form; who writes, merges and reads them is told in ``catalog.spool`` and
``catalog.store``.
"""

from __future__ import annotations

import dataclasses
import errno
import itertools
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.runs import BatchRecord, RunRecord
from catalog.schema import ARROW_TYPES, BATCH_SCORES, BATCHES, METRICS, RUNS
from survey.errors import StoreError
from survey.signature import SiteScore, Status

#: Ending of a segment that is not whole yet.
UNFINISHED = ".unfinished"

#: Where a row came in the order of writing; staged with the rows, never stored.
PLACE = "place"

_SCORE_COLUMNS = tuple(c for c in BATCH_SCORES.columns if c.name not in ("run_id", "batch"))
_METRICS = frozenset(column.name for column in METRICS)
_SCORE_TYPE = pa.struct([(column.name, ARROW_TYPES[column.type]) for column in _SCORE_COLUMNS])

#: What a batch segment holds.
BATCH_SCHEMA = BATCHES.arrow().append(pa.field("scores", pa.list_(_SCORE_TYPE)))

#: What a run segment holds.
RUN_SCHEMA = RUNS.arrow()

_counter = itertools.count()


def batch_rows(records: Sequence[BatchRecord]) -> pa.Table:
    """Return the segment rows of some batches."""
    now = datetime.now(UTC)
    return pa.Table.from_pylist([_batch_row(record, now) for record in records], BATCH_SCHEMA)


def run_rows(records: Sequence[RunRecord]) -> pa.Table:
    """Return the segment rows of some runs."""
    return pa.Table.from_pylist([_run_row(record) for record in records], RUN_SCHEMA)


def write_segment(spool: Path, kind: str, rows: pa.Table) -> Path:
    """Write rows as one segment that is on the disk when this returns.

    Raises
    ------
    StoreError
        If the disk is full or fails; then nothing is left behind.
    """
    path = spool / f"{kind}-{time.time_ns():020d}-{os.getpid()}-{next(_counter):06d}.parquet"
    unfinished = path.with_name(path.name + UNFINISHED)
    try:
        with unfinished.open("xb") as file:
            # So small a file reads four times as fast without dictionaries and compression.
            pq.write_table(
                rows, file, compression="none", use_dictionary=False, write_statistics=False
            )
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        sync_folder(spool)
    except (OSError, pa.ArrowException) as error:
        unfinished.unlink(missing_ok=True)
        raise StoreError(
            f"{rows.num_rows} rows could not be written to {spool}: {error}", hint=_hint(error)
        ) from error
    return path


def segment_paths(spool: Path) -> list[Path]:
    """Return the whole segments in the spool, in the order they were written."""
    return in_order(spool.glob("*-*.parquet"))


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Return segments in the order they were written, whatever their kind."""
    return sorted(paths, key=lambda path: path.name.partition("-")[2])


def read_segment(path: Path) -> pa.Table:
    """Return the rows of one segment.

    Raises
    ------
    FileNotFoundError
        If it is not there any more: it was merged.
    StoreError
        If it cannot be read.
    """
    schema = RUN_SCHEMA if _is_run(path) else BATCH_SCHEMA
    try:
        rows = pq.ParquetFile(path).read(use_threads=False)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StoreError(
            f"segment {path} cannot be read: {error}",
            hint="move that file out of the spool; what it held will be measured again",
        ) from error
    return rows if rows.schema.equals(schema) else _adapted(rows, schema)


def placed_rows(segments: Mapping[Path, pa.Table]) -> tuple[pa.Table, pa.Table]:
    """Return the run rows and the batch rows of some segments, each with its ``place``."""
    runs = [_placed(RUN_SCHEMA.empty_table(), 0)]
    batches = [_placed(BATCH_SCHEMA.empty_table(), 0)]
    for place, path in enumerate(in_order(segments)):
        (runs if _is_run(path) else batches).append(_placed(segments[path], place))
    return pa.concat_tables(runs), pa.concat_tables(batches)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        changes["reason"] = _joined(score.reason, f"not finite: {', '.join(broken)}")
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
        return "nonfinite", _joined(score.reason, f"not finite: {', '.join(broken)}")
    if score.affinity is None:
        return "failed", _joined(score.reason, "said to be ok, but came without an affinity")
    if not 0 <= score.affinity <= 1:
        return "out_of_range", _joined(score.reason, f"{score.affinity!r} lies outside [0, 1]")
    return "ok", score.reason


def _batch_row(record: BatchRecord, now: datetime) -> dict[str, Any]:
    batch = record.batch
    return {
        "run_id": record.run_id,
        "batch": batch.batch,
        "attempt": record.attempt,
        "images": batch.images,
        "end_position": record.end_position,
        "skipped_images": len(record.skipped_names),
        "skipped_names": list(record.skipped_names),
        "labelled": batch.labelled,
        "top1_hits": batch.top1_hits,
        "top5_hits": batch.top5_hits,
        "seconds": batch.seconds if math.isfinite(batch.seconds) else None,
        "recorded_at": now,
        "scores": [_score_row(storable(score)) for score in batch.scores],
    }


def _score_row(score: SiteScore) -> dict[str, Any]:
    return {column.name: getattr(score, column.name) for column in _SCORE_COLUMNS}


def _run_row(record: RunRecord) -> dict[str, Any]:
    row = dataclasses.asdict(record)
    broken = [k for k, v in row.items() if isinstance(v, float) and not math.isfinite(v)]
    if broken:
        row |= dict.fromkeys(broken)
        row["error"] = _joined(record.error, f"not finite: {', '.join(broken)}")
    return row


def _joined(first: str | None, second: str) -> str:
    return f"{first}; {second}" if first else second


def _placed(rows: pa.Table, place: int) -> pa.Table:
    # Within a segment the rows keep their order: the place is of the segment, then of the row.
    places = pa.array(range(rows.num_rows), pa.int64())
    return rows.append_column(PLACE, pa.compute.add(places, place << 32))


def _is_run(path: Path) -> bool:
    return path.name.startswith("run-")


def _adapted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    # A segment of an older version lacks newer columns.
    for field in schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows.select(schema.names).cast(schema)


def _hint(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return "free some disk space and run the same command again: finished batches are kept"
    return "check the disk, then run the same command again: finished batches are kept"
