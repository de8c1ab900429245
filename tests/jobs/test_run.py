"""A survey in prose: what a scan makes of lost workers, failures and lost registries."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.progress import Progress as Bars

from catalog.home import Home
from catalog.registry import Registry
from catalog.store import query
from jobs.devices import Devices
from jobs.events import Event, Failed, Finished, Lost
from jobs.local import LocalRunner
from jobs.progress import BarReporter, PlainReporter
from jobs.reporter import SilentReporter
from jobs.run import MOST_ATTEMPTS, run_survey
from jobs.runner import NextJob
from survey import StoreError
from tests.jobs.jobs import declared


class Faulty(LocalRunner):
    """Runs jobs in this process, and loses the worker after so many events, so many times."""

    def __init__(self, losses: int, events: int = 3) -> None:
        super().__init__("cpu")
        self.losses, self.events = losses, events

    def run(self, next_job: NextJob) -> Iterator[tuple[int, Event]]:
        def counted() -> Iterator[tuple[int, Event]]:
            for number, (worker, event) in enumerate(LocalRunner.run(self, once)):
                if self.losses and number == self.events:
                    self.losses -= 1
                    yield worker, Lost(event.run_id, "the worker died")
                    return
                yield worker, event

        while (assignment := next_job()) is not None:
            given = [assignment]

            def once(given: list = given) -> tuple | None:
                return given.pop() if given else None

            yield from counted()


def asked(home: Path, sql: str) -> list[dict]:
    return query(Home.open(home, create=False), sql).to_pylist()


def scan(home: Path, runner: LocalRunner, reporter=None, **changes):
    return run_survey(
        Home.open(home, create=True), declared(**changes), runner, reporter or SilentReporter()
    )


def plain() -> tuple[PlainReporter, io.StringIO]:
    text = io.StringIO()
    return PlainReporter(Console(file=text, width=200)), text


@pytest.mark.parametrize("losses", [1, MOST_ATTEMPTS - 1])
def test_a_lost_job_goes_on_with_another_worker(tmp_path, losses):
    reporter, text = plain()
    outcome = scan(tmp_path / "home", Faulty(losses), reporter)
    assert (len(outcome.done), outcome.failed) == (1, ())
    assert text.getvalue().count("retry") == losses
    assert "[1/1]" in text.getvalue()
    (run,) = asked(tmp_path / "home", "SELECT status, batches, images, attempt FROM runs")
    assert run == {"status": "done", "batches": 8, "images": 1797, "attempt": losses + 1}
    assert asked(tmp_path / "home", "SELECT count(*) AS n FROM batch_scores") == [{"n": 7 * 7}]


def test_a_job_resumed_after_its_last_batch_still_knows_its_sites(tmp_path):
    class Stopped(LocalRunner):
        def run(self, next_job: NextJob) -> Iterator[tuple[int, Event]]:
            yield from itertools.islice(LocalRunner.run(self, next_job), 9)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(tmp_path / "home", Stopped("cpu"))
    scan(tmp_path / "home", LocalRunner("cpu"))
    (run,) = asked(tmp_path / "home", "SELECT sites, status, images, measured_top1 FROM runs")
    assert run.pop("measured_top1") is not None
    assert run == {"sites": 7, "status": "done", "images": 1797}


def test_a_job_that_loses_every_worker_fails(tmp_path):
    reporter, text = plain()
    outcome = scan(tmp_path / "home", Faulty(MOST_ATTEMPTS), reporter)
    ((_, failure),) = outcome.failed
    assert failure.stage == "worker"
    assert text.getvalue().count("retry") == MOST_ATTEMPTS - 1
    assert "failed" in text.getvalue().splitlines()[-1]
    assert "[1/1]" in text.getvalue()
    (run,) = asked(tmp_path / "home", "SELECT status, stage, measured_top1 FROM runs")
    assert run == {"status": "failed", "stage": "worker", "measured_top1": None}
    assert asked(tmp_path / "home", "SELECT * FROM signatures") == []
    again = scan(tmp_path / "home", LocalRunner("cpu"))
    assert len(again.done) == 1


def test_a_lost_registry_does_not_stop_a_run_from_being_finished(tmp_path):
    home = tmp_path / "home"
    scan(home, Faulty(MOST_ATTEMPTS))
    for path in home.glob("registry.sqlite*"):
        path.unlink()
    with pytest.raises(StoreError, match="does not exist"):
        Registry(Home.open(home, create=False))
    scan(home, LocalRunner("cpu"))
    assert asked(home, "SELECT status FROM runs") == [{"status": "done"}]
    assert asked(home, "SELECT count(*) AS n FROM signatures") == [{"n": 7}]


def test_bars_follow_every_job_to_its_end(tmp_path):
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with Bars(console=console) as bars:
        reporter = BarReporter(bars)
        scan(tmp_path / "home", Faulty(1), reporter)
        overall, worker = bars.tasks
        assert (overall.completed, overall.total) == (1, 1)
        assert (worker.completed, worker.total) == (8, 8)


def test_what_is_done_is_not_planned_again(tmp_path):
    scan(tmp_path / "home", LocalRunner("cpu"))

    class Never(LocalRunner):
        def __enter__(self) -> Never:
            raise AssertionError("nothing was to be done")

    outcome = scan(tmp_path / "home", Never("cpu"))
    assert (outcome.done, len(outcome.plan.done)) == ((), 1)


def test_events_say_how_a_scan_ends():
    assert Devices("cpu", 1, 2).torch_device == "cpu"
    assert Devices("cuda", 1, 2).torch_device == "cuda:0"
    assert {Finished, Failed, Lost} <= set(Event.__args__)
