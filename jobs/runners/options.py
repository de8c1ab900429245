"""What a user chooses about the runner of a scan and the limits of its jobs, declared once.

The command line makes an option from every field.
"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.option_fields import option
from jobs.choices import DeviceChoice
from survey.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerOptions:
    """Which runner computes the jobs, and on what; a runner ignores options it has no use for."""

    runner: str = option("ray", "Where jobs are computed: ray, local or an installed runner.")
    device: DeviceChoice = option("auto", "The device that workers compute on.")
    workers: int | None = option(None, "Number of workers.", none="one a GPU, else one a machine")
    gpus_per_worker: float = option(1.0, "Share of a GPU that each worker gets.")
    threads: int | None = option(
        None,
        "CPU threads of each worker.",
        none="its share of the cores; on this machine at most OMP_NUM_THREADS",
    )
    #: What bounds the share of the cores; no option.
    most_threads: int | None = None
    address: str | None = option(
        None, "HOST:PORT of an existing Ray cluster, or auto.", none="a local Ray"
    )
    insecure: bool = option(False, "Join a cluster on the network that asks for no token.")
    stall: float = option(900.0, "Seconds without progress after which a worker is replaced.")
    allow_cpu_for_gpu: bool = option(
        False, "Compute on the CPU where torch does not see the GPU assigned by Ray."
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """What a scan allows its jobs."""

    deadline: float | None = option(
        None, "Seconds that one attempt at a job may take.", none="no deadline"
    )
    losses: int = option(
        3, "Workers a job may lose in a row, without a new batch or measure, before it is parked."
    )
    split: bool = option(True, "Spread long jobs over several workers.")

    def __post_init__(self) -> None:
        if self.deadline is not None and not self.deadline > 0:
            raise SettingsError(
                f"the deadline is {self.deadline:g} seconds, must be above 0",
                hint="leave --deadline out to give jobs all the time they need",
            )
        if self.losses < 1:
            raise SettingsError(f"losses is {self.losses}, must be at least 1")
