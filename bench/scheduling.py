"""Benchmark of scheduling: 10,000 jobs that do nothing, against bare calls of a Ray actor.

    python bench/scheduling.py [JOBS]

Everything but the measuring is real: the plan, the registry, the workers' streams, a row a run made
durable. Prints seconds a job, the same of an awaited call of a bare actor in the same run, their
ratio, memory on the way, and how long `survey status` takes afterwards.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ray

from catalog.open_home import open_home
from jobs.planning.definition import parse_definition
from jobs.planning.job import Job
from jobs.run import run_survey
from jobs.runners.events import Event, Finished, Started
from jobs.runners.heartbeat import Heartbeat
from jobs.runners.options import RunnerOptions
from jobs.runners.ray.runner import RayRunner
from jobs.runners.task import Task
from jobs.runners.worker_host import host_of
from jobs.scan.reporter import Reporter

JOBS = 10_000
CALLS = 2_000


def nothing(task: Task, device: str, threads: int, heartbeat: Heartbeat) -> Iterator[Event]:
    """Yield the events of a task without work."""
    import torch

    heartbeat.beat()
    host = host_of(torch.device(device), threads)
    yield Started(task.run_id, task.attempt, host, 1, 0.0, ())
    yield Finished(task.run_id, task.attempt)


class Bare:
    """An actor that does nothing."""

    def call(self, value: int) -> int:
        return value


class Watching(Reporter):
    """Records the time and the memory as jobs end, and the seconds of bare calls before."""

    def __init__(self) -> None:
        self.bare = self.planned_at = self.began = 0.0
        self.ended = 0
        self.memory: dict[int, float] = {}

    def planned(self, plan: object) -> None:  # noqa: ARG002
        self.planned_at = time.perf_counter()

    def started(self, devices: object, estimates: object) -> None:  # noqa: ARG002
        self.bare = bare_call()
        self.began = time.perf_counter()

    def event(self, job: Job, event: Event) -> None:  # noqa: ARG002
        self.ended += isinstance(event, Finished)
        if isinstance(event, Finished) and self.ended % 1000 == 0:
            self.memory[self.ended] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bare_call() -> float:
    """Return the seconds an awaited call of a bare actor takes."""
    actor: Any = ray.remote(num_cpus=0)(Bare).remote()
    for value in range(100):
        ray.get(actor.call.remote(value))
    began = time.perf_counter()
    for value in range(CALLS):
        ray.get(actor.call.remote(value))
    took = (time.perf_counter() - began) / CALLS
    ray.kill(actor)
    return took


def main(jobs: int) -> None:
    """Measure and print."""
    values = {
        "models": [
            {"name": "small:cifar_resnet8", "checkpoints": [f"init:{n}" for n in range(jobs)]}
        ],
        "datasets": [{"name": "digits"}],
    }
    definition = parse_definition(values, "nothing", Path())
    with tempfile.TemporaryDirectory() as folder:
        home, watching = open_home(Path(folder) / "home", create=True), Watching()
        began = time.perf_counter()
        outcome = run_survey(
            home, definition, RayRunner(RunnerOptions(device="cpu", workers=2), nothing), watching
        )
        ended = time.perf_counter()
        assert len(outcome.done) == jobs, outcome.failed[:3]
        scan, whole = ended - watching.began, ended - began
        print(f"{jobs} jobs: planned in {watching.planned_at - began:.1f} s, {whole:.1f} s in all")
        print(f"a job                {1e3 * scan / jobs:8.3f} ms, first worker's start included")
        print(f"an awaited bare call {1e3 * watching.bare:8.3f} ms")
        print(f"ratio                {scan / jobs / watching.bare:8.2f}")
        print("memory of the driver, most so far, MiB:", watching.memory)
        for _ in range(2):
            began = time.perf_counter()
            command = [sys.executable, "-m", "jobs.cli.main", "status", "--home", str(home.path)]
            subprocess.run(command, check=True, capture_output=True)
            print(f"survey status        {time.perf_counter() - began:8.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else JOBS)
