"""The contract of every runner: a test class that an implementation inherits.

Needs pytest and no checkout: its jobs measure a small network with random weights on the digits
of scikit-learn. The tests of a runner's package hold ::

    class TestMyRunner(RunnerContract):
        def make_runner(self, options: RunnerOptions) -> Runner:
            return MyRunner(options)

        def dying_starts(self, count: int) -> AbstractContextManager[object]:
            return ...  # in it, so many of the runner's workers die while they start
"""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest

from catalog.store.arrow_rows import batch_table
from catalog.store.records import BatchRecord, NetworkRecord
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.plan import make_plan
from jobs.runners.base import Runner
from jobs.runners.events import Event, Failed, Finished, Host, Lost, Returned, Started
from jobs.runners.options import RunnerOptions
from jobs.runners.task import Task
from jobs.runners.worker import run_task
from jobs.schedules.process import birth
from survey import ClusterError

#: Events after which no other one of the same attempt may come.
ENDS = (Finished, Failed, Lost, Returned)

#: Options of the runners that are tested.
OPTIONS = RunnerOptions(device="cpu", workers=1, threads=1)

#: Seconds that stopping a worker may take.
STOP_SECONDS = 30.0


def short_jobs(*seeds: int) -> tuple[Job, ...]:
    """Return jobs of two batches, one for each seed of the weights."""
    return _jobs(seeds, "digits[:256]", 128)


def long_job() -> Job:
    """Return a job of so many batches that it can be stopped before its end."""
    (job,) = _jobs((9,), "digits", 16)
    return job


def _jobs(seeds: tuple[int, ...], dataset: str, images_per_score: int) -> tuple[Job, ...]:
    values = {
        "models": [
            {"name": "small:cifar_resnet8", "checkpoints": [f"init:{seed}" for seed in seeds]}
        ],
        "datasets": [{"name": dataset}],
        "settings": {"images_per_score": images_per_score},
    }
    return make_plan(parse_definition(values, "contract", Path()), {}, Holdings()).jobs


class Tasks:
    """A task source with one task for each job, which are given out several at once.

    Parameters
    ----------
    jobs : iterable of Job
        The jobs, in the order they are given out.
    together : int
        Tasks that an idle worker gets at once.
    """

    def __init__(self, jobs: tuple[Job, ...], together: int = 1) -> None:
        # Attempts do not begin with 1: a runner passes on the number it was given.
        self.waiting = deque(
            Task(job, 3 + number, measures=("path_length",)) for number, job in enumerate(jobs)
        )
        self.together = together
        self.hosts: list[Host] = []
        self.withdrawn: set[str] = set()

    def next_tasks(self, host: Host) -> tuple[Task, ...]:
        """Return the next tasks."""
        self.hosts.append(host)
        return tuple(self.waiting.popleft() for _ in range(min(self.together, len(self.waiting))))

    def is_withdrawn(self, run_id: str) -> bool:
        """Return whether a run was withdrawn."""
        return run_id in self.withdrawn

    def is_over(self) -> bool:
        """Return whether no task is left."""
        return not self.waiting


