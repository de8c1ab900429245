"""A scan's life drawn from a seed: workers that die, speak late, and jobs that are cancelled."""

from __future__ import annotations

import math
import random
from itertools import count

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.store.reader import query, run_states
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from jobs.planning.estimate import Estimate
from jobs.planning.job import Job
from jobs.planning.worker_layout import Devices
from jobs.run import progress_of
from jobs.runners.events import Event, Failed, Finished, Host, Lost, Started
from jobs.runners.options import Limits
from jobs.runners.task import Task
from jobs.scan.dispatch import Dispatcher
from jobs.scan.recorder import Recorder
from tests.catalog.records import batch

STEPS, WORKERS = 60, 3
HERE = Host("cpu", "a processor", 1, "here", 1)
ROWS = """
SELECT run_id, batch, any_value(batches.attempt) AS attempt, min(affinity) AS affinity
FROM batches JOIN batch_scores USING (run_id, batch) GROUP BY ALL
"""


class ScanLife:
    """A scan whose workers are drawn, with what must be stored after each event."""

    def __init__(self, home: Home, jobs: list[Job], seed: int) -> None:
        self.home, self.jobs, self.chance = home, jobs, random.Random(seed)
        self.numbers = count(1)
        #: The first job loses every worker.
        self.deadly = jobs[0].run_id
        self.deaths = 0
        #: What was reported, and so must be stored: attempt and affinity by run and batch.
        self.reported: dict[tuple[str, int], tuple[int, float]] = {}
        self.cancelled: set[str] = set()
        #: What each worker is at: its task and the events it has still to send.
        self.working: dict[int, list[Event]] = {}
        #: Events of attempts that were given up.
        self.late: list[Event] = []

    def live(self) -> None:
        """Do so many random things, crash now and then, and look at what is stored."""
        with Registry(self.home) as self.registry:
            survey = self.registry.record_survey("life", {})
            self.registry.add_jobs(survey, [job.to_entry() for job in self.jobs])
            for _ in range(2):
                self._scan()

    def _scan(self) -> None:
        writer = Writer.open(self.home)
        try:
            self.registry.mark_interrupted()
            states = run_states(self.home)
            held = {job.run_id for job in self.registry.jobs() if job.state == "parked"}
            left = [job for job in self.jobs if job.run_id not in held | self.cancelled]
            left = [
                j for j in left if states.get(j.run_id) is None or states[j.run_id].status != "done"
            ]
            progress = progress_of(self.home, self.registry, left, states)
            limits, devices = Limits(), Devices("cpu", WORKERS, 1)
            recorder = Recorder(progress, writer, self.registry, self.home.logs, limits.losses)
            estimates = dict.fromkeys(progress, Estimate(30.0, 1.0, 0))
            self.scan = Dispatcher(progress, estimates, recorder, self.registry, devices, limits)
            self.working, self.late = {}, []
            for _ in range(STEPS):
                deeds = (*(self.work,) * 6, self.lose, self.speak_late, self.cancel)
                self.chance.choice(deeds)()
                if self.chance.random() < 0.1:
                    self._look()
            self._look()
        finally:
            # The process dies: nothing is merged.
            writer._lock.release()

    def work(self) -> None:
        """Let a worker send its next event, or take its next task."""
        worker = self.chance.randrange(WORKERS)
        if events := self.working.get(worker):
            event = events.pop(0)
            if event.run_id == self.deadly and isinstance(event, BatchRecord):
                self._die(worker, event)
            else:
                self._send(event)
        elif tasks := self.scan.next_tasks(HERE):
            self.working[worker] = [event for task in tasks for event in self._events(task)]

    def lose(self) -> None:
        """Lose a worker; what it had still to say may come late."""
        busy = [worker for worker, events in self.working.items() if events]
        if busy:
            worker = self.chance.choice(busy)
            self._die(worker, self.working[worker][0])

    def speak_late(self) -> None:
        """Send an event of an attempt that was given up."""
        if self.late:
            event = self.late.pop(0)
            assert not self.scan.handle([event]), "an event of a given up attempt was believed"

    def cancel(self) -> None:
        """Cancel a job; once that was seen nothing more of it is kept."""
        job = self.chance.choice(self.jobs[1:])
        if self.chance.random() > 0.3 or job.run_id not in self.scan._jobs:
            return
        self.registry.set_states([job.key], "cancelled", ["todo", "running"])
        if job.key in self.registry.cancelled_keys():
            self.scan._asked = -math.inf
            assert self.scan.is_withdrawn(job.run_id)
            self.cancelled.add(job.run_id)

    def _die(self, worker: int, event: Event) -> None:
        given_up = self.working.pop(worker)
        self.late += [each for each in [event, *given_up] if each.run_id == event.run_id]
        if event.run_id == self.deadly and event.run_id not in self.cancelled:
            self.deaths += 1
            assert self.deaths <= Limits().losses, "a job that kills its workers is tried for ever"
        self._send(Lost(event.run_id, event.attempt, "the worker died"))

    def _send(self, event: Event) -> None:
        for reported in self.scan.handle([event]):
            assert reported.run_id not in self.cancelled, "a cancelled job goes on"
            if isinstance(reported, BatchRecord):
                score = reported.batch.scores[0].affinity
                self.reported[reported.run_id, reported.batch.batch] = (reported.attempt, score)
            if isinstance(reported, Failed):
                self.deaths = 0

    def _events(self, task: Task) -> list[Event]:
        job = task.job
        first, stop = task.shard.first, job.images // job.settings.images_per_score
        events: list[Event] = [Started(task.run_id, task.attempt, HERE, 1, 0.1, ())]
        for number in range(first, min(stop, task.shard.stop or stop)):
            record = batch(number, next(self.numbers) / 10000)
            events.append(BatchRecord(task.run_id, task.attempt, record, 64 * (number + 1)))
        return [*events, Finished(task.run_id, task.attempt)]

    def _look(self) -> None:
        rows = query(self.home, ROWS).to_pylist()
        stored = {(r["run_id"], r["batch"]): (r["attempt"], r["affinity"]) for r in rows}
        assert stored == self.reported
