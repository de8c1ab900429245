"""Batches on their way from forward passes to scores, in order, a few of them at a time.

On a processor each batch is scored before the next one passes: the passes take all cores. On an
accelerator the cores are free: the sites of up to ``AHEAD`` batches are scored by threads, each on
one core, while the next batch passes. What is computed is the same, to the last bit.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from operator import add
from threading import local
from typing import Self

import torch
from torch import nn

from survey.departures import Departure
from survey.device import device_of, is_accelerator
from survey.results import BatchScores, SiteScore
from survey.scoring import score_pair
from survey.settings import MeasureSettings

#: Batches that wait for scores on an accelerator while the next one passes: with one the cores
#: would idle while the last sites of a batch are scored.
AHEAD = 2


@dataclass(frozen=True, slots=True)
class Overlap:
    """How scores and forward passes overlap."""

    #: Threads that score; 0 where the caller's does.
    threads: int = 0
    #: Batches that may wait for scores while the next one passes.
    ahead: int = 0


class _Caller(local):
    """The torch threads of the thread that feeds a device: one while queues are open in it."""

    def __init__(self) -> None:
        self._queues, self._before = 0, 1

    @property
    def threads(self) -> int:
        """Their number where no queue is open."""
        return self._before if self._queues else torch.get_num_threads()

    def take(self) -> None:
        """Leave one."""
        if not self._queues:
            self._before = torch.get_num_threads()
        self._queues += 1
        torch.set_num_threads(1)

    def give_back(self) -> None:
        """Give all back once no queue is open."""
        self._queues -= 1
        if not self._queues:
            torch.set_num_threads(self._before)


_CALLER = _Caller()


def overlap_of(model: nn.Module) -> Overlap:
    """Return how scores and passes of a model overlap, from the device it lies on."""
    if is_accelerator(device_of(model)):
        return Overlap(_CALLER.threads, AHEAD)
    return Overlap()


@dataclass(slots=True)
class PassedBatch:
    """The forward passes of one batch."""

    number: int
    images: int
    #: How many sites are scored: none of a last, partial batch.
    sites: int
    #: When its first image came.
    began: float
    passes: Sequence[Departure]
    settings: MeasureSettings

    def score(self, site: int) -> SiteScore:
        """Return the row of one site."""
        parts = [each.arrived()[0][site] for each in self.passes]
        return score_pair(self.number, site, parts, self.settings)


class ScoreQueue:
    """The batches that have passed and are not scored yet.

    Parameters
    ----------
    overlap : Overlap
        How many may wait, and which threads score them.
    """

    def __init__(self, overlap: Overlap) -> None:
        self._ahead = overlap.ahead
        self._pool = None
        if overlap.threads:
            self._pool = ThreadPoolExecutor(
                overlap.threads, "score", initializer=torch.set_num_threads, initargs=(1,)
            )
        self._waiting: deque[tuple[PassedBatch, list[Future[SiteScore]]]] = deque()
        #: When the last batch was scored.
        self._ended = 0.0

    def __enter__(self) -> Self:
        """Leave one core to the caller's arithmetic where threads score on the others.

        Torch's own threads, one a core, would compete with those that score.
        """
        if self._pool is not None:
            _CALLER.take()
        return self

    def __exit__(self, *exc: object) -> None:
        """Begin no more scores; those that threads compute end unseen."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            _CALLER.give_back()

    def add(self, batch: PassedBatch) -> None:
        """Add a batch, whose sites threads begin to score."""
        pool = self._pool
        begun = [pool.submit(batch.score, site) for site in range(batch.sites)] if pool else []
        self._waiting.append((batch, begun))

    def scored(self, *, every: bool = False) -> Generator[BatchScores]:
        """Yield batches in order: those that are scored, and all but as many as may wait.

        Parameters
        ----------
        every : bool
            Yield all instead.
        """
        ahead = 0 if every else self._ahead
        while self._waiting and (len(self._waiting) > ahead or self._is_next_scored()):
            batch, begun = self._waiting.popleft()
            scores = (
                tuple(score.result() for score in begun)
                if begun
                else tuple(map(batch.score, range(batch.sites)))
            )
            hits = reduce(add, (each.arrived()[1] for each in batch.passes))
            # Of batches that overlap the seconds are counted once.
            began, self._ended = max(batch.began, self._ended), time.perf_counter()
            counts = (hits.labelled, hits.top1, hits.top5, self._ended - began)
            yield BatchScores(batch.number, batch.images, scores, *counts)

    def _is_next_scored(self) -> bool:
        return self._pool is not None and all(score.done() for score in self._waiting[0][1])
