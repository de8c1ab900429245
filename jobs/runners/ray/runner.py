"""The Ray runner: one actor a device, each streaming its events to the driver.

Actors know nothing of each other, and all state is in the driver's stores. An actor that dies or
hangs is replaced, and its job continues after the last durable batch; a machine that is lost takes
its workers with it, one that joins brings new ones.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Self

import ray

from jobs.planning.worker_layout import Devices, Machine, choose_devices, grown, placed
from jobs.runners.base import TaskSource
from jobs.runners.events import Event
from jobs.runners.options import RunnerOptions
from jobs.runners.ray.actor import TaskFunction
from jobs.runners.ray.cluster import connected
from jobs.runners.ray.private import Head, Refused, Silent
from jobs.runners.ray.worker_handle import DiedStarting, WorkerHandle
from survey import ClusterError, SettingsError
from survey.text import format_duration

#: Seconds between two looks at the cluster's machines.
MACHINES_SECONDS = 5.0

#: Seconds the cluster's head may be silent: after 60 Ray ends this process without an error.
HEAD_SECONDS = 30.0

#: Seconds a scan may be without any worker: a cloud replaces a machine within some minutes.
WORKERLESS_SECONDS = 300.0

#: Seconds to wait for an event before workers are checked for hanging or cancelled runs.
ROUND_SECONDS = 1.0


#: Workers that one machine may lose in a row while they start; it gets no more then.
LOST_STARTS = 3


class RayRunner:
    """Computes tasks on Ray actors.

    Parameters
    ----------
    options : RunnerOptions, optional
        The workers, their devices and the cluster; by default a local Ray of its own.
    function : TaskFunction, optional
        Computes a task; by default ``jobs.runners.worker.run_task`` measures it.

    Raises
    ------
    SettingsError
        If ``stall`` is not above 0.
    """

    name = "ray"

    #: The workers; known once the runner is entered.
    devices: Devices
    _head: Head
    #: What is left, or ended, at the end.
    _left: ExitStack

    def __init__(
        self, options: RunnerOptions | None = None, function: TaskFunction | None = None
    ) -> None:
        self._options = options or RunnerOptions()
        if not self._options.stall > 0:
            raise SettingsError(
                f"stall is {self._options.stall:g} seconds, must be above 0",
                hint="it has to exceed the longest forward pass and the loading of a network",
            )
        self._function = function
        #: When the head answered last, and when it was asked for its machines.
        self._answered = self._asked = 0.0
        #: The machines at the start.
        self.machines: Sequence[Machine] = ()
        self._workers: list[WorkerHandle] = []
        #: When any machine last had a worker; at first, when the run began.
        self._staffed = 0.0
        #: The machines when they were last asked for.
        self._present: Sequence[Machine] = ()
        #: Workers lost in a row while they started, by machine.
        self._lost_starts: Counter[str] = Counter()

    def __enter__(self) -> Self:
        wanted = self._options
        with ExitStack() as left:
            self._head = left.enter_context(connected(wanted.address, insecure=wanted.insecure))
            self._answered = time.monotonic()
            machines = self._alive()
            if not machines:
                raise ClusterError(
                    "no machine of the Ray cluster has a core or a GPU to compute on",
                    hint="let workers join first: min_workers of at least 1 where it grows itself",
                )
            self.machines = machines
            self.devices = choose_devices(
                wanted.device, wanted.workers, machines, wanted.gpus_per_worker, wanted.threads
            ).at_most(wanted.most_threads)
            self._left = left.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        with self._left:
            for worker in self._workers:
                worker.stop()

    def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        """Yield the events of all workers, in the order of their arrival."""
        for events in self._rounds(source):
            began = time.monotonic()
            yield events
            # However long they take to be stored: nobody looks for progress meanwhile.
            for worker in self._workers:
                worker.progressed_at += time.monotonic() - began

    def _rounds(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        self._staffed = time.monotonic()
        yield from self._update_machines()
        while True:
            self._hand_out(source)
            if self._is_over(source):
                return
            # Only where something is left to do: else no machine is needed any more.
            yield from self._update_machines()
            yield self._next_events()
            yield tuple(event for each in self._workers for event in self._checked(each, source))

    def _hand_out(self, source: TaskSource) -> None:
        starting = [worker for worker in self._workers if not worker.started]
        # While the head is silent, a start blocks until Ray ends this process.
        if starting and self._alive() is not None:
            for worker in starting:
                worker.start()
        for worker in self._workers:
            if worker.idle and worker.host and (tasks := source.next_tasks(worker.host)):
                worker.begin(tasks)

    def _is_over(self, source: TaskSource) -> bool:
        """Return whether nothing is at work, and nothing left to do."""
        if not self._workers:
            # Runs may be cancelled while a machine is waited for.
            return source.is_over()
        # An idle worker was offered tasks in vain: there are none.
        at_work = any(worker.run_id for worker in self._workers)
        return not at_work and any(worker.idle for worker in self._workers)

    def _next_events(self) -> tuple[Event, ...]:
        """Wait for an event; return it with all others that have arrived, to be stored at once."""
        awaited = {worker.awaited: worker for worker in self._workers if worker.awaited is not None}
        if not awaited:
            time.sleep(ROUND_SECONDS)
            return ()
        references = list(awaited)
        ready, _ = ray.wait(references, timeout=ROUND_SECONDS, fetch_local=False)
        if ready:
            ready, _ = ray.wait(
                references, num_returns=len(references), timeout=0, fetch_local=False
            )
        return tuple(event for ref in ready for event in self._taken(awaited[ref]))

    def _taken(self, worker: WorkerHandle) -> tuple[Event, ...]:
        try:
            events = worker.take()
        except ClusterError as error:
            self._replace(worker, error)
            return ()
        # It has started.
        del self._lost_starts[worker.machine]
        return events

    def _replace(self, worker: WorkerHandle, error: ClusterError) -> None:
        """Start another worker for one that did not start, where the fewest were lost before.

        Raises
        ------
        ClusterError
            If no machine is left to start one on.
        """
        self._workers = [other for other in self._workers if other is not worker]
        self._present = self._alive() or self._present
        if worker.machine not in {machine.name for machine in self._present}:
            # Its machine was lost, which says nothing of starts: another may join.
            return
        self._lost_starts[worker.machine] += 1 if isinstance(error, DiedStarting) else LOST_STARTS
        self._place()
        if not self._workers:
            raise ClusterError(
                f"no worker starts on any machine: {error.message}", hint=error.hint
            ) from error

    def _checked(self, worker: WorkerHandle, source: TaskSource) -> tuple[Event, ...]:
        """Stop a worker that hangs or whose run was withdrawn."""
        if worker.run_id is not None and source.is_withdrawn(worker.run_id):
            return worker.give_up("the run was cancelled, or failed elsewhere")
        stall = self._options.stall
        if worker.seconds_without_progress > stall:
            return worker.give_up(f"the worker hung: nothing was done for {stall:g} seconds")
        return ()

    def _update_machines(self) -> Iterator[tuple[Event, ...]]:
        """Give up the workers of machines that are gone; place workers on those that joined.

        Raises
        ------
        ClusterError
            If no machine has had a worker for too long.
        """
        if time.monotonic() - self._asked < MACHINES_SECONDS:
            return
        self._asked = time.monotonic()
        machines = self._alive()
        if machines is None:
            return
        names = {machine.name for machine in machines}
        for worker in [worker for worker in self._workers if worker.machine not in names]:
            self._workers.remove(worker)
            yield worker.give_up("the worker's machine was lost")
        self._present = machines
        self._place()
        if self._workers:
            self._staffed = self._asked
        self._require_workers(self._asked - self._staffed)

    def _require_workers(self, missing: float) -> None:
        """Raise a ClusterError if all workers have been missing for too many seconds."""
        # No machine joins a Ray of the scan's own.
        patience = 0.0 if self._options.address is None else WORKERLESS_SECONDS
        if not self._workers and missing >= patience:
            raise ClusterError(
                f"no machine of the Ray cluster has had a worker for {format_duration(missing)}:"
                " each that is left lacks the cores or the GPU for one, or lost"
                f" {LOST_STARTS} workers while they started",
                hint="run the same command again: it continues where this one stopped",
            )

    def _place(self) -> None:
        """Place workers where there is room, first where none was lost while it started."""
        fit = [each for each in self._present if self._lost_starts[each.name] < LOST_STARTS]
        fit.sort(key=lambda machine: self._lost_starts[machine.name])
        devices = self.devices
        if self._options.workers is None:
            devices = grown(devices, fit, self.machines)
        allow_cpu = self._options.allow_cpu_for_gpu
        self._workers += [
            WorkerHandle(name, devices, allow_cpu, self._function)
            for name in placed(devices, fit, [worker.machine for worker in self._workers])
        ]

    def _alive(self) -> list[Machine] | None:
        """Return the machines that are alive; None while the head has been silent for a short time.

        Raises
        ------
        ClusterError
            If the head has been silent for too long.
        """
        try:
            machines = self._head.machines()
        except (Silent, Refused) as error:
            silent = time.monotonic() - self._answered
            if silent < HEAD_SECONDS:
                return None
            raise ClusterError(
                f"the head of the Ray cluster has not answered for"
                f" {format_duration(silent)}: {error}",
                hint="start the cluster again, then run the same command: it continues where"
                " this one stopped",
            ) from None
        self._answered = time.monotonic()
        return machines
