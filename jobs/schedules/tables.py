"""Schedules and their due times as tables."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from catalog.arrow_arrays import table_of
from catalog.registry.rows import Schedule, Tick
from catalog.registry.schedules import Schedules
from jobs.schedules.cron import due_times
from jobs.schedules.process import is_gone

#: Number of due times shown in advance.
COMING = 5

#: Columns that declare a schedule.
_DECLARED = ("name", "cron", "timezone", "missed", "overlap")

SCHEDULES = pa.schema(
    [(name, pa.string()) for name in (*_DECLARED, "state", "next_due", "last_due", "last")]
)

TICKS = pa.schema(
    [
        ("schedule", pa.string()),
        ("due", pa.string()),
        ("state", pa.string()),
        ("measured", pa.int64()),
        ("failed", pa.int64()),
        ("skipped", pa.int64()),
        ("seconds", pa.float64()),
        ("started_at", pa.timestamp("us", "UTC")),
        ("ended_at", pa.timestamp("us", "UTC")),
        ("host", pa.string()),
        ("pid", pa.int64()),
        ("reason", pa.string()),
    ]
)

#: Columns of a due time that a terminal shows.
TICK_HEADINGS: dict[str, str | None] = {
    name: None for name in TICKS.names if name not in ("started_at", "ended_at", "host", "pid")
}


def schedules_table(schedules: Schedules, now: datetime) -> pa.Table:
    """Return one row a schedule: its policies, its next due time and the state of its last one."""
    rows = []
    for schedule in schedules.all():
        last = next(iter(schedules.ticks(schedule, 1)), None)
        coming = coming_up(schedule, now)
        rows.append(
            {name: getattr(schedule, name) for name in _DECLARED}
            | {
                "state": "paused" if schedule.paused_at else "active",
                "next_due": None if schedule.paused_at else next(iter(coming), None),
                "last_due": _local(schedule, last.due_at) if last else None,
                "last": state_of(last, now) if last else None,
            }
        )
    return table_of(rows, SCHEDULES)


def ticks_table(ticks: Iterable[tuple[Schedule, Tick]], now: datetime) -> pa.Table:
    """Return one row a due time with its state and its counts of jobs."""
    kept = [name for name in TICKS.names if name not in ("schedule", "due", "state")]
    rows = [
        {name: getattr(tick, name) for name in kept}
        | {"schedule": schedule.name, "due": _local(schedule, tick.due_at)}
        | {"state": state_of(tick, now)}
        for schedule, tick in ticks
    ]
    return table_of(rows, TICKS)


def schedule_table(schedule: Schedule, ticks: pa.Table, now: datetime) -> pa.Table:
    """Return one schedule and its ticks as one row; its survey as JSON text."""
    values = facts(schedule) | {
        "next_due": coming_up(schedule, now),
        "definition": json.dumps(schedule.definition),
    }
    fields = [
        (name, pa.list_(pa.string()) if name == "next_due" else pa.string()) for name in values
    ]
    table = table_of([values], pa.schema(fields))
    column = pa.array([ticks.to_pylist()], pa.list_(pa.struct(TICKS)))
    return table.append_column("ticks", column)


def facts(schedule: Schedule) -> dict[str, Any]:
    """Return the declaration and the state of a schedule, as text."""
    paused = schedule.paused_at
    return {
        "name": schedule.name,
        "survey": str(schedule.definition.get("name", schedule.name)),
        "origin": schedule.origin,
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "missed": schedule.missed,
        "overlap": schedule.overlap,
        "state": f"paused since {_local(schedule, paused)}" if paused else "active",
    }


def coming_up(schedule: Schedule, now: datetime) -> list[str]:
    """Return the next due times after a moment, in the schedule's zone."""
    coming = due_times(schedule.cron, schedule.timezone, max(now, schedule.settled_at))
    return [_local(schedule, moment) for moment in islice(coming, COMING)]


def state_of(tick: Tick, now: datetime) -> str:
    """Return a tick's state; ``interrupted`` where the process that ran it is gone."""
    gone = tick.state == "running" and is_gone(tick, now)
    return "interrupted" if gone else tick.state


def _local(schedule: Schedule, moment: datetime) -> str:
    return moment.astimezone(ZoneInfo(schedule.timezone)).isoformat(timespec="seconds")
