"""Who is told what a scan does. The library never prints: the command line passes a reporter."""

from __future__ import annotations

from typing import Protocol

from catalog.models.base import RemoteFile
from jobs.planning.devices import Devices
from jobs.planning.job import Job
from jobs.planning.plan import Plan
from jobs.runners.events import Event


class Reporter(Protocol):
    """Listens to a scan."""

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """So many bytes of a file are here, of so many where that is known."""

    def planned(self, plan: Plan) -> None:
        """The jobs are known; nothing has been started."""

    def started(self, devices: Devices) -> None:
        """The workers are there."""

    def warned(self, words: str) -> None:
        """Something may go wrong, and is tried all the same."""

    def event(self, worker: int, job: Job, event: Event) -> None:
        """A worker said something, and it is durable."""


class SilentReporter:
    """Listens and says nothing."""

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Ignore the file."""

    def planned(self, plan: Plan) -> None:
        """Ignore the plan."""

    def started(self, devices: Devices) -> None:
        """Ignore the workers."""

    def warned(self, words: str) -> None:
        """Ignore the warning."""

    def event(self, worker: int, job: Job, event: Event) -> None:
        """Ignore the event."""
