"""The driver: submitted surveys and due times, one after another, beside others that write."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catalog import zoo
from catalog.downloads import FileStore
from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.claims import ProcessIdentity, Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import EventRow
from catalog.store.reader import query, run_states
from catalog.store.writer import Writer
from jobs import run
from jobs.operations.control import find_job
from jobs.planning.allowed_files import require_allowed
from jobs.planning.definition import Definition, parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.plan import make_plan
from jobs.run import record_plan, run_survey
from jobs.runners.local import LocalRunner
from jobs.scan.interruption import termination_interrupts
from jobs.scan.reporter import Reporter
from jobs.schedules.claimed_run import MOST_LOSSES, Pace, take, utc_now
from jobs.schedules.cron import ORIGIN, definition_of, new_entry
from jobs.schedules.tick import next_due, tick
from jobs.service import driver
from jobs.service.driver import DriverSettings, _Driver
from jobs.service.driver_state import DriverFile, driver_state, only_driver
from jobs.service.submissions import cancel, next_submission, retry, retry_job, submit
from survey.errors import ClusterError, SettingsError, StoreError, SurveyError, UntrustedCode
from tests.jobs.jobs import ON_CPU

pytestmark = pytest.mark.slow(seconds=8)

WEIGHTS = Path(zoo.__file__).parent / "weights" / "digits_vgg7.safetensors"

GONE = ProcessIdentity("elsewhere", 1, "")


def small_survey(**changes: object) -> Definition:
    values = {
        "models": [{"name": "small:digits_vgg7"}],
        "datasets": [{"name": "digits:heldout"}],
        "settings": {"images_per_score": 128},
        **changes,
    }
    return parse_definition(values, "zoo", Path("/"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that holds what the survey asks for, so that running it again is quick."""
    path = open_home(tmp_path_factory.mktemp("measured") / "home", create=True).path
    run_survey(Home(path), small_survey(), LocalRunner(ON_CPU), Reporter())
    return path


@pytest.fixture
def home(measured: Path, tmp_path: Path) -> Home:
    shutil.copytree(measured, tmp_path / "home")
    return Home(tmp_path / "home")


@pytest.fixture
def looked(home: Home) -> Callable[[], tuple[float, list[str]]]:
    """Return a function that lets a driver look once, and returns its wait and its lines."""

    def look() -> tuple[float, list[str]]:
        lines: list[str] = []
        settings = DriverSettings(home, lambda: LocalRunner(ON_CPU), lines.append)
        with Registry(home) as registry:
            return _Driver(settings, registry, Reporter()).look(), lines

    return look


def events(home: Home) -> list[EventRow]:
    with Registry(home) as registry:
        return registry.events.latest(50)


def due_now(home: Home, definition: Definition, origin: str = "z", name: str = "often") -> None:
    now = datetime.now(UTC)
    # Once a day: not again in the next minute.
    cron = f"{now.minute} {now.hour} * * *"
    entry = new_entry(name, definition, Path("z"), cron=cron, timezone="UTC")
    entry = dataclasses.replace(entry, origin=origin)
    with Registry(home) as registry:
        registry.schedules.add(entry, now - timedelta(minutes=5))


def test_a_submitted_survey_is_run_once_and_noticed_once(home, looked):
    with Registry(home) as registry:
        first = submit(registry, small_survey())
        assert submit(registry, small_survey()) == first
        assert looked()[0] == 0.0
        ended = registry.submissions.named(first.id)
        assert (ended.state, ended.measured, ended.skipped) == ("done", 0, 1)
        assert looked()[0] == driver.LOOK_SECONDS
        assert driver_state(home).state == "absent"
        (event,) = events(home)
        assert (event.kind, event.detail["skipped"]) == ("finished", 1)
        retry(registry, ended)
        looked()
        assert len({each.id for each in events(home)}) == 2


def test_a_state_that_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    file = DriverFile(home)
    assert file.write("running", "survey 1", "")
    assert file.write("idle", "", "")
    home.path.mkdir()
    assert not file.write("idle", "", "")
    with only_driver(home, print):
        assert driver_state(home).state == "idle"


def test_a_job_retried_while_its_survey_runs_is_run_after_it(home, looked):
    definition, now = small_survey(settings={"images_per_score": 64}), datetime.now(UTC)
    with Registry(home) as registry:
        first = submit(registry, definition)
        holdings = Holdings(home, FileStore(home.files, offline=True), registry.hashes)
        record_plan(registry, definition, make_plan(definition, {}, holdings))
        (job,) = registry.jobs(first.survey_id)
        registry.set_states([job.key], "failed", ("todo",))
        running = take(registry.submissions, first, now, Pace())
        # Its plan holds what was not held back when it began.
        again = retry_job(home, registry, find_job(home, job.run_id))
        assert (again.state, again.id) == ("queued", first.id + 1)
        registry.submissions.settle(running, Settlement("done"), now)
        looked()
        assert registry.submissions.named(again.id).measured == 1


