"""Which devices a scan uses, and how many threads each worker gets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from jobs.words import DeviceChoice
from survey import ClusterError, SettingsError


@dataclass(frozen=True, slots=True)
class Devices:
    """The workers of a scan: one a GPU, or on the CPU as many as are asked for.

    Parameters
    ----------
    kind : {"cpu", "cuda"}
        What a worker computes on.
    workers : int
        Workers in all.
    threads : int
        Threads for each worker's arithmetic.
    """

    kind: str
    workers: int
    threads: int

    @property
    def torch_device(self) -> str:
        """The device as a worker sees it, which is shown its own GPU only."""
        return "cuda:0" if self.kind == "cuda" else "cpu"


def choose_devices(
    choice: DeviceChoice, workers: int | None, gpus: int, nodes: Sequence[int]
) -> Devices:
    """Choose among the devices there are.

    Parameters
    ----------
    choice : {"auto", "cpu", "cuda"}
        ``auto`` takes the GPUs if there are any.
    workers : int or None
        How many workers; None for one a GPU, or one on each machine's CPU with all its cores.
    gpus : int
        GPUs there are.
    nodes : sequence of int
        CPU cores of each machine. A worker never spans machines.

    Raises
    ------
    SettingsError
        If the choice is unknown, or there would be more workers than GPUs or cores.
    ClusterError
        If ``cuda`` is asked for and there is no GPU.
    """
    if choice not in get_args(DeviceChoice):
        raise SettingsError(f"device is {choice!r}, must be one of auto, cpu, cuda")
    if choice == "cuda" and not gpus:
        raise ClusterError("device is 'cuda', but there is no GPU", hint="use --device cpu")
    used = 0 if choice == "cpu" else gpus
    limit = used or sum(nodes)
    count = workers if workers is not None else (used or len(nodes))
    if not 1 <= count <= limit:
        what = "GPUs" if used else "CPU cores"
        raise SettingsError(f"workers is {count}, must be between 1 and {limit} ({what} there are)")
    if used:
        return Devices("cuda", count, max(1, sum(nodes) // count))
    return Devices("cpu", count, _threads(count, nodes))


def _threads(workers: int, nodes: Sequence[int]) -> int:
    """Return the most threads that so many workers can all have."""
    fitting = (t for t in range(max(nodes), 1, -1) if sum(n // t for n in nodes) >= workers)
    return next(fitting, 1)


def local_cores() -> int:
    """Return the cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
