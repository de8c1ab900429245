"""The local runner: one task after another in this process, without Ray."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jobs.planning.worker_layout import Devices, Machine, choose_devices, local_memory
from jobs.runners.base import TaskSource
from jobs.runners.events import Event
from jobs.runners.options import RunnerOptions
from survey.cores import local_cores
from survey.errors import SettingsError


class LocalRunner:
    """Computes tasks in the calling process, for notebooks and quick tests.

    A network that ends its process ends the survey with it, and one that hangs is waited for:
    ``RayRunner`` survives both.

    Parameters
    ----------
    options : RunnerOptions, optional
        The device and the threads to compute with, by default as many as there are cores.

    Raises
    ------
    SettingsError
        If the options ask for several workers or a cluster.
    """

    name = "local"

    def __init__(self, options: RunnerOptions | None = None) -> None:
        import torch

        options = options or RunnerOptions()
        if options.address is not None:
            reason = "--runner local takes no --address"
            raise SettingsError(reason, hint="leave it out, or use --runner ray")
        if options.workers not in (None, 1):
            reason = f"--runner local has one worker, and --workers is {options.workers}"
            raise SettingsError(reason, hint="leave it out, or use --runner ray")
        here = Machine("here", local_cores(), torch.cuda.device_count(), local_memory())
        self.machines: Sequence[Machine] = [here]
        self.devices: Devices = choose_devices(
            options.device, 1, self.machines, threads=options.threads
        ).at_most(options.most_threads)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        """Yield the events of one task after another."""
        import torch

        from jobs.runners.worker import run_task
        from jobs.runners.worker_host import host_of

        device, threads = self.devices.torch_device, self.devices.threads
        host = host_of(torch.device(device), threads)
        before = torch.get_num_threads()
        try:
            while tasks := source.next_tasks(host):
                for task in tasks:
                    for event in run_task(task, device, threads):
                        yield (event,)
                        if source.is_withdrawn(task.run_id):
                            break
        finally:
            torch.set_num_threads(before)