class RunnerContract:
    """Inherit, and make the runner."""

    #: Whether workers are processes of this machine other than the caller's, which may be killed.
    separate_processes: ClassVar[bool] = True

    def make_runner(self, options: RunnerOptions) -> Runner:
        """Return a runner that is not entered yet."""
        raise NotImplementedError

    def dying_starts(self, count: int) -> AbstractContextManager[object]:
        """Return a context in which the next ``count`` workers die before they ask for tasks.

        Not needed where workers are not processes of their own.
        """
        raise NotImplementedError

    def run(self, tasks: Tasks, react: Callable[[Event], None] | None = None) -> list[Event]:
        """Return the events of a runner, after reacting to each as it comes."""
        events: list[Event] = []
        with self.make_runner(OPTIONS) as runner:
            assert runner.name
            assert (runner.devices.kind, runner.devices.workers, runner.devices.threads) == (
                *("cpu", 1, 1),
            )
            assert any(runner.devices.fitting(machine) for machine in runner.machines)
            for arrived in runner.run(tasks):
                for event in arrived:
                    if react:
                        react(event)
                    events.append(event)
        return events

    def test_without_tasks_it_ends_without_events(self) -> None:
        tasks = Tasks(())
        assert self.run(tasks) == []
        assert {(host.device, host.threads) for host in tasks.hosts} == {("cpu", 1)}

    def test_every_task_gives_the_events_of_its_attempt_in_order(self) -> None:
        tasks = Tasks(short_jobs(0, 1, 2), together=2)
        given = list(tasks.waiting)
        events = self.run(tasks)
        for task in given:
            of_task = [event for event in events if event.run_id == task.run_id]
            assert {event.attempt for event in of_task} == {task.attempt}
            assert isinstance(of_task[1], NetworkRecord)
            assert _comparable(of_task) == _comparable(run_task(task, "cpu", 1))

    def test_a_job_that_fails_does_not_stop_the_others(self) -> None:
        good, other = short_jobs(0, 1)
        bad = dataclasses.replace(other, architecture="unknown", checkpoint_sha256="0" * 64)
        events = self.run(Tasks((bad, good), together=2))
        ends = {event.run_id: type(event) for event in events if isinstance(event, ENDS)}
        assert ends == {bad.run_id: Failed, good.run_id: Finished}

    def test_a_withdrawn_run_is_stopped_and_the_others_are_done(self) -> None:
        withdrawn, (other,) = long_job(), short_jobs(0)
        tasks = Tasks((withdrawn, other))
        events = self.run(tasks, lambda _: tasks.withdrawn.add(withdrawn.run_id))
        finished = [event.run_id for event in events if isinstance(event, Finished)]
        assert finished == [other.run_id]
        assert _is_in_order(events)

    def test_tasks_of_a_worker_that_dies_are_lost_or_returned(self) -> None:
        self._require_processes()
        jobs = (long_job(), *short_jobs(0, 1))
        tasks = Tasks(jobs, together=3)
        first, *rest = tasks.waiting
        killed: list[int] = []

        def react(event: Event) -> None:
            if isinstance(event, Started) and not killed:
                killed.append(event.host.pid)
                os.kill(event.host.pid, signal.SIGKILL)
            if isinstance(event, (Lost, Returned)):
                (job,) = (job for job in jobs if job.run_id == event.run_id)
                tasks.waiting.append(Task(job, event.attempt + 10))

        with self.dying_starts(1):
            events = self.run(tasks, react)
        ends = {(e.run_id, e.attempt): type(e) for e in events if isinstance(e, ENDS)}
        assert ends.pop((first.run_id, first.attempt)) is Lost
        assert [ends.pop((task.run_id, task.attempt)) for task in rest] == [Returned] * len(rest)
        assert ends == {(task.run_id, task.attempt + 10): Finished for task in (first, *rest)}
        assert _is_in_order(events)
        assert len({host.pid for host in tasks.hosts}) > 1

    def test_it_ends_with_the_cause_if_no_worker_ever_starts(self) -> None:
        self._require_processes()
        tasks = Tasks(short_jobs(0))
        with self.dying_starts(1000), pytest.raises(ClusterError) as caught:
            self.run(tasks)
        assert caught.value.hint
        assert (tasks.hosts, len(tasks.waiting)) == ([], 1)

    def test_leaving_stops_the_workers(self) -> None:
        self._require_processes()
        with self.make_runner(OPTIONS) as runner:
            started = next(
                event for arrived in runner.run(Tasks((long_job(),))) for event in arrived
            )
        assert isinstance(started, Started)
        deadline = time.monotonic() + STOP_SECONDS
        while birth(started.host.pid):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def _require_processes(self) -> None:
        if not self.separate_processes:
            pytest.skip("its workers are not processes of their own")


def _comparable(events: object) -> list[object]:
    """Return events without what differs from one attempt to the next."""
    values: list[object] = []
    for event in events:  # type: ignore[attr-defined]
        if isinstance(event, BatchRecord):
            # As it is stored: it may come packed.
            (row,) = batch_table([event]).to_pylist()
            values.append(row | {"seconds": None, "recorded_at": None})
        elif isinstance(event, Started):
            values.append(dataclasses.replace(event, host=None))  # type: ignore[arg-type]
        elif isinstance(event, Finished):
            values.append(dataclasses.replace(event, peak_memory=None))
        else:
            values.append(event)
    return values


def _is_in_order(events: list[Event]) -> bool:
    """Return whether each attempt starts once, first, and nothing follows its end."""
    seen: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        seen.setdefault((event.run_id, event.attempt), []).append(event)
    return all(
        isinstance(first, (Started, Returned, Failed, Lost))
        and not any(isinstance(event, Started) for event in rest)
        and not any(isinstance(event, ENDS) for event in [first, *rest][:-1])
        for first, *rest in seen.values()
    )
