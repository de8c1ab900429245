"""One worker's place on one machine: its actor, its tasks, and the stream of what it says."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from jobs.planning.devices import Devices
from jobs.runners.base import Word
from jobs.runners.events import Event, Failed, Finished, Host, Lost, Returned
from jobs.runners.heartbeat import Bundle
from jobs.runners.ray.actor import Doing, start_worker
from jobs.runners.ray.cluster import first_line, last_line
from jobs.runners.task import Task
from survey import ClusterError

#: Bundles a worker may be ahead of the writer; what bounds memory when the store is slow.
AHEAD = 2


@dataclass
class Slot:
    """A worker's place. At most one actor is there at a time, and at most one stream of its."""

    number: int
    machine: str
    devices: Devices
    allow_cpu: bool = False
    #: What carries tasks out; None for the measuring of a survey.
    do: Doing | None = None
    #: What the worker computes on, once it has said so.
    host: Host | None = None
    #: The reference to wait for: its greeting, or the stream of what it says; None while idle.
    awaited: Any = None
    _actor: Any = None
    _tasks: deque[Task] = field(default_factory=deque)
    _pulse: int = -1
    _moved: float = 0.0

    def start(self) -> None:
        """Start an actor that will greet."""
        self._actor = start_worker(self.devices, self.machine, self.do)
        self.awaited = self._actor.greet.remote(self.allow_cpu)
        self._moved = time.monotonic()

    @property
    def started(self) -> bool:
        """Whether there is an actor, ready or not."""
        return self._actor is not None

    @property
    def idle(self) -> bool:
        """Whether its worker has greeted and has nothing to do."""
        return self.host is not None and self.awaited is None

    @property
    def run_id(self) -> str | None:
        """The run it works for; None while it does not."""
        return self._tasks[0].run_id if self._tasks else None

    @property
    def still_for(self) -> float:
        """Seconds in which nothing was done by a worker that has something to do."""
        return time.monotonic() - self._moved if self._tasks else 0.0

    def begin(self, tasks: tuple[Task, ...]) -> None:
        """Give an idle worker some tasks."""
        self._tasks = deque(tasks)
        method = self._actor.run_tasks.options(
            num_returns="streaming", _generator_backpressure_num_objects=AHEAD
        )
        self.awaited = method.remote(tasks)
        self._pulse, self._moved = -1, time.monotonic()

    def take(self) -> tuple[Word, ...]:
        """Return what is there to be heard; a worker that died says so with its last word.

        Raises
        ------
        ClusterError
            If the worker cannot serve on its machine.
        """
        if self.host is None:
            self._greeted()
            return ()
        try:
            bundle: Bundle = ray.get(next(self.awaited))
        except StopIteration:
            self.awaited = None
            return self._given_up("the worker ended without a result") if self._tasks else ()
        except RayTaskError as error:
            # Our own code failed on that machine, such as an import: another try would too.
            return self._broken(last_line(error), str(error))
        except RayError as error:
            of_memory = isinstance(error, OutOfMemoryError) or "low on memory" in str(error)
            return self.give_up(f"the worker died: {first_line(error)}", of_memory=of_memory)
        if bundle.events or bundle.pulse != self._pulse:
            self._pulse, self._moved = bundle.pulse, time.monotonic()
        for event in bundle.events:
            if isinstance(event, (Finished, Failed)):
                self._tasks.popleft()
        return self._words(bundle.events)

    def give_up(self, message: str, *, of_memory: bool = False) -> tuple[Word, ...]:
        """End the worker; its present task is lost and those after it are given back."""
        self.end()
        return self._given_up(message, of_memory=of_memory)

    def end(self) -> None:
        """End the actor, if there is one."""
        if self._actor is not None:
            ray.kill(self._actor)
        self._actor = self.awaited = self.host = None

    def _greeted(self) -> None:
        try:
            self.host = ray.get(self.awaited)
        except RayTaskError as error:
            self.end()
            cause = error.cause
            if isinstance(cause, ClusterError):
                raise ClusterError(cause.message, hint=cause.hint) from error
            raise ClusterError(
                f"a worker cannot be started: {last_line(error)}", hint="see survey doctor there"
            ) from error
        except RayError as error:
            self.end()
            raise ClusterError(f"a worker cannot be started: {first_line(error)}") from error
        self.awaited = None

    def _broken(self, message: str, traceback: str) -> tuple[Word, ...]:
        self.end()
        hint = "see survey doctor on the worker's machine"
        return self._settled(
            lambda task: Failed(task.run_id, task.attempt, "worker", message, hint, traceback)
        )

    def _given_up(self, message: str, *, of_memory: bool = False) -> tuple[Word, ...]:
        return self._settled(lambda task: Lost(task.run_id, task.attempt, message, of_memory))

    def _settled(self, ending: Callable[[Task], Event]) -> tuple[Word, ...]:
        tasks, self._tasks = self._tasks, deque()
        events: list[Event] = [Returned(task.run_id, task.attempt) for task in tasks]
        if tasks:
            events[0] = ending(tasks[0])
        return self._words(tuple(events))

    def _words(self, events: tuple[Event, ...]) -> tuple[Word, ...]:
        return tuple(Word(self.number, event) for event in events)
