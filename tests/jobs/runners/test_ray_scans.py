"""Scans on a local Ray: parts, backpressure and cancelling."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.store.reader import query
from jobs.operations.control import find_job, move_jobs
from jobs.planning.job import Job
from jobs.run import run_survey
from jobs.runners.events import Event, Finished, Started
from jobs.runners.heartbeat import WAITING, Heartbeat
from jobs.runners.local import LocalRunner
from jobs.runners.options import Limits, RunnerOptions
from jobs.runners.ray.runner import RayRunner
from jobs.runners.ray.worker_handle import AHEAD, WorkerHandle
from jobs.runners.task import Task
from jobs.runners.worker_host import host_of
from jobs.scan.reporter import Reporter
from tests.jobs.jobs import declared
from tests.jobs.runners.ray_heads import head

pytestmark = [pytest.mark.ray, pytest.mark.slow(seconds=70), pytest.mark.long]


@pytest.fixture(scope="module")
def machine() -> Iterator[str]:
    """One machine that all join: starting one for each takes longer than most that is shown."""
    with head(cores=2) as started:
        yield f"127.0.0.1:{started.port}"


def one_on(address: str, **options) -> RunnerOptions:
    return RunnerOptions(device="cpu", workers=1, address=address, **options)


def scan(home: Path, runner, reporter=None, **changes):
    opened = open_home(home, create=True)
    return run_survey(opened, declared(**changes), runner, reporter or Reporter())


def measured(home: Path) -> list[dict]:
    """Return all that was measured, without what differs from time to time."""
    sql = """SELECT s.*, b.images, b.end_position, b.labelled, b.top1_hits, b.top5_hits
             FROM batch_scores s JOIN batches b USING (run_id, batch)
             ORDER BY run_id, batch, site"""
    return query(open_home(home, create=False), sql).to_pylist()


class Together(WorkerHandle):
    """A worker that is idle once all are ready: alone, the first may do a whole job."""

    made: ClassVar[list[WorkerHandle]] = []

    def __post_init__(self):
        self.made.append(self)

    @property
    def idle(self):
        return super().idle and all(each.host for each in self.made)


def test_the_parts_of_a_job_equal_the_whole_bit_for_bit(tmp_path, machine, monkeypatch):
    monkeypatch.setattr("jobs.scan.shards.LEAST_SECONDS", 0.001)
    monkeypatch.setattr("jobs.runners.ray.runner.WorkerHandle", Together)
    what = {"dataset": "digits:heldout", "size": 32}
    two = RunnerOptions(device="cpu", workers=2, address=machine)
    scan(tmp_path / "parts", RayRunner(two), **what)
    scan(tmp_path / "whole", LocalRunner(RunnerOptions(device="cpu", threads=1)), **what)
    assert measured(tmp_path / "parts") == measured(tmp_path / "whole")
    runs = "SELECT status, images, batches, parts, measured_top1, threads FROM runs"
    (parts,), (whole,) = (
        query(open_home(tmp_path / name, create=False), runs).to_pylist()
        for name in ("parts", "whole")
    )
    assert (parts.pop("parts"), whole.pop("parts")) == (2, 1)
    assert parts == whole
    with Registry(open_home(tmp_path / "parts", create=False)) as registry:
        (job,) = registry.jobs()
        assert job.state == "done"
        assert [each.outcome for each in registry.attempts.of(job.key)] == ["done", "done"]


def talkative(task: Task, device: str, threads: int, heartbeat: Heartbeat) -> Iterator[Event]:
    """Send many more events than anybody can write down, and count it in a file."""
    import torch

    count = task.job.home / "sent.txt"
    yield Started(task.run_id, task.attempt, host_of(torch.device(device), threads), 1, 0.0, ())
    for number in range(2000):
        count.write_text(str(number))
        yield Started(task.run_id, task.attempt, host_of(torch.device(device), threads), 1, 0.0, ())
    yield Finished(task.run_id, task.attempt)


class Slow(Reporter):
    """Takes its time over the first events, as a store that is locked would."""

    def __init__(self, home: Path) -> None:
        self.seen, self.home, self.ahead = 0, home, 0

    def event(self, job: Job, event: Event) -> None:
        self.seen += 1
        if self.seen == 10:
            time.sleep(3)
            self.ahead = int((self.home / "sent.txt").read_text())


def test_a_worker_does_not_run_ahead_of_a_slow_store(tmp_path, machine):
    home = tmp_path / "home"
    slow = Slow(home)
    scan(home, RayRunner(one_on(machine), talkative), slow)
    assert slow.seen == 2002
    # What waits in the worker, what is on its way, and what is being handled.
    assert 0 < slow.ahead <= (AHEAD + 4) * WAITING < 1000


def endless(task: Task, device: str, threads: int, heartbeat: Heartbeat) -> Iterator[Event]:
    """Go on for ever, with a heartbeat."""
    import torch

    yield Started(task.run_id, task.attempt, host_of(torch.device(device), threads), 1, 0.0, ())
    while True:
        heartbeat.beat()
        time.sleep(0.1)


class Cancelling(Reporter):
    """Cancels the first job that begins."""

    def __init__(self, home: Path) -> None:
        self.home, self.cancelled = home, None

    def event(self, job: Job, event: Event) -> None:
        if self.cancelled is None:
            home = open_home(self.home, create=False)
            (self.cancelled,) = move_jobs(home, "cancelled", [find_job(home, job.run_id)])


def test_a_cancelled_job_gives_its_worker_back(tmp_path, machine):
    home = tmp_path / "home"
    outcome = scan(home, RayRunner(one_on(machine), endless), Cancelling(home))
    assert (len(outcome.cancelled), outcome.done, outcome.failed) == (1, (), ())


def test_a_worker_that_hangs_is_replaced_until_its_job_is_parked(tmp_path, machine):
    def silent(task: Task, device: str, threads: int, heartbeat: Heartbeat) -> Iterator[Event]:
        time.sleep(3600)
        yield Finished(task.run_id, task.attempt)

    opened = open_home(tmp_path / "home", create=True)
    runner = RayRunner(one_on(machine, stall=1), silent)
    outcome = run_survey(opened, declared(), runner, Reporter(), limits=Limits(losses=2))
    ((_, failure),) = outcome.failed
    assert "1 seconds" in failure.message
    assert "2 workers" in failure.message
    assert failure.stage == "worker"
