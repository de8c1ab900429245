"""A runner on Ray: one actor a device, each streaming its events to the driver.

Actors hold one job at a time and know nothing of each other. All state is in the driver's stores:
an actor that dies, or hangs, is replaced, and its job goes on from its last durable batch; a
machine that is lost takes its workers with it, one that joins brings new ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Self

import ray

from jobs.planning.devices import Devices, Machine, choose_devices, grown, placed
from jobs.runners.base import Word, Work
from jobs.runners.options import RunnerOptions
from jobs.runners.ray.actor import Doing
from jobs.runners.ray.cluster import connect
from jobs.runners.ray.private import Head, Refused, Silent
from jobs.runners.ray.worker_handle import Slot
from survey import ClusterError, SettingsError
from survey.text import format_duration

#: How often the cluster's machines are looked at.
MACHINES_SECONDS = 5.0

#: How long the cluster's head may be silent. After 60 seconds Ray ends this process without a word.
HEAD_SECONDS = 30.0

#: How long a round waits for a word before it looks whether workers hang or are not wanted.
ROUND_SECONDS = 1.0


class RayRunner:
    """Runs jobs on Ray actors.

    Parameters
    ----------
    options : RunnerOptions, optional
        The workers, their devices and the cluster; by default a local Ray of its own.
    do : callable, optional
        What carries a task out; by default it is measured (``jobs.runners.worker.run_task``).

    Raises
    ------
    SettingsError
        If a worker counts as hung at once.
    """

    name = "ray"

    def __init__(self, options: RunnerOptions | None = None, do: Doing | None = None) -> None:
        self._options = options or RunnerOptions()
        if not self._options.stall > 0:
            raise SettingsError(
                f"stall is {self._options.stall:g} seconds, must be above 0",
                hint="it has to exceed the longest forward pass and the loading of a network",
            )
        self._do = do
        self._head: Head | None = None
        #: When the head answered last.
        self._answered = 0.0
        self._chosen: Devices | None = None
        #: What the cluster began with.
        self.machines: Sequence[Machine] = ()
        self._slots: list[Slot] = []
        self._looked = 0.0
        self._number = 0
        #: Machines on which a worker could not serve.
        self._unfit: set[str] = set()

    @property
    def devices(self) -> Devices:
        """The workers; known once the runner is entered."""
        if self._chosen is None:
            raise ClusterError("the runner has not been entered")
        return self._chosen

    def __enter__(self) -> Self:
        self._head = connect(self._options.address, insecure=self._options.insecure)
        self._answered = time.monotonic()
        try:
            there = self._machines()
            if not there:
                raise ClusterError(
                    "no machine of the Ray cluster has a core or a GPU to compute on",
                    hint="let workers join first: min_workers of at least 1 where it grows itself",
                )
            self.machines = there
            wanted = self._options
            self._chosen = choose_devices(
                wanted.device, wanted.workers, there, wanted.gpus_per_worker, wanted.threads
            )
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for slot in self._slots:
            slot.end()
        ray.shutdown()

    def run(self, work: Work) -> Iterator[tuple[Word, ...]]:
        """Yield what the workers say, in the order it arrives."""
        while True:
            yield from self._look_at_machines()
            self._hand_out(work)
            awaited = {slot.awaited: slot for slot in self._slots if slot.awaited is not None}
            if not any(slot.run_id for slot in self._slots) and self._any_idle():
                return
            if awaited:
                # One word is waited for; then all that are there already are heard.
                refs = list(awaited)
                ready, _ = ray.wait(refs, timeout=ROUND_SECONDS, fetch_local=False)
                if ready:
                    ready, _ = ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
                # All at once, so that the caller makes them durable at once.
                yield tuple(word for ref in ready for word in self._heard(awaited[ref]))
            else:
                time.sleep(ROUND_SECONDS)
            for slot in self._slots:
                yield from self._watched(slot, work)

    def _hand_out(self, work: Work) -> None:
        for slot in self._slots:
            if not slot.started:
                slot.start()
            elif slot.idle and slot.host is not None and (tasks := work.next_tasks(slot.host)):
                slot.begin(tasks)

    def _any_idle(self) -> bool:
        """Tell whether a worker was asked for tasks in vain: then there are none."""
        return any(slot.idle for slot in self._slots)

    def _heard(self, slot: Slot) -> tuple[Word, ...]:
        try:
            return slot.take()
        except ClusterError:
            # One machine that cannot serve is done without, the last one is not.
            self._unfit.add(slot.machine)
            self._slots = [other for other in self._slots if other is not slot]
            if not self._slots:
                raise
            return ()

    def _watched(self, slot: Slot, work: Work) -> Iterator[tuple[Word, ...]]:
        """End a worker that hangs, or whose run is not wanted any more."""
        if slot.run_id is not None and work.withdrawn(slot.run_id):
            yield slot.give_up("not wanted any more")
        elif slot.still_for > self._options.stall:
            yield slot.give_up(
                f"the worker hung: nothing was done for {self._options.stall:g} seconds"
            )

    def _look_at_machines(self) -> Iterator[tuple[Word, ...]]:
        """Take leave of machines that are gone, and place workers on those that joined."""
        if time.monotonic() - self._looked < MACHINES_SECONDS:
            return
        self._looked = time.monotonic()
        there = self._machines()
        if there is None:
            return
        if not there:
            # A worker that waits for a machine that is gone would wait for ever.
            raise ClusterError(
                "no machine of the Ray cluster is alive any more",
                hint="run the same command again: it goes on where this one stopped",
            )
        alive = {machine.name for machine in there}
        for slot in [slot for slot in self._slots if slot.machine not in alive]:
            self._slots.remove(slot)
            yield slot.give_up("the worker's machine was lost")
        fit = [machine for machine in there if machine.name not in self._unfit]
        devices = self.devices if self._options.workers is not None else grown(self.devices, fit)
        for name in placed(devices, fit, [slot.machine for slot in self._slots]):
            self._slots.append(
                Slot(self._number, name, devices, self._options.allow_cpu_for_gpu, self._do)
            )
            self._number += 1

    def _machines(self) -> list[Machine] | None:
        """Return the machines that are alive; None while the head is silent, but not yet for long.

        Raises
        ------
        ClusterError
            If the head has been silent for too long.
        """
        if self._head is None:
            raise ClusterError("the runner has not been entered")
        try:
            there = self._head.machines()
        except (Silent, Refused) as error:
            silent = time.monotonic() - self._answered
            if silent < HEAD_SECONDS:
                return None
            raise ClusterError(
                f"the head of the Ray cluster has not answered for"
                f" {format_duration(silent)}: {error}",
                hint="start the cluster again, then run the same command: it goes on where this"
                " one stopped",
            ) from None
        self._answered = time.monotonic()
        return there
