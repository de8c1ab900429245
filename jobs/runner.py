"""What a runner does: it carries jobs out somewhere and passes on what workers say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, Self

from jobs.devices import Devices
from jobs.events import Event
from jobs.job import Job, Progress

#: The next job and where it goes on, or None when there is none left at present.
NextJob = Callable[[], tuple[Job, Progress] | None]


class Runner(Protocol):
    """Carries jobs out. Entering it starts what workers need, leaving it ends them."""

    @property
    def devices(self) -> Devices:
        """The workers it has; known once it is entered."""

    def __enter__(self) -> Self:
        """Start."""

    def __exit__(self, *exc: object) -> None:
        """End the workers, whatever they are doing."""

    def run(self, next_job: NextJob) -> Iterator[tuple[int, Event]]:
        """Yield (worker number, event) until no job is left and every worker is idle.

        Each event is handled before the next one is asked for, so a caller that makes a batch
        durable holds back the workers. ``next_job`` is asked again after each ``Lost``.
        """