def test_due_times_and_submissions_take_turns(home, looked):
    due_now(home, small_survey())
    with Registry(home) as registry:
        for number in range(2):
            submit(registry, small_survey(tags={"n": number}))
        titles = [
            line.partition(" (")[0].partition(":")[0] for _ in range(3) for line in looked()[1]
        ]
    assert titles == ["schedule often", "survey 1", "survey 2"]


@pytest.mark.parametrize("kind", ["submitted", "due"])
def test_what_cannot_be_run_now_keeps_no_other_waiting(home, monkeypatch, kind):
    real, tried = run.run_survey, []

    def run_if_reached(home: Home, definition: Definition, *args: object, **options: object):
        tried.append(definition.settings.images_per_score)
        if tried[-1] == 64:
            raise ClusterError("no Ray answers")
        return real(home, definition, *args, **options)

    monkeypatch.setattr(run, "run_survey", run_if_reached)
    unreached = small_survey(settings={"images_per_score": 64})
    settings = DriverSettings(home, lambda: LocalRunner(ON_CPU), lambda _: None)
    with Registry(home) as registry:
        if kind == "submitted":
            submit(registry, unreached)
            submit(registry, small_survey())
        else:
            due_now(home, unreached, name="first")
            due_now(home, small_survey(), name="second")
        looking = _Driver(settings, registry, Reporter())
        waits = [looking.look() for _ in range(4)]
    # What was left has its turn again after the other one, and then alone.
    assert tried == [64, 128, 64, 64]
    assert waits == [driver.UNREACHED_SECONDS, 0.0, *[driver.UNREACHED_SECONDS] * 2]


def test_a_survey_that_no_machine_can_hold_fails_and_is_noticed(home):
    def small_machine() -> LocalRunner:
        runner = LocalRunner(ON_CPU)
        runner.machines = [dataclasses.replace(each, memory=2**20) for each in runner.machines]
        return runner

    with Registry(home) as registry:
        submission = submit(registry, small_survey(settings={"images_per_score": 64}))
        _Driver(DriverSettings(home, small_machine, print), registry, Reporter()).look()
        ended = registry.submissions.named(submission.id)
    assert (ended.state, "memory" in ended.reason) == ("failed", True)
    assert [event.kind for event in events(home)] == ["failed"]


@pytest.mark.parametrize(
    ("origin", "allowed", "leave", "state"),
    [
        (ORIGIN, "elsewhere", False, "failed"),
        (ORIGIN, "elsewhere", True, "waiting"),
        (ORIGIN, "", True, "done"),
        ("zoo.toml", "elsewhere", True, "done"),
    ],
)
def test_a_schedule_from_elsewhere_names_what_is_allowed_now(
    home, tmp_path, origin, allowed, leave, state
):
    weights = tmp_path / "weights.safetensors"
    shutil.copy(WEIGHTS, weights)
    choice = {"name": "small:digits_vgg7", "checkpoints": [f"file:{weights}"]}
    due_now(home, small_survey(models=[choice]), origin)
    folders = [tmp_path.resolve() / allowed]
    tick(home, lambda: LocalRunner(ON_CPU), Reporter(), allowed=folders, leave_refused=leave)
    with Registry(home) as registry:
        ticks = registry.schedules.ticks(registry.schedules.all()[0], 5)
    # Those that fell due meanwhile were skipped.
    assert {tick.state for tick in ticks} - {"skipped"} == {state}


def test_what_moved_or_was_stale_is_noticed_with_the_run(home, looked):
    moved = "UPDATE batch_scores SET affinity = affinity / 2"
    stale = "UPDATE runs SET finished_at = finished_at - INTERVAL 1 DAY, dataset_fingerprint = 'x'"
    import duckdb

    with duckdb.connect(str(home.signatures)) as connection:
        for statement in (moved, stale):
            connection.execute(statement)
        # As if its key were another one.
        for table in ("runs", "batches", "batch_scores", "network_scores"):
            connection.execute(f"UPDATE {table} SET run_id = 'before'")
    due_now(home, small_survey())
    looked()
    kinds = {event.kind: event for event in events(home)}
    assert set(kinds) == {"finished", "drift", "stale"}
    assert kinds["drift"].detail["rows"][0]["verdict"] == "moved"
    assert "1 stale" in kinds["stale"].title
    assert len({event.cause for event in kinds.values()}) == 1


