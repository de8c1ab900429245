"""Carrying out what is due: once a due time, under each policy, whoever dies in the middle."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from catalog.home import Home
from catalog.registry.claims import ProcessIdentity, Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import Schedule, Tick
from catalog.registry.schedules import Due, Schedules
from catalog.store.reader import query
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from jobs.planning.definition import Definition, parse_definition
from jobs.run import run_survey
from jobs.runners.local import LocalRunner
from jobs.runners.options import Limits
from jobs.scan.interruption import termination_interrupts
from jobs.scan.reporter import Reporter
from jobs.scan.scan_progress import read_progress
from jobs.schedules import notices
from jobs.schedules.claimed_run import MOST_LOSSES, Pace
from jobs.schedules.cron import new_entry
from jobs.schedules.process import is_gone, this_process
from jobs.schedules.tick import Ran, look, tick
from survey.errors import StoreError
from tests.catalog.homes import new_home
from tests.jobs.jobs import ON_CPU

pytestmark = pytest.mark.slow(seconds=12)

ROOT = Path(__file__).resolve().parents[3]

#: The schedule's beginning; due times are full hours.
BEGIN = datetime(2026, 11, 2, 8, 30, tzinfo=UTC)


def at(hours: float) -> datetime:
    """Return a moment, in hours of the day."""
    return BEGIN.replace(hour=0, minute=0) + timedelta(hours=hours)


def small_survey(model: str = "small:digits_vgg7") -> Definition:
    values = {
        "models": [{"name": model}],
        "datasets": [{"name": "digits:heldout"}],
        "settings": {"images_per_score": 64},
    }
    return parse_definition(values, "test", Path())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds what the survey asks for, so that running it again is quick."""
    path = tmp_path_factory.mktemp("measured") / "home"
    run_survey(new_home(path), small_survey(), LocalRunner(ON_CPU), Reporter())
    return path


@pytest.fixture
def fresh(tmp_path: Path) -> Home:
    """A home that holds nothing."""
    return new_home(tmp_path / "home")


@pytest.fixture
def home(measured: Path, tmp_path: Path) -> Home:
    """A home that holds what the survey asks for."""
    shutil.copytree(measured, tmp_path / "home")
    return Home(tmp_path / "home")


def added(home: Home, name: str = "hourly", **changes: str) -> Schedule:
    given = {"cron": "0 * * * *", "timezone": "Europe/Paris", **changes}
    with Registry(home) as registry:
        made = new_entry(name, small_survey(), Path("zoo.toml"), **given)
        return registry.schedules.add(made, BEGIN)


def ticked(home: Home, hours: float, reporter: Reporter | None = None, **pace: float) -> list[Ran]:
    return tick(
        home,
        lambda: LocalRunner(ON_CPU),
        reporter or Reporter(),
        now=lambda: at(hours),
        pace=Pace(**pace),
    )


def states(home: Home, schedule: Schedule) -> list[tuple[float, str]]:
    with Registry(home) as registry:
        ticks = registry.schedules.ticks(schedule)
    return [((one.due_at - at(0)) / timedelta(hours=1), one.state) for one in reversed(ticks)]


def ran_at(ran: list[Ran]) -> list[tuple[float, str]]:
    return [((one.tick.due_at - at(0)) / timedelta(hours=1), one.tick.state) for one in ran]


@pytest.mark.parametrize("name", ["", "registry.sqlite"])
def test_a_home_that_was_moved_is_not_made_anew(home: Home, name: str) -> None:
    added(home)
    there, elsewhere = home.path / name, home.path.with_name("elsewhere")

    def moves() -> LocalRunner:
        there.rename(elsewhere)
        return LocalRunner(ON_CPU)

    (ran,) = tick(home, moves, Reporter(), now=lambda: at(9.1))
    assert isinstance(ran.ended.left, StoreError)
    assert (ran.tick.state, there.exists()) == ("waiting", False)
    elsewhere.rename(there)
    assert ran_at(ticked(home, 9.2)) == [(9, "done")]


def runs(home: Home) -> list[dict]:
    return query(home, "SELECT status, attempt, batches FROM runs").to_pylist()


