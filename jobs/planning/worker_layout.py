"""The devices of a scan: its workers, their machines and their threads."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from jobs.choices import DeviceChoice
from survey import ClusterError, SettingsError


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a cluster."""

    #: Its name in the cluster.
    name: str
    #: CPU cores.
    cores: int
    #: GPUs.
    gpus: int = 0
    #: Bytes of memory for workers; 0 where unknown.
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Devices:
    """The workers of a scan, all alike.

    Parameters
    ----------
    kind : {"cpu", "cuda"}
        The device of each worker.
    workers : int
        Number of workers.
    threads : int
        CPU threads of each worker; the same for all, because the last bits of scores depend on
        them.
    share : float
        The part of a GPU that each worker gets.
    """

    kind: str
    workers: int
    threads: int
    share: float = 1.0

    @property
    def torch_device(self) -> str:
        """The torch device of a worker, which sees only the GPU assigned to it."""
        return "cuda:0" if self.kind == "cuda" else "cpu"

    def at_most(self, threads: int | None) -> Devices:
        """Return these workers with no more threads each; None stands for any number."""
        return self if threads is None else replace(self, threads=min(self.threads, threads))

    def fitting(self, machine: Machine) -> int:
        """Return how many of these workers a machine has room for."""
        if self.kind == "cuda":
            return _shares(machine, self.share)
        return machine.cores // self.threads


def choose_devices(
    choice: DeviceChoice,
    workers: int | None,
    machines: Sequence[Machine],
    share: float = 1.0,
    threads: int | None = None,
) -> Devices:
    """Return the workers for a choice of devices.

    Parameters
    ----------
    choice : {"auto", "cpu", "cuda"}
        ``auto`` takes the GPUs if there are any.
    workers : int or None
        Number of workers; None for one a GPU, or one for each machine with as many cores as a
        worker has threads.
    machines : sequence of Machine
        The machines. A worker never spans two.
    share : float
        The part of a GPU each worker gets.
    threads : int or None
        Threads of each worker; None for its part of its machine's cores, on CPUs the most with
        which so many workers find room: a large machine may have several, a small one none.

    Raises
    ------
    SettingsError
        If the choice is unknown, the share is no part of a GPU, there would be more workers
        than GPUs or cores, or no machine has so many cores as a worker has threads.
    ClusterError
        If ``cuda`` is asked for and there is no GPU, or ``cpu`` and no core.
    """
    if choice not in get_args(DeviceChoice):
        raise SettingsError(f"device is {choice!r}, must be one of auto, cpu, cuda")
    if not 0.0 < share <= 1.0:
        raise SettingsError(
            f"the share of a GPU is {share:g}, must be above 0 and at most 1",
            hint="--gpus-per-worker 0.5 puts two workers on each GPU",
        )
    gpus = sum(machine.gpus for machine in machines)
    if choice == "cuda" and not gpus:
        raise ClusterError("device is 'cuda', but there is no GPU", hint="use --device cpu")
    cores, on_cpu = max(machine.cores for machine in machines), choice == "cpu" or not gpus
    if on_cpu and not cores:
        raise ClusterError("device is 'cpu', but there is no CPU core", hint="use --device cuda")
    most = max(1, cores)
    if threads is not None and not 1 <= threads <= most:
        raise SettingsError(f"threads is {threads}, must be between 1 and {most} (cores)")
    if not on_cpu:
        return _gpu_workers(workers, machines, share, threads)
    nodes = [machine.cores for machine in machines]
    able = sum(cores >= (threads or 1) for cores in nodes)
    count = able if workers is None else workers
    if threads is None:
        _check_count(count, sum(nodes), "CPU cores there are")
        return Devices("cpu", count, _threads(count, nodes))
    limit = sum(cores // threads for cores in nodes)
    _check_count(count, limit, f"workers with {threads} threads that the CPU cores make")
    return Devices("cpu", count, threads)


def grown(devices: Devices, machines: Sequence[Machine], first: Collection[Machine]) -> Devices:
    """Return the workers for the machines there are now: one more a GPU or machine that joined.

    Parameters
    ----------
    devices : Devices
        The workers at the start.
    machines : sequence of Machine
        The machines at present.
    first : collection of Machine
        The machines at the start.
    """
    if devices.kind == "cuda":
        count = sum(map(devices.fitting, machines))
    else:
        names = {machine.name for machine in first}
        stayed = [machine for machine in machines if machine.name in names]
        count = len(placed(devices, stayed))
        count += sum(each.name not in names and devices.fitting(each) > 0 for each in machines)
    return replace(devices, workers=max(devices.workers, count))


def placed(devices: Devices, machines: Iterable[Machine], taken: Sequence[str] = ()) -> list[str]:
    """Return the machines on which workers are to be started, the emptiest first.

    Parameters
    ----------
    devices : Devices
        The workers.
    machines : iterable of Machine
        The machines at present.
    taken : sequence of str
        The machine of each worker that runs already.
    """
    load = Counter(taken)
    room = {machine.name: devices.fitting(machine) - load[machine.name] for machine in machines}
    chosen: list[str] = []
    while len(chosen) + len(taken) < devices.workers and any(free > 0 for free in room.values()):
        name = min((name for name, free in room.items() if free > 0), key=lambda name: load[name])
        chosen.append(name)
        room[name] -= 1
        load[name] += 1
    return chosen


def _gpu_workers(
    workers: int | None, machines: Sequence[Machine], share: float, threads: int | None
) -> Devices:
    most = sum(_shares(machine, share) for machine in machines)
    count = most if workers is None else workers
    _check_count(count, most, "GPUs there are" if share == 1 else f"shares of {share:g} GPU")
    fair = min(
        machine.cores // min(count, _shares(machine, share)) for machine in machines if machine.gpus
    )
    return Devices("cuda", count, threads or max(1, fair), share)


def _shares(machine: Machine, share: float) -> int:
    """Return how many workers the GPUs of a machine have room for; none has parts of two."""
    # A third of a GPU, say, has rounding errors.
    return machine.gpus * int(1 / share + 1e-9)


def _check_count(count: int, limit: int, what: str) -> None:
    if not 1 <= count <= limit:
        raise SettingsError(f"workers is {count}, must be between 1 and {limit} ({what})")


def _threads(workers: int, nodes: Sequence[int]) -> int:
    """Return the largest number of threads that all of so many workers can have."""
    fitting = (t for t in range(max(nodes), 1, -1) if sum(n // t for n in nodes) >= workers)
    return next(fitting, 1)


def local_memory() -> int:
    """Return this machine's bytes of memory, used ones included."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