def test_a_home_that_another_scan_writes_to_is_waited_for_and_nothing_is_taken(home, looked):
    due_now(home, small_survey())
    with Registry(home) as registry:
        submission = submit(registry, small_survey())
        with Writer.open(home):
            for _ in range(2):
                wait, lines = looked()
                assert wait == driver.BUSY_SECONDS
                assert "another scan is writing" in lines[0]
        assert registry.submissions.named(submission.id) == submission
        while looked()[0] == 0.0:
            pass
        assert registry.submissions.named(submission.id).state == "done"


def test_one_driver_a_home_and_the_next_takes_over(home):
    lines, entered = list[str](), threading.Event()

    def second() -> None:
        with only_driver(home, lines.append):
            entered.set()

    with only_driver(home, lines.append):
        thread = threading.Thread(target=second)
        thread.start()
        while not lines:
            time.sleep(0.01)
        assert "another service" in lines[0]
        assert not entered.is_set()
    thread.join()
    assert entered.is_set()


def test_no_driver_makes_a_home_that_has_gone(tmp_path: Path) -> None:
    home = Home(tmp_path / "gone")
    with pytest.raises(StoreError):
        driver.drive(DriverSettings(home, lambda: LocalRunner(ON_CPU), lambda _: None))
    assert not home.path.exists()


def test_an_idle_driver_ends_although_what_a_signal_raised_was_dropped(home, monkeypatch):
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.0)
    looks = list[str]()

    def drops() -> None:
        looks.append(driver_state(home).state)
        assert len(looks) < 3, "the driver went on"
        if len(looks) == 2:
            # As in a callback: what it raises goes no further.
            with suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)

    settings = DriverSettings(home, lambda: LocalRunner(ON_CPU), lambda _: None, prepare=drops)
    with pytest.raises(KeyboardInterrupt), termination_interrupts():
        driver.drive(settings)
    assert looks == ["absent", "idle"]


def test_a_submission_whose_process_is_gone_goes_on_and_is_given_up_in_the_end(home, looked):
    with Registry(home) as registry:
        submissions = registry.submissions
        submission = submit(registry, small_survey())
        now = utc_now()
        taken = submissions.take(submission, GONE, now, now + timedelta(hours=1))
        assert taken
        assert next_submission(submissions, now) is None
        later = now + timedelta(hours=2)
        assert next_submission(submissions, later) == taken
        assert submissions.take(submission, GONE, now, now) is None
        taken = submissions.take(taken, GONE, now, now)
        assert taken
        submissions.set_losses(taken, MOST_LOSSES - 1)
        assert next_submission(submissions, later)
        submissions.set_losses(taken, MOST_LOSSES)
        assert next_submission(submissions, later) is None
        assert submissions.named(submission.id).state == "failed"
        (event,) = events(home)
        assert (event.kind, "processes died" in event.title) == ("failed", True)
        retry(registry, submissions.named(submission.id))
        looked()
        assert submissions.named(submission.id).state == "done"
        assert not submissions.settle(taken, Settlement("failed"), now)


@pytest.mark.parametrize("gone", [False, True])
def test_a_submission_waits_for_a_service_that_allows_its_files(home, tmp_path, gone):
    weights = tmp_path / "weights.safetensors"
    shutil.copy(WEIGHTS, weights)
    choice = {"name": "small:digits_vgg7", "checkpoints": [f"file:{weights}"]}
    lines: list[str] = []
    settings = DriverSettings(home, lambda: LocalRunner(ON_CPU), lines.append)
    with Registry(home) as registry:
        submission = submit(registry, small_survey(models=[choice]))
        if gone:
            now = utc_now()
            registry.submissions.take(submission, GONE, now, now - timedelta(hours=1))
        other = submit(registry, small_survey())
        without = _Driver(settings, registry, Reporter())
        assert [without.look() for _ in range(3)] == [0.0, driver.LOOK_SECONDS, driver.LOOK_SECONDS]
        assert registry.submissions.named(other.id).state == "done"
        left = registry.submissions.named(submission.id)
        assert left.state == "queued"
        assert left.reason == f"file:{weights} lies below no folder that is allowed"
        assert len([line for line in lines if "waits for a service" in line]) == 1
        allows = dataclasses.replace(settings, allowed=(tmp_path.resolve(),))
        assert _Driver(allows, registry, Reporter()).look() == 0.0
        assert registry.submissions.named(submission.id).state == "done"
        assert not registry.submissions.leave(left, "it ran")