class Meanwhile(Reporter):
    """Does something else in the middle of the first scan, before and after its plan."""

    def __init__(self, action: Callable[[], None]) -> None:
        self.actions = [action]

    def planned(self, plan: object) -> None:
        if self.actions:
            self.actions.pop()()


def test_what_is_due_runs_once_and_a_second_look_does_nothing(fresh):
    home = fresh
    schedule = added(home)
    assert ticked(home, 8.9) == []
    (ran,) = ticked(home, 9)
    due = ran.tick
    assert (due.state, due.measured, due.failed, due.skipped) == ("done", 1, 0, 0)
    assert ticked(home, 9) == []
    assert ticked(home, 9.5) == []
    (again,) = ticked(home, 10)
    assert (again.tick.measured, again.tick.skipped) == (0, 1)
    assert states(home, schedule) == [(9, "done"), (10, "done")]
    assert [run["status"] for run in runs(home)] == ["done"]


def test_a_due_time_keeps_to_the_limits_of_its_jobs(fresh):
    added(fresh)
    (ran,) = tick(
        fresh,
        lambda: LocalRunner(ON_CPU),
        Reporter(),
        limits=Limits(deadline=1e-9),
        now=lambda: at(9),
    )
    assert (ran.tick.state, ran.tick.failed) == ("failed", 1)
    assert "the deadline of a job" in ran.ended.outcome.failed[0][1].message


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("latest", ["skipped", "skipped", "done"]),
        ("all", ["done", "done", "done"]),
        ("skip", ["skipped", "skipped", "skipped"]),
    ],
)
def test_three_due_times_without_anybody(home, missed, expected):
    schedule = added(home, missed=missed)
    ran = ticked(home, 11.5)
    assert states(home, schedule) == list(zip((9, 10, 11), expected, strict=True))
    assert ran_at(ran) == [one for one in states(home, schedule) if one[1] == "done"]
    assert ticked(home, 11.6) == []
    assert ran_at(ticked(home, 12)) == [(12, "done")]


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_a_clock_that_ran_ahead_and_was_put_right_stops_no_schedule(home, overlap):
    schedule = added(home, overlap=overlap)
    days, ahead = 24.0, iter([9.0])
    # The clock jumps while the first run goes, and another due time is run then.
    assert tick(
        home,
        lambda: LocalRunner(ON_CPU),
        Reporter(),
        now=lambda: at(next(ahead, 400 * days)),
        pace=Pace(),
    )
    assert ticked(home, 9.6) == []
    assert ran_at(ticked(home, 10)) == [(10, "done")]
    assert ran_at(ticked(home, 11)) == [(11, "done")]
    # What has its row already is not run once more.
    assert ticked(home, 9.6) == []
    assert ticked(home, 11.1) == []
    assert states(home, schedule)[:3] == [(9, "done"), (10, "done"), (11, "done")]


def test_a_pause_is_no_miss(home):
    schedule = added(home, missed="all")
    with Registry(home) as registry:
        assert registry.schedules.pause(schedule, at(8.6))
        assert not registry.schedules.pause(schedule, at(8.7))
        assert ticked(home, 10.5) == []
        assert registry.schedules.resume(schedule, at(10.6))
        assert not registry.schedules.resume(schedule, at(10.7))
    assert ran_at(ticked(home, 11)) == [(11, "done")]


