"""Schedules over HTTP: added, shown, paused, resumed and removed."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from catalog.arrow_arrays import table_of
from catalog.home import Home
from catalog.registry.policies import Missed, Overlap
from catalog.registry.registry import Registry
from catalog.registry.rows import Schedule
from catalog.tags import LONGEST
from jobs.operations.server_paths import without_folders
from jobs.planning.targets import require_names
from jobs.schedules.cron import ORIGIN, new_entry
from jobs.schedules.removal import remove_schedule
from jobs.schedules.tables import coming_up, ticks_table
from jobs.service.api.surveys import definition_from
from jobs.service.dependencies import RegistryOfService, SettingsOfService

router = APIRouter(tags=["schedules"])


class NamedTimes(BaseModel):
    """What JSON and the form give of a new schedule alike; ``new_entry`` states what is allowed."""

    #: A part of its address.
    name: str = Field(max_length=LONGEST)
    #: Cron's five fields, or @daily, @weekly, ...
    cron: str = Field(max_length=200)
    timezone: str = Field("UTC", max_length=100)


class NewSchedule(NamedTimes, extra="forbid"):
    """A survey that is to be run at given times."""

    #: Its tables, as a survey file has them.
    survey: dict[str, Any]
    missed: Missed = "latest"
    overlap: Overlap = "skip"


class ShownTick(BaseModel):
    """A due time, and what became of it."""

    due: str
    state: str
    measured: int | None
    failed: int | None
    skipped: int | None
    seconds: float | None
    reason: str | None


class ShownSchedule(BaseModel):
    """A survey that is run at given times."""

    name: str
    cron: str
    timezone: str
    missed: Missed
    overlap: Overlap
    paused_at: datetime | None
    #: The next due times, in its zone; none while it is paused.
    next_due: list[str]
    #: The last due times, the newest first.
    ticks: list[ShownTick]
    #: Its survey's tables, as a survey file has them.
    survey: dict[str, Any]


#: The columns of the list of schedules.
SCHEDULES = {
    **dict.fromkeys(("name", "cron", "timezone", "missed", "overlap"), "VARCHAR"),
    "paused_at": "TIMESTAMPTZ",
    "next_due": "VARCHAR[]",
    **dict.fromkeys(("ticks", "survey"), "JSON"),
}


def schedules_table(home: Home) -> pa.Table:
    """Return the schedules, each with its last due time."""
    with Registry(home) as registry:
        shown = [dict(_shown(registry, each, 1)) for each in registry.schedules.all()]
    kinds = {"TIMESTAMPTZ": pa.timestamp("us", "UTC"), "VARCHAR[]": pa.list_(pa.string())}
    schema = pa.schema([(name, kinds.get(kind, pa.string())) for name, kind in SCHEDULES.items()])
    for row in shown:
        row["ticks"] = json.dumps([dict(tick) for tick in row["ticks"]])
        row["survey"] = json.dumps(row["survey"])
    return table_of(shown, schema)


@router.post("/schedules", status_code=HTTPStatus.CREATED)
def add(
    schedule: NewSchedule, settings: SettingsOfService, registry: RegistryOfService
) -> ShownSchedule:
    """Add a schedule; its first due time is the first after now."""
    definition = definition_from(schedule.survey, settings)
    entry = new_entry(
        schedule.name,
        definition,
        Path(ORIGIN),
        cron=schedule.cron,
        timezone=schedule.timezone,
        missed=schedule.missed,
        overlap=schedule.overlap,
    )
    require_names(definition)
    entry = dataclasses.replace(entry, origin=ORIGIN)
    return _shown(registry, registry.schedules.add(entry, datetime.now(UTC)), 1)


@router.get("/schedules/{name}")
def show(
    name: str, registry: RegistryOfService, last: Annotated[int, Query(ge=1, le=1000)] = 10
) -> ShownSchedule:
    """Return a schedule with its last due times."""
    return _shown(registry, registry.schedules.named(name), last)


@router.post("/schedules/{name}/pause")
def pause(name: str, registry: RegistryOfService) -> ShownSchedule:
    """Pause a schedule: no new run begins; a run in progress continues."""
    registry.schedules.pause(registry.schedules.named(name), datetime.now(UTC))
    return show(name, registry, 1)


@router.post("/schedules/{name}/resume")
def resume(name: str, registry: RegistryOfService) -> ShownSchedule:
    """Resume a paused schedule. Due times during the pause do not count as missed."""
    registry.schedules.resume(registry.schedules.named(name), datetime.now(UTC))
    return show(name, registry, 1)


@router.delete("/schedules/{name}", status_code=HTTPStatus.NO_CONTENT)
def remove(name: str, registry: RegistryOfService) -> None:
    """Remove a schedule that does not run; what it measured stays."""
    remove_schedule(registry.schedules, name, datetime.now(UTC))


def _shown(registry: Registry, schedule: Schedule, last: int) -> ShownSchedule:
    now = datetime.now(UTC)
    ticks = [(schedule, tick) for tick in registry.schedules.ticks(schedule, last)]
    declared = {
        name: getattr(schedule, name)
        for name in ("name", "cron", "timezone", "missed", "overlap", "paused_at")
    }
    return ShownSchedule(
        **declared,
        next_due=[] if schedule.paused_at else coming_up(schedule, now),
        ticks=[ShownTick(**without_folders(row)) for row in ticks_table(ticks, now).to_pylist()],
        survey=without_folders(schedule.definition),
    )