def test_cancelling_holds_the_jobs_that_are_not_over(home, looked):
    with Registry(home) as registry:
        # Of one that was measured, and one that was not.
        both = small_survey(models=[{"name": "small:digits_vgg7"}, {"name": "small:digits_vgg9"}])
        submission = submit(registry, both)
        cancel(home, registry, submission)
        assert registry.submissions.named(submission.id).state == "cancelled"
        with pytest.raises(SettingsError):
            cancel(home, registry, submission)
        running = submit(registry, both)
        now = utc_now()
        taken = registry.submissions.take(running, GONE, now, now)
        cancel(home, registry, taken)
        assert looked()[0] == driver.LOOK_SECONDS
        assert registry.submissions.named(running.id).state == "cancelled"
        # Of two jobs one was measured before, and one is cancelled.
        record_plan(registry, both, plan := make_plan(both, run_states(home), Holdings(home)))
        registry.set_states([job.key for job in plan.todo], "cancelled", ("todo",))
        again = submit(registry, both)
        looked()
        ended = registry.submissions.named(again.id)
    assert (ended.state, ended.measured, ended.skipped) == ("done", 0, 1)
    assert ended.reason == "1 job is cancelled"
    assert events(home)[0].title.endswith(
        "done; 0 measured, 0 failed, 1 skipped; 1 job is cancelled"
    )


def test_cancelling_leaves_the_jobs_of_another_open_survey(home):
    both = small_survey(models=[{"name": "small:digits_vgg9"}, {"name": "small:digits_plain14"}])
    one = small_survey(models=[{"name": "small:digits_vgg9"}])
    with Registry(home) as registry:
        first, second = (submit(registry, each) for each in (both, one))
        for each in (both, one):
            record_plan(registry, each, make_plan(each, {}, Holdings(home)))
        cancel(home, registry, first)
        states = {job.architecture: job.state for job in registry.jobs(first.survey_id)}
        assert states == {"digits_vgg9": "todo", "digits_plain14": "cancelled"}
        cancel(home, registry, second)
        assert [job.state for job in registry.jobs(second.survey_id)] == ["cancelled"]


def test_cancelling_leaves_the_jobs_of_a_due_time_that_runs(home):
    one = small_survey(models=[{"name": "small:digits_vgg9"}])
    due_now(home, one)
    with Registry(home) as registry:
        schedule, due = next_due(registry.schedules, now := utc_now(), 3600.0)
        running = take(registry.schedules, due, now, driver.Pace())
        planned = definition_of(schedule)
        record_plan(registry, planned, make_plan(planned, {}, Holdings(home)))
        cancel(home, registry, queued := submit(registry, one))
        assert [job.state for job in registry.jobs(queued.survey_id)] == ["todo"]
        # One that is asked to stop keeps none.
        assert registry.schedules.request_cancel(running, now)
        cancel(home, registry, queued := submit(registry, one))
        assert [job.state for job in registry.jobs(queued.survey_id)] == ["cancelled"]


def test_a_survey_that_is_being_cancelled_keeps_no_job(home):
    one = small_survey(models=[{"name": "small:digits_vgg9"}])
    both = small_survey(models=[{"name": "small:digits_vgg9"}, {"name": "small:digits_plain14"}])
    with Registry(home) as registry:
        running, queued = (submit(registry, each) for each in (one, both))
        for each in (one, both):
            record_plan(registry, each, make_plan(each, {}, Holdings(home)))
        assert take(registry.submissions, running, datetime.now(UTC), driver.Pace())
        for each in (running, queued):
            cancel(home, registry, each)
        assert [each.id for each in registry.submissions.open()] == [running.id]
        assert {job.state for job in registry.jobs(queued.survey_id)} == {"cancelled"}


def test_a_running_scan_that_is_cancelled_stops_and_keeps_its_batches(home, monkeypatch):
    class Cancels(Reporter):
        def event(self, *_: object) -> None:
            with Registry(home) as registry:
                (open_one,) = registry.submissions.open()
                if open_one.cancel_at is None:
                    cancel(home, registry, open_one)

    monkeypatch.setattr("jobs.service.submissions._PACE", driver.Pace(beat=0.01))
    more = small_survey(models=[{"name": "small:digits_vgg9"}, {"name": "small:digits_plain14"}])
    with Registry(home) as registry:
        submission = submit(registry, more)
        settings = DriverSettings(home, lambda: LocalRunner(ON_CPU), lambda _: None)
        _Driver(settings, registry, Cancels()).look()
        assert registry.submissions.named(submission.id).state == "cancelled"
        states = {job.state for job in registry.jobs(submission.survey_id)}
        assert "cancelled" in states
        assert states <= {"cancelled", "done"}
        retry(registry, registry.submissions.named(submission.id))
        _Driver(settings, registry, Reporter()).look()
        assert registry.submissions.named(submission.id).state == "done"
    done = query(home, "SELECT count(*) AS n FROM runs WHERE status = 'done'")["n"][0].as_py()
    assert done == 3


