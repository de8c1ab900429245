"""Preflight checks: whether disk and memory suffice for the jobs.

Jobs that cannot work are refused. Where memory may become tight a scan warns and starts: the
numbers are estimates, and a worker that runs out of memory halves its micro-batch.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence

from catalog.home import Home
from catalog.models.cost_table import counted
from catalog.store.records import RunState
from jobs.planning.estimate import History, scores_left
from jobs.planning.job import Job
from jobs.planning.ordering import pixels_of
from jobs.planning.worker_layout import Devices, Machine, placed
from survey.errors import CapacityError
from survey.text import format_bytes

#: Bytes a worker holds before it has a network, and for each pixel of a forward pass; rough, and
#: used only for networks that were never measured.
BARE_BYTES, PIXEL_BYTES = 700 * 2**20, 768

#: Bytes of one row of the store, with its share of indices.
ROW_BYTES = 300


def require_room(
    home: Home,
    jobs: Sequence[Job],
    states: Mapping[str, RunState],
    devices: Devices,
    machines: Sequence[Machine],
) -> None:
    """Refuse jobs whose rows the disk cannot hold, or whose weights no machine can.

    Decoded images are not counted: without room for them each worker decodes for itself.

    Parameters
    ----------
    home : Home
        The home that keeps the rows.
    jobs : sequence of Job
        The jobs to be measured.
    states : mapping of str to RunState
        The progress of each run.
    devices : Devices
        The workers.
    machines : sequence of Machine
        The machines.

    Raises
    ------
    CapacityError
        If the disk has not room enough for the rows, or a network's weights alone need more memory
        than any machine has.
    """
    rows, free = row_bytes(jobs, states, least=True), shutil.disk_usage(home.path).free
    if rows > free:
        raise CapacityError(
            f"the rows of {len(jobs)} jobs need about {format_bytes(rows)} and the disk of"
            f" {home.path} has {format_bytes(free)} free",
            hint="make room, pass --home on another disk, or measure fewer images with --limit",
        )
    fitting = [machine.memory for machine in machines if devices.fitting(machine)]
    if not jobs or not fitting or 0 in fitting:
        return  # nothing to hold, or the memory of some machine is unknown
    heaviest = max(jobs, key=_least_bytes)
    if _least_bytes(heaviest) > max(fitting):
        raise CapacityError(
            f"{heaviest.title} needs at least {format_bytes(_least_bytes(heaviest))} of memory, and"
            f" no machine has more than {format_bytes(max(fitting))}",
            hint="add a larger machine, or leave this network out",
        )


def tight_memory(
    jobs: Sequence[Job], history: History, devices: Devices, machines: Sequence[Machine]
) -> str | None:
    """Return a warning where the workers of one machine may need more memory than it has.

    Of workers on the CPU only: the free memory of a GPU is known to its workers alone.
    """
    if devices.kind != "cpu" or not jobs:
        return None
    heaviest = max(jobs, key=lambda job: memory_bytes(job, history))
    each = memory_bytes(heaviest, history)
    places = placed(devices, machines)
    for machine in machines:
        workers = places.count(machine.name)
        if machine.memory and workers * each > machine.memory:
            return (
                f"{heaviest.title} may take {format_bytes(each)} a worker, and a machine with"
                f" {workers} of them has {format_bytes(machine.memory)}: fewer --workers or a"
                " smaller --micro-batch needs less"
            )
    return None


def memory_bytes(job: Job, history: History) -> int:
    """Return the bytes a worker may hold: the most it held before, else an estimate."""
    known = history.memory_by_network.get(job.full_name)
    if known is not None:
        return known
    pixels = job.settings.pass_images(accelerator=False) * job.transform.size**2
    # Weights are held twice while they are loaded.
    return _least_bytes(job) + 4 * _parameters(job) + PIXEL_BYTES * pixels


def pixel_bytes(jobs: Sequence[Job]) -> int:
    """Return the bytes that the decoded images of jobs take on disk, shared ones once."""
    return sum({pixels_of(job): job.images * 3 * job.transform.size**2 for job in jobs}.values())


def row_bytes(jobs: Sequence[Job], states: Mapping[str, RunState], *, least: bool = False) -> int:
    """Return about how many bytes the rows that jobs still lack take in the store.

    Parameters
    ----------
    jobs : sequence of Job
        The jobs.
    states : mapping of str to RunState
        The progress of each run.
    least : bool
        Whether to leave out jobs that stop at a precision, at an unknown batch.
    """
    return ROW_BYTES * sum(
        0 if least and job.settings.precision else scores_left(job, states) for job in jobs
    )


def _least_bytes(job: Job) -> int:
    return BARE_BYTES + 4 * _parameters(job)


def _parameters(job: Job) -> int:
    cost = counted(job.source, job.architecture)
    return cost.parameters if cost else 0
