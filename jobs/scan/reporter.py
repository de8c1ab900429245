"""The reporter: what a scan reports of its progress. The library itself never prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalog.models.base import RemoteFile
    from jobs.planning.estimate import Estimate
    from jobs.planning.job import Job
    from jobs.planning.plan import Plan
    from jobs.planning.worker_layout import Devices
    from jobs.runners.events import Event


class Reporter:
    """Ignores every report; inherit, and override those that are to be shown."""

    def fetching(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Report how many bytes of a file were fetched, of how many where that is known."""

    def planned(self, plan: Plan) -> None:
        """Report the jobs; nothing has been started."""

    def started(self, devices: Devices, estimates: Mapping[str, Estimate]) -> None:
        """Report the workers, and what each job may still take, by run id.

        Those of jobs that are planned anew are added later.
        """

    def warned(self, warning: str) -> None:
        """Report what may go wrong and is tried all the same."""

    def event(self, job: Job, event: Event) -> None:
        """Report a worker's event, which is durable."""

    def withdrawn(self, job: Job) -> None:
        """Report that a job was cancelled; the workers that have begun it are stopped."""

    def replaced(self, job: Job, by: Job | None) -> None:
        """Report that a job was planned anew, as another; its workers are stopped.

        None where that one is done or held, or a job of the scan already.
        """
