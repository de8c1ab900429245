"""The Ray actor: a process of its own with its own device, one thread of Ray's at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from jobs.planning.devices import Devices
from jobs.runners.events import Event, Host
from jobs.runners.heartbeat import Bundle, Pulse, bundles
from jobs.runners.task import Task


class Doing(Protocol):
    """Carries a task out; see ``jobs.runners.worker.run_task``, which is what every survey uses."""

    def __call__(self, task: Task, device: str, threads: int, pulse: Pulse) -> Iterator[Event]:
        """Yield what comes of it."""


class Worker:
    """What runs in the actor's process."""

    def __init__(self, device: str, threads: int, do: Doing | None = None) -> None:
        self._device, self._threads, self._do = device, threads, do

    def greet(self, allow_cpu: bool) -> Host:
        """Say what there is to compute on; measure on the CPU instead only where that is allowed.

        Raises
        ------
        ClusterError
            If Ray gave a GPU that torch does not see.
        """
        import torch

        from jobs.runners.hardware import host_of
        from survey import ClusterError

        if self._device != "cpu" and not torch.cuda.is_available():
            if not allow_cpu:
                given = ", ".join(ray.get_runtime_context().get_accelerator_ids()["GPU"])
                raise ClusterError(
                    f"Ray gave this worker GPU {given}, but torch sees none",
                    hint="check the driver and torch's build on that machine, or use --device cpu",
                )
            self._device = "cpu"
        return host_of(torch.device(self._device), self._threads)

    def run_tasks(self, tasks: tuple[Task, ...]) -> Iterator[Bundle]:
        """Yield what comes of some tasks, one after another."""
        do = self._do or _measuring()

        def say(pulse: Pulse) -> Iterator[Event]:
            for task in tasks:
                yield from do(task, self._device, self._threads, pulse)

        yield from bundles(say)


def _measuring() -> Doing:
    from jobs.runners.worker import run_task

    return run_task


def start_worker(devices: Devices, machine: str, do: Doing | None = None) -> Any:
    """Start an actor on a machine and return its handle at once, before the process is there."""
    gpus = devices.share if devices.kind == "cuda" else 0
    # Ray sets OMP_NUM_THREADS from num_cpus, at least 1: without this torch would run on one core.
    environment = {"OMP_NUM_THREADS": str(devices.threads)}
    kind = ray.remote(
        num_cpus=0 if gpus else devices.threads,
        num_gpus=gpus,
        # A worker that died is replaced by the scan, which knows what is durable: retrying inside
        # Ray would mix what two attempts say.
        max_restarts=0,
        max_task_retries=0,
        runtime_env={"env_vars": environment},
    )(Worker)
    there = NodeAffinitySchedulingStrategy(machine, soft=False)
    placed = kind.options(scheduling_strategy=there)
    return placed.remote(devices.torch_device, devices.threads, do)
