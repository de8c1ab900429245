"""A runner without Ray: one job after another in this process."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.devices import Devices, choose_devices, local_cores
from jobs.events import Event
from jobs.runner import NextJob
from jobs.words import DeviceChoice


class LocalRunner:
    """Runs jobs in the calling process, for notebooks and quick tests.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``auto`` takes the first GPU if torch sees one.
    """

    def __init__(self, device: DeviceChoice = "auto") -> None:
        import torch

        self.devices: Devices = choose_devices(device, 1, torch.cuda.device_count(), local_cores())

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def run(self, next_job: NextJob) -> Iterator[tuple[int, Event]]:
        """Yield what the one worker says, job after job."""
        from jobs.worker import run_job

        while (assignment := next_job()) is not None:
            job, progress = assignment
            for event in run_job(job, progress, self.devices.torch_device, self.devices.threads):
                yield 0, event
