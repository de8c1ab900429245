"""A schedule's life drawn from a seed: processes that look at the same due times at once."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from catalog.home import Home
from catalog.registry.claims import ProcessIdentity, Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import Tick
from jobs.schedules.cron import new_entry
from jobs.schedules.tick import look
from tests.jobs.jobs import declared

STEPS = 30
BEGIN = datetime(2026, 11, 2, 8, 30, tzinfo=UTC)


def live(home: Home, seed: int) -> None:
    """Let three processes look and take what is due, each by what it read last."""
    chance, now, runs = random.Random(seed), BEGIN, Counter[datetime]()
    with Registry(home) as registry:
        schedules = registry.schedules
        entry = new_entry("hourly", declared(), Path("zoo.toml"), cron="0 * * * *", timezone="UTC")
        schedule = schedules.add(entry, BEGIN)
        read: dict[int, list[Tick]] = {0: [], 1: [], 2: []}
        running: list[Tick] = []
        for _ in range(STEPS):
            now += timedelta(minutes=chance.randint(0, 50))
            process = chance.randrange(3)
            match chance.choice(("look", "look", "take", "take", "settle")):
                case "look":
                    look(schedules, now)
                    ticks = schedules.open_ticks(schedule)
                    read[process] = [tick for tick in ticks if tick.state == "waiting"]
                case "take" if read[process]:
                    identity = ProcessIdentity("here", process, str(process))
                    lease = now + timedelta(hours=9)
                    if taken := schedules.take(read[process][0], identity, now, lease):
                        runs[taken.due_at] += 1
                        running.append(taken)
                case "settle" if running:
                    assert schedules.settle(running.pop(), Settlement("done"), now)
    assert max(runs.values(), default=1) == 1, "a due time was run twice"