@pytest.mark.parametrize(
    ("overlap", "meanwhile", "expected"),
    [
        ("skip", "skipped", [(9, "done"), (10, "skipped")]),
        ("queue", "waiting", [(9, "done"), (10, "done")]),
        ("replace", "waiting", [(9, "replaced"), (10, "done")]),
    ],
)
def test_a_due_time_that_meets_a_run_going(home, overlap, meanwhile, expected):
    """Another process looks at ten, while the run of nine goes."""
    schedule = added(home, overlap=overlap)
    seen = []

    def look_at_ten() -> None:
        assert ticked(home, 10) == []
        seen.extend(states(home, schedule))
        # Several beats, so that the process that runs has heard of it.
        time.sleep(0.5)

    ran = ticked(home, 9, Meanwhile(look_at_ten), beat=0.02)
    assert seen == [(9, "running"), (10, meanwhile)]
    assert states(home, schedule) == expected
    assert ran_at(ran) == [one for one in expected if one[1] != "skipped"]
    assert [run["status"] for run in runs(home)] == ["done"]
    assert ticked(home, 10.1) == []


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        ("skip", [(9, "done"), (10, "skipped")]),
        ("queue", [(9, "done"), (10, "done")]),
        ("replace", [(9, "replaced"), (10, "done")]),
    ],
)
def test_a_process_alone_sees_what_its_own_run_overlaps(home, overlap, expected):
    schedule = added(home, overlap=overlap, missed="skip")
    clock = [at(9)]

    def wait() -> None:
        clock[0] = at(10)
        time.sleep(0.5)

    tick(
        home,
        lambda: LocalRunner(ON_CPU),
        Meanwhile(wait),
        now=lambda: clock[0],
        pace=Pace(beat=0.02),
    )
    assert states(home, schedule) == expected


def test_a_run_that_is_replaced_ends_its_scan_as_interrupted(fresh):
    schedule = added(fresh, overlap="replace")

    class Measured(Reporter):
        def event(self, job: object, event: object) -> None:
            if isinstance(event, BatchRecord):
                ticked(fresh, 10)
                # Several beats, so that the process that runs has heard of it.
                time.sleep(0.5)

    tick(
        fresh,
        lambda: LocalRunner(ON_CPU),
        Measured(),
        now=lambda: at(9),
        pace=Pace(beat=0.02),
        most=1,
    )
    assert states(fresh, schedule)[0] == (9, "replaced")
    progress = read_progress(fresh.progress)
    assert (progress.end, progress.error_code) == ("interrupted", None)


def test_a_due_time_within_a_run_that_ended_met_it_going(home):
    schedule = added(home, overlap="skip")
    clock = [at(9)]

    def wait() -> None:
        clock[0] = at(10.5)

    tick(home, lambda: LocalRunner(ON_CPU), Meanwhile(wait), now=lambda: clock[0])
    assert states(home, schedule) == [(9, "done"), (10, "skipped")]


def test_missed_due_times_that_all_run_do_not_overlap_each_other(home):
    schedule = added(home, overlap="skip", missed="all")
    ticked(home, 11.5, Meanwhile(lambda: ticked(home, 11.6)), beat=0.02)
    assert states(home, schedule) == [(9, "done"), (10, "done"), (11, "done")]


def test_due_times_that_wait_together_cost_a_look_no_question_each(home, monkeypatch):
    added(home, cron="* * * * *", overlap="skip", missed="all")
    asked, overlapping = [], Schedules.overlapping

    def watched(schedules, later):
        asked.append(later)
        return overlapping(schedules, later)

    monkeypatch.setattr(Schedules, "overlapping", watched)
    with Registry(home) as registry:
        schedules = registry.schedules
        look(schedules, at(10))
        waiting = schedules.open_ticks(schedules.all()[0])
        assert len(waiting) > 50
        look(schedules, at(10))
        assert not asked
        # What falls due after they were claimed, while they wait, is skipped.
        look(schedules, at(10.05))
        assert len(schedules.open_ticks(schedules.all()[0])) == len(waiting)
        assert 0 < len(asked) < 5


def test_another_scan_makes_a_due_time_wait(home):
    schedule = added(home)
    with Writer.open(home):
        (left,) = ticked(home, 9)
        assert left.ended.busy
        assert left.ended.left is not None
        assert "another scan is writing" in str(left.tick.reason)
    assert states(home, schedule) == [(9, "waiting")]
    assert ran_at(ticked(home, 9.1)) == [(9, "done")]


def test_an_interrupted_run_waits_for_the_next_look(home):
    schedule = added(home)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ticked(home, 9, Meanwhile(interrupt))
    assert states(home, schedule) == [(9, "waiting")]
    assert ran_at(ticked(home, 9.1)) == [(9, "done")]


def end_in_a_statement() -> None:
    """Let a signal arrive while DuckDB computes: it raises an error of its own."""
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    many = "range(1000000000)"
    duckdb.sql(f"SELECT count(*) FROM {many} a, {many} b WHERE a.range < 0").fetchall()


