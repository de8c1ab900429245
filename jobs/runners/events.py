"""What workers say: the frozen values that travel from a worker to the writer.

Every event names its run and the attempt that speaks, so that a late word of an attempt given up
is known as such.
"""

from __future__ import annotations

from dataclasses import dataclass

from survey import BatchScores


@dataclass(frozen=True, slots=True)
class Host:
    """What a worker computes on."""

    #: ``cpu`` or ``cuda``, and the device's own name.
    device: str
    device_name: str
    #: Threads torch computes with.
    threads: int
    #: Where the worker runs.
    hostname: str
    pid: int


@dataclass(frozen=True, slots=True)
class Started:
    """The model is loaded and about to be measured."""

    run_id: str
    attempt: int
    host: Host
    #: Trainable and other parameters.
    parameters: int
    #: Billions of multiply-accumulates for one image.
    gflops: float
    #: Keys of the checkpoint that were left out.
    dropped_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped:
    """An image that could not be decoded and was left out."""

    #: Its name in the dataset.
    name: str
    #: What is wrong with it.
    reason: str


@dataclass(frozen=True, slots=True)
class BatchDone:
    """One batch is measured."""

    run_id: str
    attempt: int
    batch: BatchScores
    #: Place in the dataset's order after this batch.
    end_position: int
    #: Images up to there that could not be decoded, since the batch before.
    skipped: tuple[Skipped, ...]
    #: Images in one forward pass.
    micro_batch: int


@dataclass(frozen=True, slots=True)
class Halved:
    """The memory was not enough; the batch is measured again with smaller forward passes."""

    run_id: str
    attempt: int
    #: Images in one forward pass from now on.
    micro_batch: int
    message: str


@dataclass(frozen=True, slots=True)
class Finished:
    """Every image of the part has been seen, or as many as the precision needs."""

    run_id: str
    attempt: int
    #: Images after the last batch that could not be decoded.
    skipped: tuple[Skipped, ...]
    #: Bytes the worker held at most, on its device.
    peak_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The job cannot be done: running it again would fail again."""

    run_id: str
    attempt: int
    #: What it was doing: ``build``, ``load``, ``data``, ``measure`` or ``worker``.
    stage: str
    message: str
    hint: str | None
    traceback: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker died; the job may go on with another one."""

    run_id: str
    attempt: int
    message: str
    #: Whether it died for want of memory.
    of_memory: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """The attempt was never begun: its worker ended while it did something else."""

    run_id: str
    attempt: int


Event = Started | BatchDone | Halved | Finished | Failed | Lost | Returned
