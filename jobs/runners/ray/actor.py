"""The Ray actor: a worker process with a device of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from catalog.store.records import BatchRecord
from jobs.planning.worker_layout import Devices
from jobs.runners.events import Event, Host
from jobs.runners.freed_memory import share_memory
from jobs.runners.heartbeat import EventBatch, Heartbeat, event_batches
from jobs.runners.task import AnyTask


class TaskFunction(Protocol):
    """Computes a task; by default ``jobs.runners.worker.run_task``."""

    def __call__(
        self, task: Any, device: str, threads: int, heartbeat: Heartbeat
    ) -> Iterator[Event]:
        """Yield the task's events."""


class Worker:
    """The object in the actor's process."""

    def __init__(self, device: str, threads: int, function: TaskFunction | None = None) -> None:
        self._device, self._threads, self._function = device, threads, function
        if device == "cpu":
            share_memory()

    def describe_host(self, allow_cpu: bool) -> Host:
        """Return what the worker computes on; a CPU in place of a GPU only where that is allowed.

        Raises
        ------
        ClusterError
            If Ray assigned a GPU that torch does not see.
        """
        import torch

        from jobs.runners.worker_host import host_of
        from survey import ClusterError

        if self._device != "cpu" and not torch.cuda.is_available():
            if not allow_cpu:
                assigned = ", ".join(ray.get_runtime_context().get_accelerator_ids()["GPU"])
                raise ClusterError(
                    f"Ray gave this worker GPU {assigned}, but torch sees none",
                    hint="check the driver and torch's build on that machine, or use --device cpu",
                )
            self._device = "cpu"
        return host_of(torch.device(self._device), self._threads)

    def run_tasks(self, tasks: tuple[AnyTask, ...]) -> Iterator[EventBatch]:
        """Yield the events of several tasks, one after another."""
        from catalog.store.arrow_rows import packed

        if self._function is None:
            from jobs.runners.worker import run_task

            self._function = run_task
        function = self._function

        def produce(heartbeat: Heartbeat) -> Iterator[Event]:
            for task in tasks:
                for event in function(task, self._device, self._threads, heartbeat):
                    # One driver stores the batches of all workers: each makes its own rows.
                    yield packed(event) if isinstance(event, BatchRecord) else event

        yield from event_batches(produce)


def start_worker(devices: Devices, machine: str, function: TaskFunction | None = None) -> Any:
    """Start an actor on a machine; return its handle at once, before the process exists."""
    gpus = devices.share if devices.kind == "cuda" else 0
    # Ray sets OMP_NUM_THREADS from num_cpus, at least 1: without this torch would run on one core.
    environment = {"OMP_NUM_THREADS": str(devices.threads)}
    kind = ray.remote(
        num_cpus=0 if gpus else devices.threads,
        num_gpus=gpus,
        # The dispatcher replaces a worker that died, as it knows which batches are durable: Ray's
        # own retries would mix the events of two attempts.
        max_restarts=0,
        max_task_retries=0,
        runtime_env={"env_vars": environment},
    )(Worker)
    strategy = NodeAffinitySchedulingStrategy(machine, soft=False)
    placed = kind.options(scheduling_strategy=strategy)
    return placed.remote(devices.torch_device, devices.threads, function)
