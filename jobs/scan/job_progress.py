"""The progress of one job of a scan: its durable batches, and the attempts at the others."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from catalog.store.records import BatchRecord, RunState, Span
from jobs.planning.job import Job
from jobs.runners.events import Finished, Started
from jobs.runners.task import Shard
from jobs.scan.shards import remaining_shards
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
        """Return the sums over the batches in the store."""
        return cls(
            state.batches_done,
            state.images,
            state.labelled,
            state.top1_hits,
            state.top5_hits,
            state.seconds,
            list(state.skipped_names),
        )

    def add(self, record: BatchRecord) -> None:
        """Count one more batch."""
        batch = record.batch
        self.batches += 1
        self.images += batch.images
        self.labelled += batch.labelled
        self.top1_hits += batch.top1_hits
        self.top5_hits += batch.top5_hits
        self.seconds += batch.seconds
        self.skipped += record.skipped_names

    @property
    def top1(self) -> float | None:
        """The fraction recognised first; None unless every image had a label."""
        return self.top1_hits / self.images if 0 < self.images == self.labelled else None

    @property
    def top5(self) -> float | None:
        """The fraction among the first five; None unless every image had a label."""
        return self.top5_hits / self.images if 0 < self.images == self.labelled else None


class JobProgress:
    """The progress of one job.

    Parameters
    ----------
    job : Job
        The job.
    state : RunState or None
        Its durable batches; None where there are none.
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
        self.waiting = deque(remaining_shards(done))
        #: The running attempts, each with the batches it has still to measure.
        self.running: dict[int, Shard] = {}
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
        #: The most attempts that ran at once.
        self.workers = 0
        #: Whether the job is over for this scan.
        self.closed = False

    def begin(self, attempt: int) -> Shard:
        """Give the next waiting shard to an attempt."""
        shard = self.waiting.popleft()
        self.attempt = max(self.attempt, attempt)
        self.running[attempt] = shard
        self.workers = max(self.workers, len(self.running))
        return shard

    def start(self, event: Started) -> None:
        """Note that a worker loaded the model."""
        self.started = self.started or event
        self.began = self.began or datetime.now(UTC)

    def add_batch(self, record: BatchRecord) -> None:
        """Count a batch."""
        shard = self.running[record.attempt]
        self.running[record.attempt] = dataclasses.replace(
            shard, first=record.batch.batch + 1, position=record.end_position
        )
        self.totals.add(record)
        self.losses = 0
        self.progressed.add(record.attempt)
        self.micro_batch = min(self.micro_batch, record.micro_batch or self.micro_batch)
        if record.batch.scores:
            self.sites = self.sites or len(record.batch.scores)
            self.spread.add((score.site, score.affinity) for score in record.batch.scores)

    def finish(self, event: Finished) -> None:
        """End an attempt, and the job if no shard is left."""
        del self.running[event.attempt]
        self.totals.skipped += event.skipped_names
        if event.peak_memory is not None:
            self.peak_memory = max(self.peak_memory or 0, event.peak_memory)
        self.closed = not self.running and not self.waiting

    def give_back(self, attempt: int) -> None:
        """Let another attempt continue where this one stopped."""
        self.waiting.appendleft(self.running.pop(attempt))

    def close(self) -> list[int]:
        """Ignore further events; return the attempts that were running."""
        attempts = list(self.running)
        self.running.clear()
        self.waiting.clear()
        self.closed = True
        return attempts
