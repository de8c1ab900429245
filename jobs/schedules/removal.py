"""Removing a schedule that does not run."""

from __future__ import annotations

from datetime import datetime

from catalog.registry.schedules import Schedules
from jobs.schedules.process import is_gone
from survey.errors import SettingsError


def remove_schedule(schedules: Schedules, name: str, now: datetime) -> None:
    """Forget a schedule; what it measured stays.

    Raises
    ------
    UnknownName
        If there is none of that name.
    SettingsError
        If a run of it is in progress.
    """
    schedule = schedules.named(name)
    for run in schedules.open_ticks(schedule):
        if run.state == "running" and not is_gone(run, now):
            raise SettingsError(
                f"a run of {name} is in progress on {run.host}, process {run.pid}",
                hint=f"wait for it or stop it; `survey schedule pause {name}` prevents others",
            )
    schedules.remove(schedule)
