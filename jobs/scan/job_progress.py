"""What is known of one job of a scan: which batches are durable, and who is at the others."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from catalog.store.records import RunState, Span
from jobs.planning.job import Job
from jobs.runners.events import BatchDone, Finished, Host, Skipped, Started
from jobs.runners.task import Part
from jobs.scan.shards import missing
from survey.stopping import Spread


@dataclass
class Totals:
    """Sums over a job's durable batches."""

    batches: int = 0
    images: int = 0
    #: Images whose label fits the network, and those recognised first and among the first five.
    labelled: int = 0
    top1_hits: int = 0
    top5_hits: int = 0
    seconds: float = 0.0
    #: Images that could not be decoded.
    skipped: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, state: RunState) -> Totals:
        """Return the sums over what the store holds."""
        return cls(
            state.batches_done,
            state.images,
            state.labelled,
            state.top1_hits,
            state.top5_hits,
            state.seconds,
            list(state.skipped_names),
        )

    def add(self, event: BatchDone) -> None:
        """Count one more batch."""
        batch = event.batch
        self.batches += 1
        self.images += batch.images
        self.labelled += batch.labelled
        self.top1_hits += batch.top1_hits
        self.top5_hits += batch.top5_hits
        self.seconds += batch.seconds
        self.skipped += names_of(event.skipped)

    @property
    def top1(self) -> float | None:
        """The fraction recognised first; None unless every image had a label."""
        return self.top1_hits / self.images if 0 < self.images == self.labelled else None

    @property
    def top5(self) -> float | None:
        """The fraction among the first five; None unless every image had a label."""
        return self.top5_hits / self.images if 0 < self.images == self.labelled else None


class Account:
    """One job of a scan.

    Parameters
    ----------
    job : Job
        The job.
    state : RunState or None
        What is durable of it.
    scores : iterable of iterable of (int, float or None)
        Sites and affinities of each of its durable batches, in order.
    losses : int
        Workers that earlier scans lost over it, in a row.
    """

    def __init__(
        self,
        job: Job,
        state: RunState | None,
        scores: Iterable[Iterable[tuple[int, float | None]]] = (),
        losses: int = 0,
    ) -> None:
        done: Sequence[Span] = state.done if state else ()
        self.job = job
        self.totals = Totals.of(state) if state else Totals()
        self.sites = state.sites if state else None
        #: The last attempt; before the first one begins, the last that wrote rows.
        self.attempt = state.attempt if state else 0
        self.waiting = deque(missing(done))
        #: Attempts under way: what each has still to do, and what it computes on.
        self.parts: dict[int, Part] = {}
        self.hosts: dict[int, Host] = {}
        #: Workers lost in a row without a new durable batch.
        self.losses = losses
        #: Attempts that made a batch durable: losing their workers does not count against the job.
        self.progressed: set[int] = set()
        self.micro_batch = job.settings.micro_batch
        self.spread = Spread()
        for batch in map(list, scores):
            self.sites = self.sites or len(batch)
            self.spread.add(batch)
        self.started: Started | None = None
        self.began: datetime | None = None
        self.peak_memory: int | None = None
        #: The most workers that were at it at once.
        self.workers = 0
        self.closed = False

    def share_out(self, parts: Iterable[Part]) -> None:
        """Replace what waits by other parts of the same batches."""
        self.waiting = deque(parts)

    def begin(self, attempt: int) -> Part:
        """Give the next waiting part to an attempt."""
        part = self.waiting.popleft()
        self.attempt = max(self.attempt, attempt)
        self.parts[attempt] = part
        self.workers = max(self.workers, len(self.parts))
        return part

    def is_heard(self, attempt: int) -> bool:
        """Tell whether an attempt is under way: a late word of one given up is not heard."""
        return attempt in self.parts and not self.closed

    def start(self, event: Started) -> None:
        """Note what an attempt computes on."""
        self.hosts[event.attempt] = event.host
        self.started = self.started or event
        self.began = self.began or datetime.now(UTC)

    def batch(self, event: BatchDone) -> None:
        """Count a batch."""
        part = self.parts[event.attempt]
        self.parts[event.attempt] = dataclasses.replace(
            part, first=event.batch.batch + 1, position=event.end_position
        )
        self.totals.add(event)
        self.losses = 0
        self.progressed.add(event.attempt)
        self.micro_batch = min(self.micro_batch, event.micro_batch)
        if event.batch.scores:
            self.sites = self.sites or len(event.batch.scores)
            self.spread.add((score.site, score.affinity) for score in event.batch.scores)

    def finish(self, event: Finished) -> bool:
        """End a part and tell whether it was the last one."""
        del self.parts[event.attempt]
        self.totals.skipped += names_of(event.skipped)
        if event.peak_memory is not None:
            self.peak_memory = max(self.peak_memory or 0, event.peak_memory)
        self.closed = not self.parts and not self.waiting
        return self.closed

    def give_back(self, attempt: int) -> None:
        """Let another attempt go on where this one stopped."""
        self.waiting.appendleft(self.parts.pop(attempt))

    def close(self) -> list[int]:
        """Hear no attempt any more and return those that were under way."""
        open_attempts = list(self.parts)
        self.parts.clear()
        self.waiting.clear()
        self.closed = True
        return open_attempts


def names_of(skipped: tuple[Skipped, ...]) -> tuple[str, ...]:
    """Return the names of images that were left out."""
    return tuple(image.name for image in skipped)
