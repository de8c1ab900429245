"""Real Ray scans whose workers sleep in place of forward passes.

The plan, the dispatcher, the actors' streams, the recorder, the registry and the writer are the
product's. A worker does not import torch, so that 64 of them fit into a small machine.
"""

from __future__ import annotations

import os
import platform
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray

from bench.writer import record, scores
from catalog.open_home import open_home
from catalog.store.records import BatchRecord
from jobs.planning.definition import parse_definition
from jobs.planning.job import Job
from jobs.run import run_survey
from jobs.runners.events import Event, Finished, Host, Started
from jobs.runners.heartbeat import Heartbeat
from jobs.runners.options import Limits, RunnerOptions
from jobs.runners.ray.actor import TaskFunction, Worker
from jobs.runners.ray.runner import RayRunner
from jobs.runners.task import Task
from jobs.scan.reporter import Reporter

#: Seconds after which a worker no longer waits for others that start.
MOST_WAIT = 600


@dataclass(frozen=True, slots=True)
class Load:
    """What a scan has to do."""

    workers: int
    jobs: int
    #: Batches of a job.
    batches: int
    #: Seconds that a worker takes for a batch.
    seconds: float


class AsleepWorker(Worker):
    """The product's actor without torch."""

    def describe_host(self, allow_cpu: bool) -> Host:  # noqa: ARG002
        return host()


@dataclass
class Times(Reporter):
    """The clock, in seconds since the scan began, as things happen."""

    began: float = field(default_factory=time.perf_counter)
    planned_at: float = 0.0
    ray_at: float = 0.0
    ended_at: float = 0.0
    #: When each worker's jobs began and ended, by its process.
    jobs: defaultdict[int, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    #: Of each round of the driver: jobs that ended in it, what workers had sent, the batches in
    #: that, and seconds between two waits, by the clock and of the processor.
    rounds: list[tuple[int, int, int, float, float]] = field(default_factory=list)
    _worker_of: dict[str, int] = field(default_factory=dict)
    _ended: int = 0
    _sent: int = 0
    _batches: int = 0
    _awake_at: tuple[float, float] = (0.0, 0.0)

    @property
    def now(self) -> float:
        return time.perf_counter() - self.began

    def planned(self, plan: object) -> None:  # noqa: ARG002
        self.planned_at = self.now

    def started(self, devices: object, estimates: object) -> None:  # noqa: ARG002
        self.ray_at = self.now

    def event(self, job: Job, event: Event) -> None:
        if isinstance(event, Started):
            self._worker_of[job.run_id] = event.host.pid
            self.jobs[event.host.pid].append([self.now])
        elif isinstance(event, Finished):
            self.jobs[self._worker_of[job.run_id]][-1].append(self.now)
            self._ended += 1
        elif isinstance(event, BatchRecord):
            self._batches += 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note the driver's rounds: what it does between two waits for an event."""
        wait = ray.wait

        def waiting(*args: Any, **options: Any) -> Any:
            slept_at = self.now, time.thread_time()
            ready = wait(*args, **options)
            if not options["timeout"]:
                self._sent = len(ready[0])
            else:
                if self._ended or self._batches:
                    clock, busy = (e - b for b, e in zip(self._awake_at, slept_at, strict=True))
                    self.rounds.append((self._ended, self._sent, self._batches, clock, busy))
                self._ended, self._sent, self._batches = 0, 0, 0
                self._awake_at = self.now, time.thread_time()
            return ready

        with patch.object(ray, "wait", waiting):
            yield


def host() -> Host:
    """Return what this process computes on."""
    return Host("cpu", "none", 1, platform.node(), os.getpid())


def sleeping(load: Load, present: Path) -> TaskFunction:
    """Return what a worker does with a task: sleep, and give the scores of a ResNet-50.

    Workers begin when all are present, as where each has a machine of its own: those that start
    would take the processors from those at work. Their batches end at different times.
    """
    made = [scores(0)]

    def sleep(task: Task, device: str, threads: int, heartbeat: Heartbeat) -> Iterator[Event]:  # noqa: ARG001
        if not (mark := present / str(os.getpid())).exists():
            mark.touch()
            began = time.monotonic()
            while sum(1 for _ in present.iterdir()) < load.workers:
                if time.monotonic() - began > MOST_WAIT:
                    raise TimeoutError(f"{load.workers} workers were not there in {MOST_WAIT} s")
                time.sleep(0.1)
            time.sleep(load.seconds * random.random())
        yield Started(task.run_id, task.attempt, host(), 1, 0.0, ())
        for number in range(load.batches):
            time.sleep(load.seconds)
            heartbeat.beat()
            yield record(number, made, task.run_id, task.attempt)
        yield Finished(task.run_id, task.attempt)

    return sleep


def scan(load: Load) -> Times:
    """Run one scan and return its times."""
    values = {
        "models": [
            {"name": "small:cifar_resnet8", "checkpoints": [f"init:{n}" for n in range(load.jobs)]}
        ],
        "datasets": [{"name": "random:50000"}],
    }
    definition = parse_definition(values, "asleep", Path())
    options = RunnerOptions(device="cpu", workers=load.workers, threads=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory() as present,
        patch("jobs.runners.ray.actor.Worker", AsleepWorker),
        patch("jobs.runners.ray.cluster.local_cores", lambda: load.workers),
    ):
        home, times = open_home(Path(folder) / "home", create=True), Times()
        runner = RayRunner(options, sleeping(load, Path(present)))
        with times.watched():
            outcome = run_survey(home, definition, runner, times, limits=Limits(split=False))
        times.ended_at = times.now
        assert len(outcome.done) == load.jobs, outcome.failed[:3]
    return times
