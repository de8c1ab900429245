"""The accounts of a scan's jobs, kept in step with the stores.

What workers say is made durable before anybody hears of it: rows through the writer first, then
attempts in the registry, each in one go for all that was said at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from catalog.registry.registry import (
    AttemptEnd,
    AttemptOutcome,
    AttemptStart,
    AttemptWorker,
    JobState,
    Registry,
)
from catalog.store.records import BatchRecord, RunRecord
from catalog.store.writer import Writer
from jobs.planning.job import Job
from jobs.runners.base import Word
from jobs.runners.events import BatchDone, Event, Failed, Finished, Halved, Lost, Returned, Started
from jobs.runners.task import Task
from jobs.scan.job_log import append, described
from jobs.scan.job_progress import Account, names_of
from jobs.scan.run_record import record_of


class Ledger:
    """The accounts of a scan's jobs.

    Parameters
    ----------
    writer : Writer
        Takes rows.
    registry : Registry
        Takes jobs and attempts.
    logs : pathlib.Path
        The folder of the jobs' logs.
    most_losses : int
        Workers a job may lose in a row before it is parked.
    """

    def __init__(self, writer: Writer, registry: Registry, logs: Path, most_losses: int) -> None:
        self._writer, self._registry, self._logs = writer, registry, logs
        self._most_losses = most_losses
        self.accounts: dict[str, Account] = {}
        self._pages = _Pages()

    def open(self, account: Account) -> None:
        """Take an account in."""
        self.accounts[account.job.run_id] = account

    def begin(self, accounts: Sequence[Account], deadline: float | None) -> tuple[Task | None, ...]:
        """Begin an attempt at the next part of each of some accounts; None of a cancelled job."""
        starts = [AttemptStart(each.job.key, "starting", after=each.attempt) for each in accounts]
        attempts = self._registry.start_attempts(starts)
        return tuple(
            None if attempt is None else _task(account, attempt, deadline)
            for account, attempt in zip(accounts, attempts, strict=True)
        )

    def handle(self, words: Iterable[Word]) -> list[Word]:
        """Make what workers say durable and return what it comes to.

        Words of attempts that were given up are left out, and so is the end of a part that is not
        the last one of its job; one loss too many is a failure.
        """
        told = []
        for word in words:
            account = self.accounts[word.event.run_id]
            if not account.is_heard(word.event.attempt):
                continue
            event = self._weighed(account, word.event)
            self._note(account, event)
            append(self._logs, event.run_id, described(event))
            if account.closed or not isinstance(event, Finished):
                told.append(Word(word.worker, event))
        self._turn_page()
        return told

    def withdraw(self, job: Job) -> None:
        """Hear nothing of a job any more: somebody cancelled it."""
        account = self.accounts[job.run_id]
        for attempt in account.close():
            self._pages.end(account, attempt, "interrupted", "cancelled", leaves="cancelled")
        self._turn_page()
        append(self._logs, job.run_id, "cancelled")

    def _weighed(self, account: Account, event: Event) -> Event:
        """Return a loss as a failure if it is one too many."""
        if not isinstance(event, Lost):
            return event
        if event.attempt not in account.progressed:
            account.losses += 1
        if event.of_memory:
            account.micro_batch = max(1, account.micro_batch // 2)
        if account.losses < self._most_losses:
            return event
        message = f"{event.message} ({account.losses} workers lost in a row; parked)"
        hint = "survey log shows its history, survey retry tries again; a smaller --micro-batch"
        return Failed(event.run_id, event.attempt, "worker", message, f"{hint} needs less", "")

    def _note(self, account: Account, event: Event) -> None:
        pages, key = self._pages, account.job.key
        if isinstance(event, Started):
            first = account.started is None
            account.start(event)
            host = event.host
            pages.workers.append(AttemptWorker(key, event.attempt, host.hostname, host.pid))
            if first:
                pages.runs[event.run_id] = record_of(account, "running")
        elif isinstance(event, BatchDone):
            pages.batches.append(_batch_record(account, event))
            account.batch(event)
        elif isinstance(event, Halved):
            self._registry.remember_micro_batch(
                account.job.full_name,
                account.hosts[event.attempt].device_name,
                account.job.transform.size,
                event.micro_batch,
            )
            account.micro_batch = event.micro_batch
        elif isinstance(event, Finished):
            whole = account.finish(event)
            if whole:
                pages.runs[event.run_id] = record_of(account, "done")
            pages.end(account, event.attempt, "done", leaves="done" if whole else "running")
        elif isinstance(event, Failed):
            self._fail(account, event)
        else:
            account.give_back(event.attempt)
            leaves: JobState = "running" if account.parts else "todo"
            if isinstance(event, Returned):
                pages.end(account, event.attempt, "interrupted", "never begun", leaves=leaves)
            else:
                pages.end(account, event.attempt, "lost", event.message, leaves=leaves)

    def _fail(self, account: Account, event: Failed) -> None:
        parked = account.losses >= self._most_losses
        for attempt in account.close():
            outcome: AttemptOutcome = "failed" if attempt == event.attempt else "interrupted"
            self._pages.end(
                account,
                attempt,
                outcome,
                event.message,
                event,
                leaves="parked" if parked else "failed",
            )
        self._pages.runs[event.run_id] = record_of(account, "failed", event)

    def _turn_page(self) -> None:
        pages, self._pages = self._pages, _Pages()
        if pages.runs or pages.batches:
            self._writer.write(runs=list(pages.runs.values()), batches=pages.batches)
        if pages.workers:
            self._registry.describe_attempts(pages.workers)
        if pages.ends:
            self._registry.finish_attempts(pages.ends)
        self._writer.merge_if_due()


@dataclass
class _Pages:
    """What is to be written at once."""

    runs: dict[str, RunRecord] = field(default_factory=dict)
    batches: list[BatchRecord] = field(default_factory=list)
    workers: list[AttemptWorker] = field(default_factory=list)
    ends: list[AttemptEnd] = field(default_factory=list)

    def end(
        self,
        account: Account,
        attempt: int,
        outcome: AttemptOutcome,
        error: str | None = None,
        failure: Failed | None = None,
        *,
        leaves: JobState,
    ) -> None:
        self.ends.append(
            AttemptEnd(
                account.job.key,
                attempt,
                outcome,
                stage=failure.stage if failure else None,
                error=error,
                traceback=failure.traceback if failure else None,
                images_done=account.totals.images,
                progressed=attempt in account.progressed,
                leaves=leaves,
            )
        )


def _task(account: Account, attempt: int, deadline: float | None) -> Task:
    part = account.begin(attempt)
    # Its own copy: who measures takes every batch in, and so does the account when it hears of it.
    spread = copy.deepcopy(account.spread)
    return Task(account.job, attempt, part, account.micro_batch, deadline, spread)


def _batch_record(account: Account, event: BatchDone) -> BatchRecord:
    host = account.hosts[event.attempt]
    return BatchRecord(
        event.run_id,
        event.attempt,
        event.batch,
        event.end_position,
        names_of(event.skipped),
        micro_batch=event.micro_batch,
        threads=host.threads,
        device_name=host.device_name,
        hostname=host.hostname,
    )
