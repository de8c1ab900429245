"""The driver: the one process of a service that scans.

It runs what is due and what was submitted, one after another, since a home has one writer, and
sends the events that follow. Everything it knows is in the home's stores: it may be killed at any
moment, and the next driver goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catalog.home import Home
from catalog.open_home import reopen_home
from catalog.registry.policies import GRACE_SECONDS
from catalog.registry.registry import Registry
from catalog.registry.rows import Submission, Tick
from catalog.store.writer_lock import writing_process
from jobs.runners.base import Runner
from jobs.runners.options import Limits
from jobs.scan.interruption import raise_if_interrupted
from jobs.scan.progress_display import progress_reporter
from jobs.scan.reporter import Reporter
from jobs.schedules.claimed_run import Ended, Pace, utc_now
from jobs.schedules.notices import outcome_of
from jobs.schedules.tick import next_due, tick
from jobs.service.deliveries import delivering
from jobs.service.driver_state import DriverFile, only_driver
from jobs.service.receivers import Receiver
from jobs.service.submissions import (
    leave_to_others,
    next_submission,
    run_submission,
    title_of,
)

#: Seconds between two looks for something to do; while another process writes to the home; and
#: after a store or a cluster could not be reached.
LOOK_SECONDS, BUSY_SECONDS, UNREACHED_SECONDS = 1.0, 2.0, 15.0


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """What a driver is told when it starts."""

    home: Home
    #: Makes the runner of each survey.
    make_runner: Callable[[], Runner]
    #: Takes a line about what it does.
    say: Callable[[str], None]
    #: Called before every look, such as to learn what code its user consented to.
    prepare: Callable[[], None] = _nothing
    #: Folders below which the files lie that submitted surveys may name.
    allowed: tuple[Path, ...] = ()
    #: Who is sent events.
    receivers: Sequence[Receiver] = ()
    #: Whether to fetch nothing.
    offline: bool = False
    limits: Limits = field(default_factory=Limits)
    #: Seconds after which a due time counts as missed.
    grace: float = GRACE_SECONDS


def drive(settings: DriverSettings) -> None:
    """Run what is due and what was submitted, until KeyboardInterrupt.

    A home that another driver has is waited for.

    Raises
    ------
    StoreError
        If the home has gone.
    """
    # Options that no runner can follow are refused before anything waits for it.
    settings.make_runner()
    # Before its lock, which makes the home's folder.
    reopen_home(settings.home)
    with (
        only_driver(settings.home, settings.say),
        Registry(settings.home) as registry,
        delivering(registry.events, settings.receivers),
        progress_reporter() as reporter,
    ):
        driver = _Driver(settings, registry, reporter)
        while True:
            raise_if_interrupted()
            time.sleep(driver.look())


class _Driver:
    def __init__(self, settings: DriverSettings, registry: Registry, reporter: Reporter) -> None:
        self._settings, self._registry, self._reporter = settings, registry, reporter
        self._file = DriverFile(settings.home)
        self._pace = Pace(grace=settings.grace)
        self._due_last = False
        #: Why submissions are left to other services, by their numbers: each is logged once.
        self._left: dict[int, str] = {}
        #: What could not be run, by kind and number, until something else had its turn.
        self._waited: set[tuple[type, int]] = set()

    def look(self) -> float:
        """Run the next of what is to be done, if any; return for how many seconds to wait."""
        self._settings.prepare()
        work = self._next()
        if work is None and self._waited:
            self._waited.clear()
            work = self._next()
        if work is None:
            self._file.write("idle", "", "")
            return LOOK_SECONDS
        title, run = work
        if writer := writing_process(self._settings.home):
            # Looked at before anything is taken: nothing is fetched and no claim counts meanwhile.
            self._wait(title, f"another scan is writing to the home ({writer})")
            return BUSY_SECONDS
        self._file.write("running", title, "")
        ended = run()
        return self._report(title, ended) if ended else LOOK_SECONDS

    def _next(self) -> tuple[str, Callable[[], Ended[Any] | None]] | None:
        """Return what is to be done next, and what does it."""
        now, submissions = utc_now(), self._registry.submissions
        due = next_due(self._registry.schedules, now, self._settings.grace, self._passed_ticks())
        submission = next_submission(submissions, now, self._passed_over)
        # One of each kind in turn: neither keeps the other waiting for ever.
        self._due_last = due is not None and not (submission and self._due_last)
        if due and self._due_last:
            return f"schedule {due[0].name}", self._tick
        if submission:
            name, _ = submissions.survey(submission)
            return title_of(submission, name), lambda: self._run_submission(submission)
        return None

    def _passed_ticks(self) -> list[int]:
        return [number for kind, number in self._waited if kind is Tick]

    def _passed_over(self, submission: Submission) -> bool:
        """Return whether a submission waits: for its turn, or a service that allows its folders."""
        if (Submission, submission.id) in self._waited:
            return True
        submissions = self._registry.submissions
        reason = leave_to_others(submissions, submission, self._settings.allowed)
        if reason and self._left.get(submission.id) != reason:
            self._left[submission.id] = reason
            name, _ = submissions.survey(submission)
            self._settings.say(
                f"{title_of(submission, name)} waits for a service that may run it: {reason}"
            )
        return reason is not None

    def _tick(self) -> Ended[Any] | None:
        settings = self._settings
        ran = tick(
            settings.home,
            settings.make_runner,
            self._reporter,
            offline=settings.offline,
            limits=settings.limits,
            pace=self._pace,
            most=1,
            allowed=settings.allowed,
            passed=self._passed_ticks(),
        )
        return ran[0].ended if ran else None

    def _run_submission(self, submission: Submission) -> Ended[Any] | None:
        settings = self._settings
        return run_submission(
            settings.home,
            self._registry,
            submission,
            settings.make_runner,
            self._reporter,
            allowed=settings.allowed,
            offline=settings.offline,
            limits=settings.limits,
        )

    def _report(self, title: str, ended: Ended[Any]) -> float:
        if ended.left is not None:
            self._wait(title, ended.left.message)
            if ended.busy:
                return BUSY_SECONDS
            self._waited.add((type(ended.row), ended.row.id))
            return UNREACHED_SECONDS
        self._waited.clear()
        self._settings.say(f"{title}: {outcome_of(ended.row)}")
        for job, failure in ended.outcome.failed if ended.outcome else ():
            self._settings.say(f"{job.title}: {failure.stage}: {failure.message}")
        return 0.0

    def _wait(self, title: str, reason: str) -> None:
        if self._file.write("waiting", title, reason):
            self._settings.say(f"{title} waits: {reason}")
