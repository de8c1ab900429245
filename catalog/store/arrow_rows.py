"""Arrow rows: runs and batches as a segment holds them, with the numbers that may be stored.

NaN and infinity become NULL, with a reason, and for a metric beside the affinity with a note, which
leaves the affinity as it is. A batch's scores are nested in its row, with a column of every metric
that one of them has: also of a metric from a package that is not installed where they are read.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, reduce
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from catalog.arrow_arrays import array_of, table_of
from catalog.store.records import BatchRecord, NetworkRecord, PackedScores, RunRecord
from catalog.store.schema import (
    BATCH_SCORES,
    BATCHES,
    METRIC_COLUMNS,
    NETWORK_CURVES,
    NETWORK_SCORES,
    RUNS,
)
from survey.column_fields import Column, columns_of
from survey.network_measures.base import NetworkScore
from survey.results import BatchScores, Site, SiteScore

#: How Arrow carries the SQL types in use from the spool into the store.
_ARROW_TYPES: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}

_METRICS = tuple(column.name for column in METRIC_COLUMNS)


def _arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of rows of some columns."""
    return pa.schema([(column.name, _ARROW_TYPES[column.type]) for column in columns])


#: What a segment holds of runs.
RUN_SCHEMA = _arrow_schema(RUNS.columns)

_POINT = _arrow_schema(c for c in NETWORK_CURVES.columns if c.name not in ("run_id", "measure"))

#: What a segment holds of measures of whole networks.
NETWORK_SCHEMA = _arrow_schema(NETWORK_SCORES.columns).append(
    pa.field("curve", pa.list_(pa.struct(list(_POINT))))
)

_NETWORK_VALUES = ("value", "reason", "standard_error", "samples", "version")

_BATCH, _RECORD = _arrow_schema(columns_of(BatchScores)), _arrow_schema(columns_of(BatchRecord))
_SITE = _arrow_schema(columns_of(Site))
_SCORE = _arrow_schema(
    c for c in BATCH_SCORES.columns if c.name not in ("run_id", "batch", *_SITE.names, *_METRICS)
)
_RUN_TYPE, _BATCH_TYPE = pa.struct(list(RUN_SCHEMA)), pa.struct([*_BATCH, *_RECORD])
_run_values = attrgetter(*RUN_SCHEMA.names)
_batch_values, _record_values = attrgetter(*_BATCH.names), attrgetter(*_RECORD.names)
_site_values, _score_values = attrgetter(*_SITE.names), attrgetter(*_SCORE.names)


@cache
def score_type(metrics: tuple[str, ...]) -> pa.StructType:
    """Return the type of a score, made once: that takes longer than using it for a few scores."""
    return pa.struct([*_SITE, *_SCORE, *((name, pa.float64()) for name in metrics)])


_SCORES = pa.field("scores", pa.list_(score_type(_METRICS)))

#: What a segment holds of batches, whose scores may have more metrics than are declared.
BATCH_SCHEMA = _arrow_schema(BATCHES.columns).append(_SCORES)

#: The numbers of a score beside its metrics.
_NUMBERS = tuple(field.name for field in _SCORE if pa.types.is_floating(field.type))


@cache
def empty(schema: pa.Schema) -> pa.Table:
    """Return a table without rows, made once: that takes longer than making a full one."""
    return table_of((), schema)


def run_table(records: Sequence[RunRecord]) -> pa.Table:
    """Return the segment rows of some runs."""
    if not records:
        return empty(RUN_SCHEMA)
    rows = [_run_values(_storable_run(record)) for record in records]
    return pa.Table.from_struct_array(array_of(rows, _RUN_TYPE))


def packed(record: BatchRecord) -> BatchRecord:
    """Return a batch for another process to store, which then only copies its row."""
    row = batch_table([record])
    scores = row["scores"].combine_chunks().flatten()
    affinities = (scores.field(name).to_pylist() for name in ("site", "affinity"))
    stream = pa.BufferOutputStream()
    with pa.ipc.new_stream(stream, row.schema) as writer:
        writer.write_table(row)
    return dataclasses.replace(
        record,
        batch=dataclasses.replace(record.batch, scores=()),
        packed=PackedScores(tuple(zip(*affinities, strict=True)), stream.getvalue().to_pybytes()),
    )


def batch_table(records: Sequence[BatchRecord]) -> pa.Table:
    """Return the segment rows of some batches, in their order."""
    if not records:
        return empty(BATCH_SCHEMA)
    parts = [
        _packed_rows(group) if rows else _batch_rows(list(group))
        for rows, group in groupby(records, lambda record: record.packed is not None)
    ]
    return parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="permissive")


