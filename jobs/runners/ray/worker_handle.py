"""The driver's handle of one worker: its actor, its tasks, and the stream of its events."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayError, RayTaskError

from jobs.planning.worker_layout import Devices
from jobs.runners.events import Event, Failed, Finished, Host, Lost, Returned
from jobs.runners.heartbeat import EventBatch
from jobs.runners.ray.actor import TaskFunction, start_worker
from jobs.runners.ray.cluster import last_line
from jobs.runners.task import AnyTask
from survey import ClusterError
from survey.text import first_line

#: Event batches a worker may be ahead of the writer: bounds memory when the store is slow.
AHEAD = 2


class DiedStarting(ClusterError):
    """A worker died before it was ready; another one may live."""


@dataclass
class WorkerHandle:
    """One worker on one machine, with at most one actor at a time and one stream of its events."""

    machine: str
    devices: Devices
    allow_cpu: bool = False
    #: Computes the tasks; None for the measuring of a survey.
    function: TaskFunction | None = None
    #: What the worker computes on, once its actor is ready.
    host: Host | None = None
    #: The reference to wait for: the actor's host, or the stream of its events; None while idle.
    awaited: Any = None
    #: The moment of its last step.
    progressed_at: float = 0.0
    _actor: Any = None
    _tasks: deque[AnyTask] = field(default_factory=deque)
    _heartbeat: int = -1

    def start(self) -> None:
        """Start an actor and ask what it computes on."""
        self._actor = start_worker(self.devices, self.machine, self.function)
        self.awaited = self._actor.describe_host.remote(self.allow_cpu)
        self.progressed_at = time.monotonic()

    @property
    def started(self) -> bool:
        """Whether there is an actor, ready or not."""
        return self._actor is not None

    @property
    def idle(self) -> bool:
        """Whether its actor is ready and has nothing to do."""
        return self.host is not None and self.awaited is None

    @property
    def run_id(self) -> str | None:
        """The run it measures; None while idle."""
        return self._tasks[0].run_id if self._tasks else None

    @property
    def seconds_without_progress(self) -> float:
        """Seconds since the last step of a worker that has something to do."""
        return time.monotonic() - self.progressed_at if self._tasks else 0.0

    def begin(self, tasks: tuple[AnyTask, ...]) -> None:
        """Give tasks to an idle worker."""
        self._tasks = deque(tasks)
        method = self._actor.run_tasks.options(
            num_returns="streaming", _generator_backpressure_num_objects=AHEAD
        )
        self.awaited = method.remote(tasks)
        self._heartbeat, self.progressed_at = -1, time.monotonic()

    def take(self) -> tuple[Event, ...]:
        """Return the events that arrived; of a worker that died, how its tasks ended.

        Raises
        ------
        DiedStarting
            If it died before it was ready.
        ClusterError
            If no worker can serve on its machine.
        """
        if self.host is None:
            self._take_host()
            return ()
        try:
            batch: EventBatch = ray.get(next(self.awaited))
        except StopIteration:
            self.awaited = None
            return self._lose("the worker ended without a result") if self._tasks else ()
        except RayTaskError as error:
            # Our own code failed on that machine, such as an import: another attempt would too.
            self.stop()
            hint, message, where = "see survey doctor there", last_line(error), str(error)
            return self._end_tasks(
                lambda task: Failed(task.run_id, task.attempt, "worker", message, hint, where)
            )
        except RayError as error:
            of_memory = isinstance(error, OutOfMemoryError) or "low on memory" in str(error)
            return self.give_up(f"the worker died: {first_line(error)}", of_memory=of_memory)
        events, heartbeat = batch
        if events or heartbeat != self._heartbeat:
            self._heartbeat, self.progressed_at = heartbeat, time.monotonic()
        for event in events:
            if isinstance(event, (Finished, Failed)):
                self._tasks.popleft()
        return events

    def give_up(self, message: str, *, of_memory: bool = False) -> tuple[Event, ...]:
        """Stop the worker; its present task is lost and those after it are returned."""
        self.stop()
        return self._lose(message, of_memory=of_memory)

    def stop(self) -> None:
        """Stop the actor, if there is one."""
        if self._actor is not None:
            ray.kill(self._actor)
        self._actor = self.awaited = self.host = None

    def _take_host(self) -> None:
        try:
            self.host = ray.get(self.awaited)
        except RayTaskError as error:
            self.stop()
            cause = error.cause
            if isinstance(cause, ClusterError):
                raise ClusterError(cause.message, hint=cause.hint) from error
            raise ClusterError(
                f"a worker cannot be started: {last_line(error)}", hint="see survey doctor there"
            ) from error
        except RayError as error:
            self.stop()
            raise DiedStarting(
                f"a worker died while it started: {first_line(error)}",
                hint="see survey doctor there; too little memory is a frequent cause",
            ) from error
        self.awaited = None

    def _lose(self, message: str, *, of_memory: bool = False) -> tuple[Event, ...]:
        return self._end_tasks(lambda task: Lost(task.run_id, task.attempt, message, of_memory))

    def _end_tasks(self, ending: Callable[[AnyTask], Event]) -> tuple[Event, ...]:
        """Return how the present task ended, and the others as returned."""
        tasks, self._tasks = self._tasks, deque()
        return tuple(
            Returned(task.run_id, task.attempt) if number else ending(task)
            for number, task in enumerate(tasks)
        )
