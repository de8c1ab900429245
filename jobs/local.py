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

        self.devices: Devices = choose_devices(
            device, 1, torch.cuda.device_count(), [local_cores()]
        )

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def run(self, next_job: NextJob) -> Iterator[tuple[int, Event]]:
        """Yield what the one worker says, job after job."""
        import torch

        from jobs.worker import run_job

        device, threads = self.devices.torch_device, self.devices.threads
        before = torch.get_num_threads()
        try:
            while (assignment := next_job()) is not None:
                for event in run_job(*assignment, device, threads):
                    yield 0, event
        finally:
            torch.set_num_threads(before)