def _packed_rows(records: Iterable[BatchRecord]) -> pa.Table:
    """Return the rows that workers made, as of now."""
    streams = (pa.ipc.open_stream(record.packed.row) for record in records if record.packed)
    rows = pa.concat_tables((s.read_all() for s in streams), promote_options="permissive")
    now = array_of([datetime.now(UTC)] * len(rows), _ARROW_TYPES["TIMESTAMPTZ"])
    place = rows.schema.get_field_index("recorded_at")
    return rows.combine_chunks().set_column(place, "recorded_at", now)


def _batch_rows(records: Sequence[BatchRecord]) -> pa.Table:
    """Return a row a batch whose scores are at hand."""
    rows = [_batch_values(record.batch) + _record_values(record) for record in records]
    batches = array_of(rows, _BATCH_TYPE)
    columns = dict(zip(_BATCH_TYPE.names, batches.flatten(), strict=True))
    scores = _storable_rows([score for record in records for score in record.batch.scores])
    ends = accumulate((len(record.batch.scores) for record in records), initial=0)
    now = [datetime.now(UTC)] * len(records)
    seconds = columns["seconds"]
    columns |= {
        "seconds": pc.if_else(pc.is_finite(seconds), seconds, pa.nulls(len(records), pa.float64())),
        "skipped_images": pc.list_value_length(columns["skipped_names"]).cast(pa.int64()),
        "recorded_at": array_of(now, _ARROW_TYPES["TIMESTAMPTZ"]),
        "scores": pa.ListArray.from_arrays(array_of([*ends], pa.int32()), scores),
    }
    return pa.table(columns).select(BATCH_SCHEMA.names)


def network_table(records: Sequence[NetworkRecord]) -> pa.Table:
    """Return the segment rows of some measures of whole networks."""
    rows = [
        {"run_id": record.run_id, "measure": measure, **_network_row(score)}
        for record in records
        for measure, score in record.scores.items()
    ]
    return table_of(rows, NETWORK_SCHEMA) if rows else empty(NETWORK_SCHEMA)


def _network_row(score: NetworkScore) -> dict[str, Any]:
    row = {name: getattr(score, name) for name in _NETWORK_VALUES}
    broken = [name for name in ("value", "standard_error") if not _finite(row[name])]
    row |= dict.fromkeys(broken)
    if "value" in broken:
        row["reason"] = "its value is not finite"
    row["status"] = "undefined" if row["value"] is None else "ok"
    row["details"] = json.dumps(_plain(score.details), sort_keys=True) if score.details else None
    points = ((point.x, point.y, point.standard_error) for point in score.curve)
    row["curve"] = [(place, *map(_plain, values)) for place, values in enumerate(points)]
    return row


def _plain(value: Any) -> Any:
    """Return a value with every number that is not finite as None: JSON has no word for them."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    finite = _finite_rows(rows).to_pylist()
    unfit = [not f or _mistaken(s) for f, s in zip(finite, scores, strict=True)]
    if any(unfit):
        rows = _score_rows(
            [storable(s) if bad else s for s, bad in zip(scores, unfit, strict=True)]
        )
    return rows


def _score_rows(scores: Sequence[SiteScore]) -> pa.StructArray:
    """Return a row a score, with the declared metrics and any others that one has a value of."""
    metrics = [score.metrics for score in scores]
    names = (*_METRICS, *sorted(set().union(*metrics).difference(_METRICS)))
    complete = sum(map(len, metrics)) == len(names) * len(metrics)
    of = itemgetter(*names) if complete else lambda each: tuple(map(each.get, names))
    rows = [_site_values(s.place) + _score_values(s) + of(s.metrics) for s in scores]
    return array_of(rows, score_type(names))


def _finite_rows(rows: pa.StructArray) -> pa.BooleanArray:
    """Return which rows hold finite numbers and NULL alone."""
    numbers = (column for column in rows.flatten() if pa.types.is_floating(column.type))
    return reduce(pc.and_, (pc.or_kleene(pc.is_null(n), pc.is_finite(n)) for n in numbers))


def _mistaken(score: SiteScore) -> bool:
    """Return whether a score is ok without an affinity in [0, 1], or has one without being ok."""
    if score.status != "ok":
        return score.affinity is not None
    return score.affinity is None or not 0 <= score.affinity <= 1


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
