"""A due time is claimed once and taken by one, however many processes look at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from catalog.home import Home
from catalog.registry.claims import ProcessIdentity, Settlement
from catalog.registry.registry import Registry
from catalog.registry.rows import ScheduleEntry
from catalog.registry.schedules import Due

BEGIN = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def test_each_due_time_is_claimed_and_run_once(home: Home) -> None:
    entry = ScheduleEntry("hourly", {}, ".", "zoo.toml", "0 * * * *", "UTC", "all", "queue")
    with Registry(home) as registry:
        registry.schedules.add(entry, BEGIN)

    def look(number: int) -> list[datetime]:
        ran = []
        with Registry(home) as registry:
            schedules = registry.schedules
            for hours in range(1, 4):
                now = BEGIN + hours * HOUR
                schedule = schedules.named("hourly")
                if schedule.settled_at < now:
                    schedules.claim(schedule, [Due(now)], now, now)
                for tick in schedules.open_ticks(schedule):
                    holder = ProcessIdentity("here", number, "it")
                    if tick.state == "waiting" and (
                        taken := schedules.take(tick, holder, now, now + HOUR)
                    ):
                        assert schedules.settle(taken, Settlement("done"), now)
                        ran.append(taken.due_at)
        return ran

    with ThreadPoolExecutor(6) as pool:
        ran = [due for each in pool.map(look, range(6)) for due in each]
    look(6)
    with Registry(home) as registry:
        ticks = registry.schedules.ticks(registry.schedules.named("hourly"))
    assert sorted(each.due_at for each in ticks) == [BEGIN + hours * HOUR for hours in (1, 2, 3)]
    assert {each.state for each in ticks} == {"done"}
    assert len(ran) == len(set(ran))
