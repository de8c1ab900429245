"""The reporter protocol: what a scan reports of its progress. The library itself never prints."""

from __future__ import annotations

from typing import Protocol

from catalog.models.base import RemoteFile
from jobs.planning.devices import Devices
from jobs.planning.job import Job
from jobs.planning.plan import Plan
from jobs.runners.events import Event


class Reporter(Protocol):
    """Shows the progress of a scan."""

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Report how many bytes of a file were fetched, of how many where that is known."""

    def planned(self, plan: Plan) -> None:
        """Report the jobs; nothing has been started."""

    def started(self, devices: Devices) -> None:
        """Report the workers."""

    def warned(self, warning: str) -> None:
        """Report what may go wrong and is tried all the same."""

    def event(self, job: Job, event: Event) -> None:
        """Report a worker's event, which is durable."""


class SilentReporter:
    """Reports nothing."""

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Ignore the file."""

    def planned(self, plan: Plan) -> None:
        """Ignore the plan."""

    def started(self, devices: Devices) -> None:
        """Ignore the workers."""

    def warned(self, warning: str) -> None:
        """Ignore the warning."""

    def event(self, job: Job, event: Event) -> None:
        """Ignore the event."""