def end_in_a_callback() -> None:
    """Let a signal arrive where what is raised is dropped."""
    thing = {"any"}
    callback = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    del thing
    assert callback() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("end", [end_in_a_statement, end_in_a_callback])
def test_a_signal_that_is_swallowed_ends_a_run_all_the_same(fresh, end):
    schedule = added(fresh)
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        ticked(fresh, 9, Meanwhile(end))
    assert states(fresh, schedule) == [(9, "waiting")]
    (ran,) = ticked(fresh, 9.1)
    assert (ran.tick.state, ran.tick.measured, ran.tick.failed) == ("done", 1, 0)


def test_a_signal_while_the_end_is_recorded_makes_the_run_no_failure(fresh, monkeypatch):
    schedule = added(fresh)
    monkeypatch.setattr(notices, "drift_notice", lambda *_: end_in_a_statement())
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        ticked(fresh, 9)
    monkeypatch.undo()
    assert states(fresh, schedule) == [(9, "waiting")]
    (ran,) = ticked(fresh, 9.1)
    assert (ran.tick.state, ran.tick.measured, ran.tick.skipped) == ("done", 0, 1)


def test_a_survey_that_cannot_be_planned_fails_with_its_reason(home):
    with Registry(home) as registry:
        made = new_entry("h", small_survey(), Path("z"), cron="0 * * * *", timezone="UTC")
        gone = {**made.definition, "models": [{"name": "small:gone_13"}]}
        schedule = registry.schedules.add(dataclasses.replace(made, definition=gone), BEGIN)
    (ran,) = ticked(home, 9)
    assert (ran.tick.state, ran.ended.outcome) == ("failed", None)
    assert "gone_13" in str(ran.tick.reason)
    assert states(home, schedule) == [(9, "failed")]


def test_a_fault_of_the_program_settles_its_due_time(home):
    schedule = added(home)

    def fault() -> None:
        raise ZeroDivisionError("by zero")

    with pytest.raises(ZeroDivisionError):
        ticked(home, 9, Meanwhile(fault))
    assert states(home, schedule) == [(9, "failed")]


def taken_by(
    home: Home, holder: ProcessIdentity, lease_hours: float, **changes: str
) -> tuple[Schedule, Tick]:
    """Let a process take the run of nine."""
    schedule = added(home, **changes)
    with Registry(home) as registry:
        look(registry.schedules, at(9))
        (waiting,) = registry.schedules.open_ticks(schedule)
        taken = registry.schedules.take(waiting, holder, at(9), at(lease_hours))
        assert taken is not None
        assert registry.schedules.take(waiting, holder, at(9), at(lease_hours)) is None
    return schedule, taken


def test_another_hosts_lease_has_to_run_out(home):
    far = ProcessIdentity("far", os.getpid(), "another kernel/1")
    schedule, lost = taken_by(home, far, 9.2)
    assert ticked(home, 9.1) == []
    (ran,) = ticked(home, 9.3)
    assert (ran.tick.id, ran.tick.state, ran.tick.losses) == (lost.id, "done", 0)
    with Registry(home) as registry:
        late = registry.schedules
        # The one that was taken for dead comes back: it is told to stop and can settle nothing.
        assert late.cancel_requested(lost)
        assert not late.renew(lost, at(11))
        assert not late.settle(lost, Settlement("failed"), at(9.4))
        assert not late.release(lost, "late", begun=True)
    assert states(home, schedule) == [(9, "done")]


def test_who_lost_a_due_time_can_no_longer_touch_it(home):
    _, lost = taken_by(home, ProcessIdentity("far", 1, "another kernel/1"), 9.2)
    with Registry(home) as registry:
        schedules = registry.schedules
        assert not schedules.cancel_requested(lost)
        assert schedules.renew(lost, at(9.3))
        held = schedules.take(lost, ProcessIdentity("near", 2, "a kernel/2"), at(9.4), at(10))
        assert held is not None
        assert schedules.cancel_requested(lost)
        assert not schedules.renew(lost, at(11))
        assert not schedules.settle(lost, Settlement("failed"), at(9.5))
        assert not schedules.release(lost, "late", begun=True)
        assert schedules.latest(held) == held


