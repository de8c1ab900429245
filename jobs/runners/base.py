"""What a runner does: it carries tasks out somewhere and passes on what workers say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from jobs.planning.devices import Devices, Machine
from jobs.runners.events import Event, Host
from jobs.runners.task import Task


class Work(Protocol):
    """What is to be done. The runner asks, so that nothing waits in its queues."""

    def next_tasks(self, host: Host) -> tuple[Task, ...]:
        """Return what a free worker is to do next, several tasks if they are short.

        Empty when there is nothing for it at present. Asked again after every event.
        """

    def withdrawn(self, run_id: str) -> bool:
        """Tell whether a run is not wanted any more: then its workers are ended."""


@dataclass(frozen=True, slots=True)
class Word:
    """An event and who says it."""

    #: The worker's number, counting from 0.
    worker: int
    event: Event


class Runner(Protocol):
    """Carries tasks out. Entering it starts what workers need, leaving it ends them."""

    @property
    def devices(self) -> Devices:
        """The workers it has; known once it is entered."""

    @property
    def machines(self) -> Sequence[Machine]:
        """The machines there are; known once it is entered."""

    def __enter__(self) -> Self:
        """Start."""

    def __exit__(self, *exc: object) -> None:
        """End the workers, whatever they are doing."""

    def run(self, work: Work) -> Iterator[tuple[Word, ...]]:
        """Yield what workers say, as it comes, until there is no work and every worker is idle.

        What is yielded is handled before more is asked for, so a caller that makes a batch durable
        holds back the workers.
        """