@pytest.mark.parametrize("error", [None, StoreError("the store is away")])
def test_a_survey_that_is_cancelled_before_its_plan_is_cancelled(home, looked, monkeypatch, error):
    real, both = run.run_survey, [{"name": "small:digits_vgg7"}, {"name": "small:digits_vgg9"}]
    definition = small_survey(models=both)
    with Registry(home) as registry:
        submission = submit(registry, definition)
        record_plan(registry, definition, make_plan(definition, run_states(home), Holdings(home)))

        def cancelled_first(*arguments: object, **options: object):
            cancel(home, registry, registry.submissions.named(submission.id))
            if error:
                raise error
            return real(*arguments, **options)

        monkeypatch.setattr(run, "run_survey", cancelled_first)
        assert looked()[0] == 0.0
        assert registry.submissions.named(submission.id).state == "cancelled"
        assert events(home) == []


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        ({"models": [{"name": "python:nets:net"}]}, UntrustedCode),
        ({"models": [{"name": "memory:Net-1234"}]}, UntrustedCode),
        ({"datasets": [{"name": "folder:/etc"}]}, SettingsError),
        ({"datasets": [{"name": "folder:{allowed}/../secret"}]}, SettingsError),
        ({"datasets": [{"name": "folder:{allowed}/link[:10]"}]}, SettingsError),
        ({"datasets": [{"name": "parquet:/etc/passwd"}]}, SettingsError),
        ({"datasets": [{"name": "imagenet:/data"}]}, SettingsError),
        ({"datasets": [{"name": "folder:relative"}]}, SettingsError),
        ({"datasets": [{"name": "folder:~"}]}, SettingsError),
        ({"checkpoints": "file:/etc/passwd"}, SettingsError),
        ({"checkpoints": "file:/etc/*"}, SettingsError),
        ({"checkpoints": "file:{allowed}/link.pth"}, SettingsError),
        ({"checkpoints": "file:{allowed}/l*.pth"}, SettingsError),
        ({"checkpoints": "file:{allowed}/*/../../secret/*.pth"}, SettingsError),
        ({"checkpoints": "file:{allowed}/link/weights.pth"}, SettingsError),
        ({"checkpoints": "file:{allowed}/link.pth#ema"}, SettingsError),
        ({"checkpoints": "file:{allowed}/..#/../../secret/weights.pth"}, SettingsError),
        ({"checkpoints": "file:{allowed}/..#ema"}, SettingsError),
        ({"checkpoints": "file:/etc/passwd#ema"}, SettingsError),
        ({"checkpoints": "file:{allowed}/l*.pth#ema"}, SettingsError),
        ({"checkpoints": "file:{allowed}/own.pth#ema"}, None),
        ({"checkpoints": "file:{allowed}/o*.pth#ema"}, None),
        ({"checkpoints": "file:{allowed}/own.pth"}, None),
        ({"checkpoints": "file:{allowed}/o*.pth"}, None),
        ({"checkpoints": "init:3"}, None),
        ({"datasets": [{"name": "folder:{allowed}/pictures[:10]"}]}, None),
        ({"datasets": [{"name": "random:100"}]}, None),
    ],
)
def test_surveys_from_elsewhere_name_no_code_and_only_allowed_files(tmp_path, declared, error):
    allowed, secret = tmp_path / "allowed", tmp_path / "secret"
    for folder in (allowed, secret):
        folder.mkdir()
    (secret / "weights.pth").touch()
    (allowed / "own.pth").touch()
    (allowed / "link.pth").symlink_to(secret / "weights.pth")
    (allowed / "link").symlink_to(secret)
    text = repr(declared).replace("{allowed}", str(allowed))
    values = eval(text)
    if "checkpoints" in values:
        values = {"models": [{"name": "small:digits_vgg7", **values}]}
    definition = small_survey(**values)
    if error is None:
        assert require_allowed(definition, [allowed]) is definition
        return
    with pytest.raises(error) as caught:
        require_allowed(definition, [allowed])
    assert isinstance(caught.value, SurveyError)
    assert str(secret) not in caught.value.message
