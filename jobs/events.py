"""What workers say: the frozen values that travel from a worker to the writer."""

from __future__ import annotations

from dataclasses import dataclass

from survey import BatchScores


@dataclass(frozen=True, slots=True)
class Started:
    """The model is loaded and about to be measured."""

    run_id: str
    #: Trainable and other parameters.
    parameters: int
    #: Billions of multiply-accumulates for one image.
    gflops: float
    #: Keys of the checkpoint that were left out.
    dropped_keys: tuple[str, ...]
    #: ``cpu`` or ``cuda``, and the device's own name.
    device: str
    device_name: str
    #: Threads torch computes with.
    threads: int
    #: Where the worker runs.
    hostname: str
    pid: int


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
    batch: BatchScores
    #: Place in the dataset's order after this batch.
    end_position: int
    #: Images up to there that could not be decoded, since the batch before.
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """Every image has been seen."""

    run_id: str
    #: Images after the last batch that could not be decoded.
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """The job cannot be done: running it again would fail again."""

    run_id: str
    #: What it was doing: ``build``, ``load``, ``data``, ``measure`` or ``worker``.
    stage: str
    message: str
    hint: str | None
    traceback: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker died; the job may go on with another one."""

    run_id: str
    message: str


Event = Started | BatchDone | Finished | Failed | Lost
