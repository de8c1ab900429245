"""Kills of the service in mid-survey: nothing is lost or done twice, and every event arrives."""

from __future__ import annotations

import http.server
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

import pytest
from ray.cluster_utils import Cluster

from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.registry.rows import Submission
from catalog.store.reader import run_states
from jobs.planning.definition import Definition, parse_definition
from jobs.run import run_survey
from jobs.runners.local import LocalRunner
from jobs.scan.reporter import Reporter
from jobs.schedules.cron import due_times, new_entry
from jobs.service.driver_state import driver_state
from jobs.service.submissions import submit
from jobs.service_client import ServiceClient
from tests.acceptance.command import measured, start
from tests.acceptance.test_clusters import machines, started
from tests.jobs.jobs import ON_CPU
from tests.waiting import PATIENCE_SECONDS, until


def zoo(**changes: object) -> Definition:
    values = {
        "models": [{"name": "small:digits_*"}],
        "settings": {"images_per_score": 64},
        **changes,
    }
    return parse_definition(values, "zoo", Path("/"))


class Hook(http.server.BaseHTTPRequestHandler):
    """Refuses a third of what it gets, and keeps everything by its id."""

    got: ClassVar[defaultdict[str, list[bytes]]] = defaultdict(list)
    accepted: ClassVar[Counter[str]] = Counter()
    chance = random.Random(3)

    def do_POST(self) -> None:
        body, event = self.rfile.read(int(self.headers["Content-Length"])), "webhook-id"
        self.got[self.headers[event]].append(body)
        refused = self.chance.random() < 0.3
        self.accepted[self.headers[event]] += not refused
        self.send_response(500 if refused else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def hook() -> Iterator[str]:
    Hook.got.clear()
    Hook.accepted.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def batches(home: Home) -> int:
    return sum(state.batches_done for state in run_states(home).values())


def served(
    home: Home, hook: str, log: Path, runner: str = "local", *options: str
) -> subprocess.Popen[str]:
    command = ("serve", "--port", "0", "--runner", runner, "--device", "cpu", "--webhook", hook)
    environment = {"SURVEY_WEBHOOK_SECRET": "0" * 32, "OMP_NUM_THREADS": "1"}
    return start(*command, *options, home=home.path, log=log, **environment)


def driver_of(home: Home) -> int | None:
    state = driver_state(home)
    return int(state.process.split()[1]) if state.state != "absent" else None


#: Kills, and how many in a row may leave no new batch: five drivers without one are given up. Under
#: Ray each comes after a batch: what starts meanwhile takes longer than the pause before a kill.
@pytest.mark.parametrize(
    ("runner", "kills", "most_fruitless"),
    [
        pytest.param("local", 20, 3, marks=pytest.mark.slow(seconds=300)),
        pytest.param("ray", 3, 0, marks=[pytest.mark.slow(seconds=120), pytest.mark.ray]),
    ],
)
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_kills_of_the_service_lose_and_double_nothing(
    tmp_path, hook, runner, kills, most_fruitless
):
    home, alone = (open_home(tmp_path / name, create=True) for name in ("home", "alone"))
    chance, log = random.Random(11), tmp_path / "log"
    began = datetime.now(UTC)
    entry = new_entry(
        *("often", zoo(models=[{"name": "small:digits_vgg7"}]), Path("z")),
        cron="* * * * *",
        timezone="UTC",
        missed="all",
        overlap="queue",
    )
    with Registry(home) as registry:
        schedule = registry.schedules.add(entry, began)
        submission = submit(registry, zoo())
        service = served(home, hook, log, runner)
        fruitless, seen, victims = 0, 0, Counter[str]()
        for _ in range(kills):
            until(lambda: driver_state(home).state in ("running", "idle"))
            if fruitless >= most_fruitless:
                until(lambda last=seen: batches(home) > last or not registry.submissions.open())
            time.sleep(chance.uniform(0.0, 3.0))
            fruitless = 0 if batches(home) > seen else fruitless + 1
            seen = batches(home)
            victim = chance.choice(["driver", "service", "both"])
            victims[victim] += 1
            driver = driver_of(home)
            if victim != "service" and driver is not None:
                os.kill(driver, signal.SIGKILL)
            if victim != "driver":
                assert service.poll() is None, log.read_text()
                service.kill()
                service.wait()
                service = served(home, hook, log, runner)
            # The next one holds the home once the killed one is gone.
            until(lambda gone=driver: driver_of(home) not in (None, gone))
        until(lambda: not registry.submissions.open())
        _assert_done(registry, submission)
        until(lambda: not registry.schedules.open_ticks(schedule))
        events = {event.id: event for event in registry.events.latest(10_000)}
        until(lambda: all(Hook.accepted[each] for each in events))
        service.terminate()
        assert service.wait(PATIENCE_SECONDS) == 0, log.read_text()
        assert set(Hook.got) >= set(events)
        # What was recorded since may wait for the next service.
        events |= {event.id: event for event in registry.events.latest(10_000)}
        assert set(Hook.got) <= set(events)
        _assert_due_times_once(registry, schedule.name)
    for sent in Hook.got.values():
        assert len(set(sent)) == 1
    causes = Counter((event.kind, event.cause) for event in events.values())
    assert set(causes.values()) == {1}
    run_survey(alone, zoo(), LocalRunner(ON_CPU), Reporter())
    assert measured(home.path) == measured(alone.path)
    # With -s: how often each was killed, and how often events were sent.
    sent_again = sum(len(bodies) - 1 for bodies in Hook.got.values())
    sys.stdout.write(f"killed {dict(victims)}; {len(events)} events, {sent_again} sent again\n")


def _assert_done(registry: Registry, submission: Submission) -> None:
    # The reason of a failure is seen, not only that there was one.
    over = registry.submissions.named(submission.id)
    assert (over.state, over.reason) == ("done", None)


def _assert_due_times_once(registry: Registry, name: str) -> None:
    """Every minute since the schedule was added has one row, which ran, and one event."""
    schedule = registry.schedules.named(name)
    coming = due_times(schedule.cron, schedule.timezone, schedule.created_at)
    wanted = list(takewhile(lambda moment: moment <= schedule.settled_at, coming))
    ticks = sorted(registry.schedules.ticks(schedule), key=lambda tick: tick.due_at)
    assert [tick.due_at for tick in ticks] == wanted
    # The last may have fallen due when the service was told to stop.
    done = [tick for tick in ticks if tick.state == "done"]
    assert len(done) >= len(ticks) - 1
    ends = [e for e in registry.events.latest(10_000) if e.cause.startswith("schedule")]
    assert len([e for e in ends if e.kind in ("finished", "failed")]) == len(done)


def text_of(log: Path) -> str:
    return log.read_text() if log.exists() else ""


@pytest.mark.slow(seconds=90)
@pytest.mark.long
def test_two_services_a_run_and_ticks_on_one_home_lose_nothing(tmp_path, hook):
    home = open_home(tmp_path / "home", create=True)
    logs = [tmp_path / "first", tmp_path / "second"]
    with Registry(home) as registry:
        run = start("run", *("-m", "small:digits_*", "--runner", "local"), home=home.path)
        until(lambda: batches(home))
        # Until both look: on a busy machine it could end before they have started.
        run.send_signal(signal.SIGSTOP)
        submission = submit(registry, zoo(models=[{"name": "small:digits_vgg7"}]))
        services = [served(home, hook, log) for log in logs]
        until(lambda: "waits: another scan is writing to the home" in "".join(map(text_of, logs)))
        until(lambda: "another service drives this home" in "".join(map(text_of, logs)))
        run.send_signal(signal.SIGCONT)
        assert run.communicate(timeout=PATIENCE_SECONDS)
        assert run.returncode == 0
        until(lambda: not registry.submissions.open())
        _assert_done(registry, submission)
        entry = new_entry(
            *("often", zoo(models=[{"name": "small:digits_vgg7"}]), Path("z")),
            cron="*/10 * * * *",
            timezone="UTC",
        )
        schedule = registry.schedules.add(entry, datetime.now(UTC) - timedelta(minutes=11))
        ticks = [start("schedule", "tick", "--runner", "local", home=home.path) for _ in range(2)]
        for tick in ticks:
            tick.communicate(timeout=PATIENCE_SECONDS)
            assert tick.returncode == 0
        until(lambda: not registry.schedules.open_ticks(schedule))
        assert registry.schedules.ticks(schedule)[0].state == "done"
        ends = [e for e in registry.events.latest(99) if e.cause.startswith("schedule")]
        assert len(ends) == 1
        # The second service takes over.
        first = next(i for i, log in enumerate(logs) if "drives this home" not in text_of(log))
        services[first].kill()
        services[first].wait()
        until(lambda: "this service drives the home" in text_of(logs[1 - first]))
        services[1 - first].terminate()
        assert services[1 - first].wait(PATIENCE_SECONDS) == 0


@pytest.mark.slow(seconds=60)
@pytest.mark.long
def test_a_service_that_is_told_to_stop_keeps_the_batches_and_the_queue(tmp_path, hook):
    home, log = open_home(tmp_path / "home", create=True), tmp_path / "log"
    with Registry(home) as registry:
        submission = submit(registry, zoo())
        service = served(home, hook, log)
        until(lambda: batches(home) > 2)
        service.terminate()
        assert service.wait(PATIENCE_SECONDS) == 0, log.read_text()
        assert driver_state(home).state == "absent"
        waiting, kept = registry.submissions.named(submission.id), batches(home)
        assert (waiting.state, waiting.reason) == ("queued", "interrupted")
        service = served(home, hook, log)
        until(lambda: batches(home) > kept)
        service.terminate()
        assert service.wait(PATIENCE_SECONDS) == 0, log.read_text()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of one machine that runs whether or not a service asks for it."""
    yield from machines(0)


@pytest.mark.slow(seconds=90)
@pytest.mark.long
@pytest.mark.ray
def test_a_survey_runs_on_the_cluster_that_was_there_also_when_its_driver_dies(
    tmp_path, hook, cluster
):
    home, alone = (open_home(tmp_path / name, create=True) for name in ("home", "alone"))
    log, models = tmp_path / "log", [{"name": f"small:digits_{each}"} for each in ("vgg7", "vgg9")]
    service = served(home, hook, log, "ray", "--address", cluster.address)
    until(lambda: "listening at" in log.read_text())
    client = ServiceClient(re.findall(r"listening at (\S+)", log.read_text())[0])
    settings = {"images_per_score": 32}
    number = client.submit({"models": models, "settings": settings}).id
    until(lambda: batches(home))
    (raylet,) = (each.process.pid for each in cluster.head_node.all_processes["raylet"])
    with Registry(home) as registry:
        (worker,) = started(registry)
        assert parent_of(worker) == raylet
        driver = driver_of(home)
        assert driver is not None
        os.kill(driver, signal.SIGKILL)
        *_, over = client.until_over(number)
        assert (over.state, over.measured, over.failed) == ("done", 2, 0)
        attempts = [len(registry.attempts.of(job.key)) for job in registry.jobs()]
    assert driver_of(home) not in (None, driver)
    assert max(attempts) > 1
    service.terminate()
    assert service.wait(PATIENCE_SECONDS) == 0, log.read_text()
    # The cluster outlives the service, and keeps none of its workers.
    assert parent_of(raylet)
    until(lambda: not Path(f"/proc/{worker}").exists())
    run_survey(alone, zoo(models=models, settings=settings), LocalRunner(ON_CPU), Reporter())
    assert measured(home.path) == measured(alone.path)
