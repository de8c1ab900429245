"""A survey in prose: what a scan makes of lost workers, failures and lost registries."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console
from rich.text import Text

from analysis.answers.drift import SignatureDrift
from analysis.answers.material import Material
from catalog.files import file_sha256
from catalog.models import find
from catalog.models.cifar import CifarSource
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobRow
from catalog.store.reader import query
from catalog.store.records import BatchRecord
from jobs.operations.control import move_jobs
from jobs.planning.definition import Definition, parse_definition
from jobs.planning.worker_layout import Devices
from jobs.run import run_survey
from jobs.runners.base import TaskSource
from jobs.runners.events import Event, Failed, Finished, Lost
from jobs.runners.local import LocalRunner
from jobs.runners.options import Limits
from jobs.runners.worker import run_task
from jobs.runners.worker_host import host_of
from jobs.scan.progress_display import progress_reporter
from jobs.scan.reporter import Reporter
from survey import StoreError
from tests.jobs.jobs import ON_CPU, declared

pytestmark = pytest.mark.slow(seconds=20)

#: Images a score, and those of seven scores and a partial batch of five: few, none is looked at.
SIZE, IMAGES = 16, 7 * 16 + 5


class Faulty(LocalRunner):
    """Runs jobs in this process, and loses the worker after so many events, so many times."""

    def __init__(self, losses: int, events: int = 3) -> None:
        super().__init__(ON_CPU)
        self.losses, self.events = losses, events

    def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        host = host_of(torch.device("cpu"), 2)
        while tasks := source.next_tasks(host):
            for task in tasks:
                for number, event in enumerate(run_task(task, "cpu", 2)):
                    if self.losses and number == self.events:
                        self.losses -= 1
                        yield (Lost(task.run_id, task.attempt, "the worker died"),)
                        break
                    yield (event,)


def asked(home: Path, sql: str) -> list[dict]:
    return query(open_home(home, create=False), sql).to_pylist()


def scan(home: Path, runner: LocalRunner, reporter=None, checkpoints=(), **changes):
    survey = declared(*checkpoints, **{"dataset": f"digits[:{IMAGES}]", "size": SIZE} | changes)
    return run_survey(open_home(home, create=True), survey, runner, reporter or Reporter())


def scan_end(home: Path) -> str:
    """Return how the last scan ended, as its progress file has it."""
    return json.loads((home / "scan.json").read_text())["end"]


@contextlib.contextmanager
def displayed(**console) -> Iterator[tuple[Reporter, io.StringIO]]:
    """Yield a display of a scan's progress, and the text it prints."""
    text = io.StringIO()
    with progress_reporter(Console(file=text, width=200, **console)) as reporter:
        yield reporter, text


@pytest.mark.parametrize("losses", [1, Limits().losses])
def test_a_lost_job_goes_on_with_another_worker(tmp_path, losses):
    with displayed() as (reporter, text):
        outcome = scan(tmp_path / "home", Faulty(losses), reporter)
    assert (len(outcome.done), outcome.failed) == (1, ())
    assert text.getvalue().count("retry") == losses
    assert "[1/1]" in text.getvalue()
    (run,) = asked(tmp_path / "home", "SELECT status, batches, images, attempt FROM runs")
    assert run == {"status": "done", "batches": 8, "images": IMAGES, "attempt": losses + 1}
    assert asked(tmp_path / "home", "SELECT count(*) AS n FROM batch_scores") == [{"n": 7 * 7}]


def test_each_scan_of_a_display_counts_its_own_jobs(tmp_path):
    with displayed() as (reporter, text):
        for home in ("one", "other"):
            scan(tmp_path / home, LocalRunner(ON_CPU), reporter)
    assert text.getvalue().count("[1/1]") == 2


def test_a_job_resumed_after_its_last_batch_still_knows_its_sites(tmp_path):
    class Stopped(LocalRunner):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            yield from itertools.islice(LocalRunner.run(self, source), 9)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(tmp_path / "home", Stopped(ON_CPU))
    with displayed() as (reporter, text):
        scan(tmp_path / "home", LocalRunner(ON_CPU), reporter)
    assert "1 to go on: 8 batches kept" in text.getvalue()
    (log,) = (tmp_path / "home" / "logs").iterdir()
    assert "attempt 1: interrupted" in log.read_text()
    (run,) = asked(tmp_path / "home", "SELECT sites, status, images, measured_top1 FROM runs")
    assert run.pop("measured_top1") is not None
    assert run == {"sites": 7, "status": "done", "images": IMAGES}


