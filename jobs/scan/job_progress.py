"""The progress of one job of a scan: its durable batches, and the attempts at the others."""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter, deque
from collections.abc import Iterable
from datetime import UTC, datetime

from catalog.store.records import BatchRecord, NetworkRecord, RunState
from jobs.planning.job import Job
from jobs.planning.measures import missing_measures
from jobs.runners.events import Finished, Started
from jobs.runners.task import Shard, Task
from jobs.scan.shards import remaining_shards
from survey.stopping import Spread

#: What a batch adds to the counts over all batches of a run.
_SUMMED = ("images", "labelled", "top1_hits", "top5_hits", "seconds")


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
        self.job = job
        #: The counts over its durable batches.
        self.state = state or RunState()
        self.sites = self.state.sites
        #: The last attempt; before the first one begins, the last that wrote rows.
        self.attempt = self.state.attempt
        #: Whether its run was finished before, and lacks measures of the whole network alone.
        self.complete = self.state.status == "done"
        self.waiting = deque(self._shards())
        #: Those measures that no running attempt computes.
        self.measures = missing_measures(job.measures, self.state.measures)
        #: The attempt that computes the others, and whether it has loaded the network for them.
        self._measuring, self._loaded = 0, False
        #: Workers lost in each of them, and the images at once that the next attempt takes.
        self.measure_losses: Counter[str] = Counter()
        self.measure_micro_batch = 0
        #: The running attempts, each with the batches it has still to measure.
        self.running: dict[int, Shard] = {}
        #: Workers lost in a row without a new durable batch or measure.
        self.losses = losses
        #: Attempts that made one durable: losing their workers does not count against the job.
        self.progressed: set[int] = set()
        #: Images in one forward pass of the newest attempt; 0 before the first.
        self.micro_batch = 0
        #: How many fitted after more did not, on any device; None where all did.
        self.fitting: int | None = None
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

    def begin(self, attempt: int, deadline: float | None) -> Task:
        """Give the next waiting shard to an attempt."""
        shard = self.waiting.popleft()
        self.attempt = max(self.attempt, attempt)
        self.running[attempt] = shard
        self.workers = max(self.workers, len(self.running))
        # A copy: the worker adds every batch to its own, and so does ``add_batch`` to this one.
        spread = copy.deepcopy(self.spread)
        measures, self.measures = self.measures, ()
        if measures:
            self._measuring, self._loaded = attempt, False
        sizes = self.measure_micro_batch
        return Task(self.job, attempt, shard, self.micro_batch, deadline, spread, measures, sizes)

    def start(self, event: Started) -> None:
        """Note that a worker loaded the model."""
        self.started = self.started or event
        self.began = self.began or datetime.now(UTC)
        self._loaded = self._loaded or event.attempt == self._measuring

    def halve(self, left: int) -> None:
        """Note that memory was not enough for more images in one forward pass than are left."""
        self.micro_batch = self.fitting = left

    def add_batch(self, record: BatchRecord) -> None:
        """Count a batch."""
        shard = self.running[record.attempt]
        self.running[record.attempt] = dataclasses.replace(
            shard, first=record.batch.batch + 1, position=record.end_position
        )
        state, batch = self.state, record.batch
        counts = {name: getattr(state, name) + getattr(batch, name) for name in _SUMMED}
        self.state = dataclasses.replace(state, batches_done=state.batches_done + 1, **counts)
        self._skip(record.skipped_names)
        self._progress(record.attempt)
        fitted = [size for size in (self.micro_batch, record.micro_batch) if size]
        self.micro_batch = min(fitted, default=0)
        if affinities := record.affinities:
            self.sites = self.sites or len(affinities)
            self.spread.add(affinities)

    def add_network(self, record: NetworkRecord) -> None:
        """Note the measures of the whole network."""
        measures = {name: score.version for name, score in record.scores.items()}
        measures = {**self.state.measures, **measures}
        self.state = dataclasses.replace(self.state, measures=measures)
        self._progress(record.attempt)
        self.measure_micro_batch = 0

    def measuring(self, attempt: int) -> str | None:
        """Return the measure of the whole network that an attempt is at; None if at none."""
        if attempt != self._measuring or not self._loaded:
            return None
        return next(iter(missing_measures(self.job.measures, self.state.measures)), None)

    def lose_in(self, measure: str, most: int) -> bool:
        """Count a worker lost in a measure; return whether as many were as may be.

        The next attempt has half as many images at once, and the last one a single image: what
        kills a worker is mostly the memory.
        """
        self.measure_losses[measure] += 1
        left = most - self.measure_losses[measure]
        present = self.measure_micro_batch or self.micro_batch
        self.measure_micro_batch = 1 if left == 1 else max(1, present // 2)
        return left <= 0

    def finish(self, event: Finished) -> None:
        """End an attempt, and the job if no shard is left."""
        del self.running[event.attempt]
        self.losses = 0
        self._skip(event.skipped_names)
        if event.peak_memory is not None:
            self.peak_memory = max(self.peak_memory or 0, event.peak_memory)
        self.closed = not self.running and not self.waiting

    def give_back(self, attempt: int) -> None:
        """Let another attempt continue where this one stopped."""
        self.waiting.appendleft(self.running.pop(attempt))
        if self._measuring == attempt:
            self.measures = missing_measures(self.job.measures, self.state.measures)

    def close(self) -> list[int]:
        """Ignore further events; return the attempts that were running."""
        attempts = list(self.running)
        self.running.clear()
        self.waiting.clear()
        self.closed = True
        return attempts

    def _progress(self, attempt: int) -> None:
        self.losses = 0
        self.progressed.add(attempt)

    def _shards(self) -> list[Shard]:
        if not self.complete:
            return remaining_shards(self.state.done)
        # No batch is measured again and no image is read: the network is only loaded.
        return [Shard(0, 0)]

    def _skip(self, names: tuple[str, ...]) -> None:
        skipped = (*self.state.skipped_names, *names)
        self.state = dataclasses.replace(
            self.state, skipped_names=skipped, skipped_images=len(skipped)
        )