def test_what_was_claimed_meanwhile_is_not_claimed_again(home):
    stale = added(home)
    with Registry(home) as registry:
        schedules = registry.schedules
        look(schedules, at(11.5))
        before = (schedules.named(stale.name), schedules.ticks(stale))
        assert not schedules.claim(stale, [Due(at(9))], at(9.5), settled_at=at(9))
        assert (schedules.named(stale.name), schedules.ticks(stale)) == before
        schedules.pause(stale, at(11.6))
        assert not schedules.claim(schedules.named(stale.name), [Due(at(12))], at(12), at(12))


def test_a_process_of_this_host_is_alive_while_it_lives_and_no_longer(home):
    me = this_process()
    _, mine = taken_by(home, me, 9.1)
    assert not is_gone(mine, at(20))
    assert is_gone(dataclasses.replace(mine, process=f"{me.process}1"), at(9))
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    kernel = me.process.partition("/")[0]
    born = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    theirs = dataclasses.replace(mine, pid=child.pid, process=f"{kernel}/{born}")
    assert not is_gone(theirs, at(20))
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(theirs, at(9)), "a zombie process has ended"
    child.communicate()
    assert is_gone(theirs, at(9))


def test_a_due_time_that_kills_every_process_is_given_up(home):
    schedule, lost = taken_by(home, ProcessIdentity("far", 1, "another kernel/1"), 9.1)
    with Registry(home) as registry:
        registry.schedules.set_losses(lost, MOST_LOSSES)
    assert ticked(home, 9.5) == []
    assert states(home, schedule) == [(9, "failed")]
    assert ran_at(ticked(home, 10)) == [(10, "done")]


def test_a_replaced_run_whose_process_died_is_not_taken_up(home):
    far = ProcessIdentity("far", 1, "another kernel/1")
    schedule, lost = taken_by(home, far, 9.1, overlap="replace")
    with Registry(home) as registry:
        assert registry.schedules.request_cancel(lost, at(9.05))
    assert ran_at(ticked(home, 10)) == [(10, "done")]
    assert states(home, schedule)[0] == (9, "replaced")


def daemon(home: Home, hours: float, step: float, count: int, kill: int) -> subprocess.Popen[str]:
    arguments = [str(home.path), at(hours).isoformat(), str(step), str(count), str(kill)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.jobs.schedules.daemon", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow(seconds=15)
def test_a_run_killed_in_the_middle_is_one_run(fresh):
    home = fresh
    schedule = added(home)
    killed = daemon(home, 9, 0, 1, kill=4)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    (row,) = query(home, "SELECT count(*) AS batches FROM batches").to_pylist()
    assert 2 <= row["batches"] < 6
    (ran,) = ticked(home, 9.1)
    assert (ran.tick.state, ran.tick.losses, ran.tick.claim) == ("done", 0, 2)
    assert states(home, schedule) == [(9, "done")]
    assert runs(home) == [{"status": "done", "attempt": 2, "batches": 6}]


@pytest.mark.slow(seconds=30)
@pytest.mark.long
def test_processes_that_look_at_once_run_each_due_time_once(home):
    """Three processes on one home, two schedules, twelve due times each."""
    both = [added(home, name, overlap="queue", missed="all") for name in ("a", "b")]
    ticked(home, 9)
    daemons = [daemon(home, 9, 3600, 13, kill=0) for _ in range(3)]
    lines = [line for one in daemons for line in one.communicate()[0].splitlines()]
    assert [one.returncode for one in daemons] == [0, 0, 0]
    lines += [
        f"{one.schedule.name} {one.tick.due_at.isoformat()} {one.tick.state}"
        for one in ticked(home, 21)
    ]
    expected = [f"{name} {at(hour).isoformat()} done" for name in "ab" for hour in range(10, 22)]
    assert Counter(lines) == Counter(expected)
    for schedule in both:
        assert states(home, schedule) == [(hour, "done") for hour in range(9, 22)]