def test_a_job_that_keeps_losing_its_workers_is_parked_until_somebody_retries(tmp_path):
    home = tmp_path / "home"
    with displayed() as (reporter, text):
        outcome = scan(home, Faulty(Limits().losses, events=1), reporter)
    ((_, failure),) = outcome.failed
    assert failure.stage == "worker"
    assert "parked" in failure.message
    assert text.getvalue().count("retry ") == Limits().losses - 1
    assert "failed" in text.getvalue().splitlines()[-1]
    assert "[1/1]" in text.getvalue()
    (run,) = asked(home, "SELECT status, stage, measured_top1 FROM runs")
    assert run == {"status": "failed", "stage": "worker", "measured_top1": None}
    assert asked(home, "SELECT * FROM signatures") == []
    with Registry(open_home(home, create=False)) as registry:
        (job,) = registry.jobs()
        assert job.state == "parked"
        history = [(each.outcome, each.error) for each in registry.attempts.of(job.key)]
    assert [outcome for outcome, _ in history] == ["lost"] * (Limits().losses - 1) + ["failed"]
    assert "parked" in (home / "logs" / f"{job.run_id}.log").read_text()
    with displayed() as (reporter, text):
        again = scan(home, LocalRunner(ON_CPU), reporter)
    assert (again.done, [each.key for each in again.parked]) == ((), [job.key])
    assert not again.complete
    assert scan_end(home) == "failed"
    assert "1 parked" in text.getvalue()
    assert [each.key for each in move_jobs(open_home(home, create=False), "todo")] == [job.key]
    assert len(scan(home, LocalRunner(ON_CPU)).done) == 1


def only_job(home: Path) -> JobRow:
    with Registry(open_home(home, create=False)) as registry:
        (job,) = registry.jobs()
    return job


def test_workers_lost_before_an_interruption_count_and_those_that_got_on_do_not(tmp_path):
    class Interrupted(Faulty):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            for events in super().run(source):
                yield events
                if not self.losses:
                    raise KeyboardInterrupt

    home = tmp_path / "home"
    with pytest.raises(KeyboardInterrupt):
        scan(home, Interrupted(1, events=3))
    job = only_job(home)
    assert job.losses == 0
    with pytest.raises(KeyboardInterrupt):
        scan(home, Interrupted(Limits().losses - 1, events=1))
    job = only_job(home)
    assert job.losses == Limits().losses - 1
    assert len(scan(home, Faulty(1, events=1)).failed) == 1
    job = only_job(home)
    assert job.state == "parked"


def test_a_batch_after_lost_workers_begins_their_count_anew_whatever_ends_the_scan(tmp_path):
    class Interrupted(Faulty):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            for events in super().run(source):
                yield events
                if isinstance(events[0], BatchRecord):
                    raise KeyboardInterrupt

    home = tmp_path / "home"
    with pytest.raises(KeyboardInterrupt):
        scan(home, Interrupted(Limits().losses - 1, events=1))
    assert only_job(home).losses == 0
    # The next scan may lose as many as the first.
    assert len(scan(home, Faulty(Limits().losses - 1, events=1)).done) == 1


def test_workers_lost_after_the_last_batch_do_not_count_once_a_job_is_done(tmp_path):
    class Late(Faulty):
        """Loses workers when nothing but the end of their task is left, the last one too."""

        events = property(lambda self: 9 if self.losses == Limits().losses else 1, lambda *_: None)

    home = tmp_path / "home"
    assert len(scan(home, Late(Limits().losses)).done) == 1
    assert only_job(home).losses == 0


