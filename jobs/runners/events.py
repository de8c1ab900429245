"""Events: the frozen values that travel from a worker to the writer.

Every event names its run and the attempt that sent it: events of an attempt that was given up are
recognised by its number and ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.store.records import BatchRecord, NetworkRecord

if TYPE_CHECKING:
    from survey.linearising.results import TrainingState


@dataclass(frozen=True, slots=True)
class Host:
    """The process and the device that a worker computes on."""

    #: ``cpu`` or ``cuda``.
    device: str
    #: The device's model name.
    device_name: str
    #: Threads torch computes with.
    threads: int
    #: The machine.
    hostname: str
    #: The process on that machine.
    pid: int


@dataclass(frozen=True, slots=True)
class _OfAttempt:
    """An event of one attempt at a run."""

    run_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Started(_OfAttempt):
    """The model is loaded and about to be measured."""

    host: Host
    #: Trainable and other parameters.
    parameters: int
    #: Billions of multiply-accumulates for one image.
    gflops: float
    #: Keys of the checkpoint that were left out.
    dropped_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Skipped(_OfAttempt):
    """An image could not be decoded and was left out."""

    #: The image's name in the dataset.
    name: str
    #: Why it could not be decoded.
    reason: str


@dataclass(frozen=True, slots=True)
class Measuring(_OfAttempt):
    """How far a measure of the whole network is that reads images."""

    #: Its name.
    measure: str
    #: The part of its work that is done, from 0 to 1.
    fraction: float


@dataclass(frozen=True, slots=True)
class Halved(_OfAttempt):
    """The memory was not enough; the batch is measured again with smaller forward passes."""

    #: Images in one forward pass from now on.
    micro_batch: int
    #: The device that ran out of memory.
    device_name: str
    message: str
    #: The measure of the whole network that is computed again, which alone has smaller passes; None
    #: for a batch.
    measure: str | None = None


@dataclass(frozen=True, slots=True)
class Trained(_OfAttempt):
    """A pass over the training images is done."""

    #: What the training needs to go on from here.
    state: TrainingState
    #: What the pass took.
    seconds: float


@dataclass(frozen=True, slots=True)
class NetworkLinearised(_OfAttempt):
    """What is left of a network after the last pass: plain values by name."""

    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Finished(_OfAttempt):
    """Every image of the shard was measured, or as many as the precision needs."""

    #: Names of the images after the last batch that could not be decoded.
    skipped_names: tuple[str, ...] = ()
    #: The most bytes the worker held on its device, while it computed measures left out.
    peak_memory: int | None = None


@dataclass(frozen=True, slots=True)
class Failed(_OfAttempt):
    """The job cannot be done: another attempt would fail again."""

    #: The stage it failed in: ``build``, ``load``, ``data``, ``measure``, ``train`` or ``worker``.
    stage: str
    message: str
    hint: str | None
    traceback: str
    #: Whether the file of weights is not the one that was planned: it may be planned anew.
    changed_weights: bool = False


@dataclass(frozen=True, slots=True)
class Lost(_OfAttempt):
    """The worker died; another one may continue the job."""

    message: str
    #: Whether it died for lack of memory.
    of_memory: bool = False


@dataclass(frozen=True, slots=True)
class Returned(_OfAttempt):
    """The attempt never began: its worker ended during an earlier task."""


#: Batches and measures of the network are sent as the records that the store writes.
Event = (
    Started
    | Measuring
    | NetworkRecord
    | BatchRecord
    | Skipped
    | Halved
    | Trained
    | NetworkLinearised
    | Finished
    | Failed
    | Lost
    | Returned
)
