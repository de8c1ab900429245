"""Due times of a schedule, and which of the missed ones are run. Pure: no clock, no store.

Due times follow Debian's cron through changes of the clocks: a fixed time that a change skips is
due at the first moment after it, one that comes twice is due once, and with ``*`` for the hour or
the minute the fields are matched as the clock shows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from catalog.registry.policies import Missed, Overlap
from catalog.registry.rows import Schedule, ScheduleEntry
from catalog.registry.schedules import Due
from catalog.tags import LONGEST
from jobs.planning.definition import Definition, parse_definition
from survey import MeasureSettings, SettingsError, UnknownName
from survey.text import counted, shortened

#: The origin of a schedule that was added over HTTP: it may name no files but those allowed.
ORIGIN = "HTTP"

#: Missed due times that are kept as skipped, and that are run where all are to be: a home that was
#: off for a year needs no more.
MOST_SKIPPED, MOST_RUN = 100, 1000

#: The fields of a cron expression and what each may hold.
FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L (the last day) or LW (the last weekday)",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 (0 and 7 are Sunday) or SUN to SAT, 5L (the last) or 5#2 (the second)",
}

#: Names that cron has for some expressions, with their fields.
NICKNAMES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_HINT = (
    'five fields: minute hour day-of-month month day-of-week, such as "0 3 * * 1", or one of '
    + ", ".join(NICKNAMES)
)


def new_entry(
    name: str,
    definition: Definition,
    origin: Path,
    *,
    cron: str,
    timezone: str,
    missed: Missed = "latest",
    overlap: Overlap = "skip",
) -> ScheduleEntry:
    """Return a schedule from checked options.

    Parameters
    ----------
    name : str
        The schedule's name.
    definition : Definition
        The survey.
    origin : pathlib.Path
        The file it was read from.
    cron : str
        Due times as five cron fields, or one of ``NICKNAMES``; its fields are kept.
    timezone : str
        The time zone they are meant in, such as ``Europe/Paris``.
    missed : {"latest", "all", "skip"}
        Missed due times that are run.
    overlap : {"skip", "queue", "replace"}
        Policy for a due time while a former run is under way.

    Raises
    ------
    SettingsError
        If the name or the cron expression cannot be used.
    UnknownName
        If the time zone is unknown.
    """
    is_line = name == name.strip() and name.isprintable() and len(name) <= LONGEST
    if not is_line or not name.strip(" .") or "/" in name:
        raise SettingsError(
            f"the schedule's name is {shortened(repr(name))}, must be text of at most {LONGEST}"
            " characters without / or spaces around it, and not of dots alone: addresses of the"
            " service hold it"
        )
    if timezone not in available_timezones():
        raise UnknownName("time zone", timezone, available_timezones())
    cron = NICKNAMES.get(cron.strip().lower(), cron)
    _check_cron(cron)
    return ScheduleEntry(
        name=name,
        definition={**definition.to_dict(), "name": definition.name},
        base=str(definition.base),
        origin=str(origin.absolute()),
        cron=" ".join(cron.split()),
        timezone=timezone,
        missed=missed,
        overlap=overlap,
    )


def definition_of(schedule: ScheduleEntry) -> Definition:
    """Return the survey a schedule runs."""
    name, base = schedule.name, Path(schedule.base)
    return recorded_definition(schedule.definition, name, base, f"schedule {name}")


def recorded_definition(
    stored: dict[str, Any], name: str, base: Path, origin: str | None = None
) -> Definition:
    """Return a survey from its record in the registry; see ``Definition.origin``."""
    settings = MeasureSettings.from_record(stored.get("settings", {})).to_dict()
    values = {**stored, "settings": settings}
    # One that was recorded before names had a limit may be longer than one that is declared.
    name = values.pop("name", name)
    return parse_definition(values, name, base, origin=origin)


def due_times(cron: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """Yield the due times after a moment, in UTC, without end.

    Parameters
    ----------
    cron : str
        Five cron fields.
    timezone : str
        The time zone they are meant in.
    after : datetime
        A moment, in any zone.
    """
    last = after.astimezone(UTC)
    for moment in CronSim(cron, after.astimezone(ZoneInfo(timezone))):
        # In UTC before they are compared: within one zone Python compares what clocks show, and a
        # clock set back shows an hour twice. What was due in the first one is not due again.
        if (instant := moment.astimezone(UTC)) > last:
            last = instant
            yield instant


def due_until(schedule: Schedule, now: datetime) -> list[datetime]:
    """Return the due times that passed since the last one that was claimed."""
    coming = due_times(schedule.cron, schedule.timezone, schedule.settled_at)
    return list(takewhile(lambda moment: moment <= now, coming))


def by_policy(
    times: Sequence[datetime], missed: Missed, now: datetime, grace_seconds: float
) -> list[Due]:
    """Return which of the due times that passed are to be run, and which are skipped.

    Parameters
    ----------
    times : sequence of datetime
        Due times, in order.
    missed : {"latest", "all", "skip"}
        The schedule's policy.
    now : datetime
        The moment they are seen.
    grace_seconds : float
        How late a due time may be seen and still count as seen in time.
    """
    if missed == "all":
        wanted = set(times[-MOST_RUN:])
        reason = f"missed: the newest {MOST_RUN:,} are run"
    elif missed == "latest":
        wanted = set(times[-1:])
        reason = "missed: the newest is run in its place"
    else:
        wanted = {moment for moment in times if now - moment <= timedelta(seconds=grace_seconds)}
        reason = f"missed: nobody looked until {now.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    skipped = [moment for moment in times if moment not in wanted]
    earlier = len(skipped) - MOST_SKIPPED
    dues = [Due(moment, reason) for moment in skipped[-MOST_SKIPPED:]]
    if earlier > 0:
        dues[0] = Due(dues[0].at, f"{reason}; so were {earlier} earlier ones")
    return sorted([*dues, *(Due(moment) for moment in wanted)], key=lambda due: due.at)


def _check_cron(cron: str) -> None:
    fields = cron.split()
    if len(fields) != len(FIELDS):
        raise SettingsError(
            f"the cron expression {cron!r} has {counted(len(fields), 'field')}, must have five",
            hint=_HINT,
        )
    # Each field by itself, since the library's error does not show its content.
    for place, (name, allowed) in enumerate(FIELDS.items()):
        alone = ["*"] * len(FIELDS)
        alone[place] = fields[place]
        if not _parses(" ".join(alone)):
            raise SettingsError(
                f"the cron expression {cron!r} has {fields[place]!r} as its {name}; allowed are"
                f" {allowed}, lists (1,2), ranges (1-5), steps (*/2) and *",
                hint=_HINT,
            )
    if not _parses(cron) or next(due_times(cron, "UTC", datetime.now(UTC)), None) is None:
        raise SettingsError(
            f"the cron expression {cron!r} is never due: no date has that day in that month",
            hint=_HINT,
        )


def _parses(cron: str) -> bool:
    try:
        CronSim(cron, datetime.now(UTC))
    # The second of a number with thousands of digits.
    except (CronSimError, ValueError):
        return False
    return True
