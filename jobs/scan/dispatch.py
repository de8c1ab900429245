"""The jobs of one scan: which wait, who gets which, and what became of them."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Mapping

from catalog.registry.registry import Registry
from jobs.planning.devices import Devices
from jobs.planning.job import Job
from jobs.runners.base import Word
from jobs.runners.events import Failed, Finished, Host, Lost, Returned, Started
from jobs.runners.options import Limits
from jobs.runners.task import Task
from jobs.scan.job_progress import Account
from jobs.scan.recorder import Ledger
from jobs.scan.shards import pieces, split

#: A worker gets several jobs at once while they are expected to take less than this each, in
#: seconds, and together no more than so many, and at most so many of them.
SHORT_SECONDS, TOGETHER_SECONDS, TOGETHER = 1.0, 10.0, 32

#: How often the registry is asked whether somebody cancelled a job.
CANCEL_SECONDS = 2.0


class Scan:
    """The work of a runner, and what comes of it.

    Parameters
    ----------
    accounts : iterable of Account
        The jobs that are to be done, in the order they are to be given out.
    seconds : mapping of str to float
        What each may take, by run id.
    ledger : Ledger
        Takes what workers say.
    registry : Registry
        Knows what was cancelled, and what did not fit into memory before.
    devices : Devices
        The workers.
    limits : Limits
        What jobs are allowed.
    """

    def __init__(
        self,
        accounts: Iterable[Account],
        seconds: Mapping[str, float],
        ledger: Ledger,
        registry: Registry,
        devices: Devices,
        limits: Limits,
    ) -> None:
        self.done: list[Job] = []
        self.failed: list[tuple[Job, Failed]] = []
        self.cancelled: list[Job] = []
        self._ledger, self._registry, self._limits = ledger, registry, limits
        self._seconds, self._workers = seconds, devices.workers
        self._fitting = registry.micro_batches()
        self._pace = _Pace()
        self._alone: set[str] = set()
        self._asked = time.monotonic()
        accounts = list(accounts)
        total = sum(seconds[account.job.run_id] for account in accounts)
        for account in accounts:
            ledger.open(account)
            if limits.split and account.job.settings.precision is None:
                _spread(account, seconds[account.job.run_id], total, devices.workers)
        #: An entry for each waiting part of each job.
        self._waiting = deque(account for account in accounts for _ in account.waiting)

    def job(self, run_id: str) -> Job:
        """Return a job of the scan."""
        return self._ledger.accounts[run_id].job

    def next_tasks(self, host: Host) -> tuple[Task, ...]:
        """Return what a free worker is to do next; see ``Work``."""
        while chosen := self._choose(host):
            begun = self._ledger.begin(chosen, self._limits.deadline)
            for account, task in zip(chosen, begun, strict=True):
                if task is None:
                    self._withdraw(account)
            if tasks := tuple(task for task in begun if task is not None):
                return tasks
        return ()

    def _choose(self, host: Host) -> list[Account]:
        """Return the next account that waits, or several whose jobs are short."""
        chosen: list[Account] = []
        most = self._together()
        seconds = 0.0
        while self._waiting and len(chosen) < most:
            account = self._waiting[0]
            if account.closed or not account.waiting:
                self._waiting.popleft()
                continue
            takes = self._takes(account)
            if chosen and (takes > SHORT_SECONDS or seconds + takes > TOGETHER_SECONDS):
                break
            seconds += takes
            chosen.append(self._waiting.popleft())
            self._fit(account, host)
        return chosen

    def withdrawn(self, run_id: str) -> bool:
        """Tell whether a run is not wanted any more; see ``Work``."""
        self._ask_for_cancelled()
        return self._ledger.accounts[run_id].closed

    def handle(self, words: Iterable[Word]) -> list[Word]:
        """Make what workers say durable, and return what is to be told of it."""
        told = []
        for word in self._ledger.handle(words):
            event, account = word.event, self._ledger.accounts[word.event.run_id]
            if isinstance(event, Started):
                self._pace.begin(event.run_id)
            elif isinstance(event, Finished):
                self._pace.end(event.run_id, self._seconds[event.run_id])
                self.done.append(account.job)
            elif isinstance(event, Failed):
                self.failed.append((account.job, event))
            elif isinstance(event, (Lost, Returned)):
                self._waiting.appendleft(account)
            if isinstance(event, Lost):
                # A worker that died may have died of it: it goes alone.
                self._alone.add(event.run_id)
            if not isinstance(event, Returned):
                told.append(word)
        return told

    def _together(self) -> int:
        """Return how many tasks a worker may get at once: fewer when they run out."""
        return max(1, min(TOGETHER, math.ceil(len(self._waiting) / (4 * self._workers))))

    def _takes(self, account: Account) -> float:
        run_id = account.job.run_id
        return math.inf if run_id in self._alone else self._seconds[run_id] * self._pace.factor

    def _fit(self, account: Account, host: Host) -> None:
        """Begin with forward passes that fitted this network on this device before."""
        job = account.job
        known = self._fitting.get((job.full_name, host.device_name, job.transform.size))
        if known is not None:
            account.micro_batch = min(account.micro_batch, known)

    def _ask_for_cancelled(self) -> None:
        if time.monotonic() - self._asked < CANCEL_SECONDS:
            return
        self._asked = time.monotonic()
        cancelled = self._registry.cancelled_keys()
        for account in self._ledger.accounts.values():
            if account.job.key in cancelled:
                self._withdraw(account)

    def _withdraw(self, account: Account) -> None:
        """Take a job out that somebody cancelled."""
        if not account.closed:
            self._ledger.withdraw(account.job)
            self.cancelled.append(account.job)


class _Pace:
    """How the time that jobs took compares with what was expected of them."""

    def __init__(self) -> None:
        self._began: dict[str, float] = {}
        self._taken = self._expected = 0.0

    def begin(self, run_id: str) -> None:
        self._began.setdefault(run_id, time.monotonic())

    def end(self, run_id: str, expected: float) -> None:
        self._taken += time.monotonic() - self._began.pop(run_id, time.monotonic())
        self._expected += expected

    @property
    def factor(self) -> float:
        return self._taken / self._expected if self._expected else 1.0


def _spread(account: Account, seconds: float, total: float, workers: int) -> None:
    """Share a job that is too long for one worker out over several."""
    job = account.job
    batches = job.images // job.settings.images_per_score
    count = pieces(seconds, total, workers)
    account.share_out(
        piece for part in tuple(account.waiting) for piece in split(part, count, batches)
    )