def test_late_events_of_an_attempt_given_up_are_ignored(tmp_path):
    class Zombie(Faulty):
        """The worker that was lost goes on talking while another one does its job."""

        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            sent: list[Event] = []
            for events in super().run(source):
                yield events
                sent += events
                if len(sent) > 8:
                    yield tuple(event for event in sent if event.attempt == 1)

    scan(tmp_path / "home", Zombie(1))
    assert asked(tmp_path / "home", "SELECT DISTINCT attempt FROM batches ORDER BY 1") == [
        {"attempt": 1},
        {"attempt": 2},
    ]
    (run,) = asked(tmp_path / "home", "SELECT status, batches, images, attempt FROM runs")
    assert run == {"status": "done", "batches": 8, "images": IMAGES, "attempt": 2}
    scan(tmp_path / "plain", LocalRunner(ON_CPU))
    counted = "SELECT measured_top1, measured_top5, seconds > 0 AS timed FROM runs"
    assert asked(tmp_path / "home", counted) == asked(tmp_path / "plain", counted)


def test_a_cancelled_job_ends_and_keeps_its_batches(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setattr("jobs.scan.dispatch.CANCEL_SECONDS", 0.0)

    class Cancelling(LocalRunner):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            for number, events in enumerate(LocalRunner.run(self, source)):
                yield events
                if number == 2:
                    move_jobs(open_home(home, create=False), "cancelled")

    outcome = scan(home, Cancelling(ON_CPU))
    assert (outcome.done, outcome.failed, len(outcome.cancelled)) == ((), (), 1)
    progress = json.loads((home / "scan.json").read_text())
    assert (progress["fraction"], progress["working"], progress["images"]) == (1.0, [], 2 * SIZE)
    job = only_job(home)
    assert job.state == "cancelled"
    status = "SELECT status FROM runs UNION ALL SELECT status FROM models"
    assert asked(home, status) == [{"status": "cancelled"}] * 2
    again = scan(home, LocalRunner(ON_CPU))
    # Nobody wants it measured.
    assert (again.done, again.complete, scan_end(home)) == ((), True, "done")
    move_jobs(open_home(home, create=False), "todo", [job])
    assert len(scan(home, LocalRunner(ON_CPU)).done) == 1
    assert asked(home, "SELECT attempt, count(*) AS n FROM batches GROUP BY 1 ORDER BY 1") == [
        {"attempt": 1, "n": 2},
        {"attempt": 2, "n": 6},
    ]


def test_a_run_that_is_cancelled_between_scans_runs_no_more(tmp_path):
    home = tmp_path / "home"

    class Stopped(LocalRunner):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            yield from itertools.islice(LocalRunner.run(self, source), 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(home, Stopped(ON_CPU))
    assert asked(home, "SELECT status FROM runs") == [{"status": "running"}]
    move_jobs(open_home(home, create=False), "cancelled")
    assert scan(home, LocalRunner(ON_CPU)).done == ()
    assert asked(home, "SELECT status FROM runs") == [{"status": "cancelled"}]
    move_jobs(open_home(home, create=False), "todo")
    assert len(scan(home, LocalRunner(ON_CPU)).done) == 1
    assert asked(home, "SELECT status, batches FROM runs") == [{"status": "done", "batches": 8}]


def test_a_begun_job_that_is_cancelled_before_its_turn_runs_no_more(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setattr("jobs.scan.dispatch.CANCEL_SECONDS", 0.0)

    class Stopped(LocalRunner):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            yield from itertools.islice(LocalRunner.run(self, source), 3)
            raise KeyboardInterrupt

    class Cancelling(LocalRunner):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            move_jobs(open_home(home, create=False), "cancelled")
            yield from LocalRunner.run(self, source)

    with pytest.raises(KeyboardInterrupt):
        scan(home, Stopped(ON_CPU))
    assert len(scan(home, Cancelling(ON_CPU)).cancelled) == 1
    (run,) = asked(home, "SELECT status, finished_at IS NULL AS open FROM runs")
    assert run == {"status": "cancelled", "open": False}


def test_files_of_other_folders_with_the_same_names_replace_nothing(tmp_path):
    home, moments = tmp_path / "home", []
    for turn, person in enumerate(("alice", "bob") * 2):
        folder = tmp_path / person
        folder.mkdir(exist_ok=True)
        torch.manual_seed(turn % 2)
        torch.save(find("small:cifar_resnet8")[0].build().state_dict(), folder / "best.pth")
        choice = {"name": "small:cifar_resnet8", "checkpoints": ["file:best.pth"]}
        values = {"models": [choice], "datasets": [{"name": "digits", "limit": 64}]}
        survey = parse_definition(values | {"settings": {"images_per_score": 32}}, "t", folder)
        run_survey(open_home(home, create=True), survey, LocalRunner(ON_CPU), Reporter())
        moments.append(asked(home, "SELECT run_id, finished_at FROM runs ORDER BY ALL"))
    # Those who come again measure nothing, and the newest stays the newest.
    assert moments[1] == moments[2] == moments[3]


def test_weights_that_were_put_back_are_the_newest_of_their_name_again(tmp_path):
    home, weights = tmp_path / "home", tmp_path / "current.pth"
    choice = {"name": "small:cifar_resnet8", "checkpoints": [f"file:{weights}"]}
    values = {"models": [choice], "datasets": [{"name": "digits", "limit": 64}]}
    survey = parse_definition(values | {"settings": {"images_per_score": 32}}, "t", tmp_path)

    def measured(seed: int, survey: Definition = survey) -> str:
        torch.manual_seed(seed)
        torch.save(find("small:cifar_resnet8")[0].build().state_dict(), weights)
        opened = open_home(home, create=True)
        (job,) = run_survey(opened, survey, LocalRunner(ON_CPU), Reporter()).plan.jobs
        assert [row["run_id"] for row in asked(home, "SELECT run_id FROM models")] == [job.run_id]
        return job.run_id

    def drifted() -> list[tuple[str, str]]:
        rows = SignatureDrift(Material(home)).statistics.rows
        return list(dict.fromkeys(zip(rows["before"], rows["after"], strict=True)))

    first, second = measured(0), measured(1)
    assert drifted() == [(first, second)]
    assert measured(0) == first
    assert drifted() == [(second, first)]
    assert measured(0) == first
    # The same survey with an accuracy that is expected by now.
    expected = {"name": "small:cifar_resnet8", "expect_top1": 0.9, **choice}
    again = values | {"models": [expected], "settings": {"images_per_score": 32}}
    assert measured(1) == second
    assert measured(0, parse_definition(again, "t", tmp_path)) == first
    (row,) = asked(home, f"SELECT expected_top1, suspicion FROM runs WHERE run_id = '{first}'")
    assert row["expected_top1"] == 0.9
    assert row["suspicion"]
    counts = "SELECT attempt, count(*) AS n FROM runs GROUP BY 1"
    assert asked(home, counts) == [{"attempt": 1, "n": 2}]


def test_a_lost_registry_does_not_stop_a_run_from_being_finished(tmp_path):
    home = tmp_path / "home"
    scan(home, Faulty(Limits().losses, events=1))
    for path in home.glob("registry.sqlite*"):
        path.unlink()
    with pytest.raises(StoreError, match="does not exist"):
        Registry(open_home(home, create=False))
    scan(home, LocalRunner(ON_CPU))
    assert asked(home, "SELECT status FROM runs") == [{"status": "done"}]
    assert asked(home, "SELECT count(*) AS n FROM signatures") == [{"n": 7}]


def test_bars_follow_every_job_to_its_end(tmp_path):
    with displayed(force_terminal=True) as (reporter, text):
        scan(tmp_path / "home", Faulty(1), reporter)
    overall, worker = Text.from_ansi(text.getvalue()).plain.splitlines()[-2:]
    assert "all jobs" in overall
    assert " 1/1 " in overall
    assert " 8/8 " in worker


class Replacing(LocalRunner):
    """Puts other weights in a file's place before tasks begin, so many times."""

    def __init__(self, path: Path, times: int, weights: bytes | None = None) -> None:
        super().__init__(ON_CPU)
        self.path, self.left, self.weights = path, times, weights

    def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        class Between:
            is_withdrawn = source.is_withdrawn

            @staticmethod
            def next_tasks(host):
                tasks = source.next_tasks(host)
                if tasks and self.left:
                    self.left -= 1
                    if self.weights is None:
                        write_weights(self.path)
                    else:
                        self.path.write_bytes(self.weights)
                return tasks

        yield from super().run(Between())


def write_weights(path: Path) -> None:
    torch.save(CifarSource().get("cifar_resnet8").build().state_dict(), path)


class Warned(Reporter):
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warned(self, warning: str) -> None:
        self.warnings.append(warning)


def test_weights_that_changed_since_the_plan_are_planned_anew(tmp_path, monkeypatch):
    path, home, reporter = tmp_path / "weights.pth", tmp_path / "home", Warned()
    what = {"checkpoints": (f"file:{path}",), "dataset": "digits[:64]"}
    write_weights(path)
    # As on a file system that tells nothing of a change: not even the next run may be misled.
    monkeypatch.setattr("catalog.registry.hash_cache.stat_signature_of", lambda files: "same")
    outcome = scan(home, Replacing(path, 1), reporter, **what)
    (measured,) = outcome.done
    assert (outcome.failed, outcome.plan.jobs) == ((), (measured,))
    assert measured.checkpoint_sha256 == file_sha256(path)
    assert [measured.run_id in warning for warning in reporter.warnings] == [True]
    assert counts(home) == (1.0, 1, 1, 64, 64)
    runs = asked(home, "SELECT run_id, status, checkpoint_sha256 FROM runs WHERE status = 'done'")
    assert runs == [
        {"run_id": measured.run_id, "status": "done", "checkpoint_sha256": file_sha256(path)}
    ]
    again = scan(home, LocalRunner(ON_CPU), **what)
    assert (again.plan.todo, again.plan.done) == ((), {measured.run_id})


def counts(home: Path) -> tuple[float, int, int, int, int]:
    """Return the part of the last scan that is done, its jobs and its images, as it wrote them."""
    written = json.loads((home / "scan.json").read_text())
    names = ("fraction", "done", "jobs", "images", "total_images")
    return tuple(written[name] for name in names)


def test_a_job_that_is_planned_anew_begins_without_the_batches_of_the_old_weights(tmp_path):
    path, home = tmp_path / "weights.pth", tmp_path / "home"
    write_weights(path)

    class Stopped(LocalRunner):
        def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
            yield from itertools.islice(LocalRunner.run(self, source), 4)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(home, Stopped(ON_CPU), checkpoints=(f"file:{path}",))
    with displayed(force_terminal=True) as (reporter, text):
        assert scan(home, Replacing(path, 1), reporter, (f"file:{path}",)).done
    assert counts(home) == (1.0, 1, 1, IMAGES, IMAGES)
    shown = Text.from_ansi(text.getvalue()).plain
    assert {int(done) for done in re.findall(r"(\d+)/8 ", shown)} <= set(range(9))
    assert " 8/8 " in shown


def test_a_job_that_is_planned_anew_as_one_that_is_measured_is_over(tmp_path):
    path, home = tmp_path / "weights.pth", tmp_path / "home"
    what = {"checkpoints": (f"file:{path}",), "dataset": "digits[:64]"}
    write_weights(path)
    (first,), weights = scan(home, LocalRunner(ON_CPU), **what).done, path.read_bytes()
    write_weights(path)
    with displayed(force_terminal=True) as (reporter, text):
        outcome = scan(home, Replacing(path, 1, weights), reporter, **what)
    assert (outcome.done, outcome.failed, outcome.plan.jobs) == ((), (), (first,))
    assert counts(home) == (1.0, 0, 0, 0, 0)
    assert " 1/1 " in Text.from_ansi(text.getvalue()).plain.splitlines()[-1]


def test_weights_that_change_all_the_time_fail_and_are_measured_by_the_next_run(tmp_path):
    path, home = tmp_path / "weights.pth", tmp_path / "home"
    what = {"checkpoints": (f"file:{path}",), "dataset": "digits[:64]"}
    write_weights(path)
    outcome = scan(home, Replacing(path, 9), **what)
    ((_, failure),) = outcome.failed
    assert (failure.changed_weights, outcome.done) == (True, ())
    assert failure.hint
    (measured,) = scan(home, LocalRunner(ON_CPU), **what).done
    assert measured.checkpoint_sha256 == file_sha256(path)


def test_what_is_done_is_not_planned_again(tmp_path):
    scan(tmp_path / "home", LocalRunner(ON_CPU))

    class Never(LocalRunner):
        def __enter__(self) -> Never:
            raise AssertionError("nothing was to be done")

    outcome = scan(tmp_path / "home", Never(ON_CPU))
    assert (outcome.done, len(outcome.plan.done)) == ((), 1)


def test_events_say_how_a_scan_ends():
    assert Devices("cpu", 1, 2).torch_device == "cpu"
    assert Devices("cuda", 1, 2).torch_device == "cuda:0"
    assert {Finished, Failed, Lost} <= set(Event.__args__)
