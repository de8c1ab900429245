"""Measures of whole networks asked for with a survey, and added to runs that are measured."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.store.reader import query, run_states
from catalog.store.records import BatchRecord, NetworkRecord
from jobs.operations.preview import forecast
from jobs.operations.status import standing
from jobs.planning import measures as planned_measures
from jobs.planning.definition import Definition, parse_definition
from jobs.planning.estimate import Estimate
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.measures import missing_measures
from jobs.planning.plan import make_plan
from jobs.planning.worker_layout import Devices
from jobs.run import Outcome, run_survey
from jobs.runners import network_measures, pace, worker
from jobs.runners.events import Event, Failed, Finished, Halved, Host, Lost, Measuring, Started
from jobs.runners.heartbeat import Heartbeat
from jobs.runners.images import TaskImages
from jobs.runners.local import LocalRunner
from jobs.runners.options import Limits
from jobs.runners.task import Shard, Task
from jobs.scan import progress_display
from jobs.scan.reporter import Reporter
from survey import SettingsError
from survey.network_measures import MEASURES
from survey.network_measures.base import NetworkScore, SampledMeasure, Steps
from survey.network_measures.sample import ImageSample
from tests.catalog.homes import new_home
from tests.jobs.jobs import ON_CPU

pytestmark = pytest.mark.slow(seconds=18)

QUANTITIES = {"path_length", "path_length_normalised"}


def declared(*measures: str) -> Definition:
    values = {
        "models": [{"name": "small:digits_vgg7"}],
        "datasets": [{"name": "digits[:32]"}],
        "settings": {"images_per_score": 16, "micro_batch": 16},
        "measures": list(measures),
    }
    return parse_definition(values, "test", Path())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path / "home")


def scan(home: Home, *measures: str) -> Outcome:
    return run_survey(home, declared(*measures), LocalRunner(ON_CPU), Reporter())


def rows(home: Home, table: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = query(home, f"SELECT * FROM {table} ORDER BY ALL").to_pylist()
    return content


def lengths(home: Home) -> dict[str, float]:
    return {row["measure"]: row["value"] for row in rows(home, "network_scores")}


def test_a_measure_is_computed_with_the_run_and_not_again(home: Home) -> None:
    first = scan(home, "path_length")
    assert lengths(home) == dict.fromkeys(QUANTITIES, 6.0)
    again = scan(home, "path_length")
    assert (len(first.done), len(again.done), again.plan.todo) == (1, 0, ())
    # Asked for or not, it is the same run.
    assert scan(home).plan.todo == ()


def test_a_measure_is_added_to_a_finished_run_which_stays_as_it_is(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = scan(home).done
    tables = ("runs", "batches", "batch_scores")
    before = {table: rows(home, table) for table in tables}
    plan = forecast(home.path, declared("path_length"))
    assert plan.plan.added == {job.run_id: ("path_length",)}
    (row,) = plan.table().to_pylist()
    assert (row["state"], row["why"]) == ("measures missing", "measures asked for: path_length")
    # No image is read.
    monkeypatch.setattr(TaskImages, "read", None)
    outcome = scan(home, "path_length")
    assert [each.run_id for each in outcome.done] == [job.run_id]
    assert lengths(home) == dict.fromkeys(QUANTITIES, 6.0)
    assert {table: rows(home, table) for table in tables} == before
    assert forecast(home.path, declared("path_length")).plan.todo == ()


def test_values_of_another_version_are_missing() -> None:
    stored = dict.fromkeys(QUANTITIES, MEASURES[0].version)
    assert missing_measures(["path_length"], stored) == ()
    for version in (None, 0):
        others = {**stored, "path_length": version}
        assert missing_measures(["path_length"], others) == ("path_length",)


def test_a_lost_worker_loses_no_measure(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    scan(home)
    attempts: list[tuple[int, tuple[str, ...]]] = []
    whole = worker.run_task

    def dying(task: Task, *rest: Any) -> Iterator[Event]:
        attempts.append((task.attempt, task.measures))
        if len(attempts) == 1:
            yield Lost(task.run_id, task.attempt, "the worker died")
            return
        yield from whole(task, *rest)

    monkeypatch.setattr(worker, "run_task", dying)
    outcome = scan(home, "path_length")
    assert attempts == [(2, ("path_length",)), (3, ("path_length",))]
    assert (len(outcome.done), outcome.failed) == (1, ())
    (state,) = run_states(home).values()
    assert (state.status, set(state.measures)) == ("done", QUANTITIES)


def test_a_failure_while_a_measure_is_added_leaves_the_run_done(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(home)
    before = rows(home, "runs")

    def fail(*_: object) -> Iterator[Event]:
        raise OSError("gone")

    monkeypatch.setattr(worker, "network_measured", fail)
    outcome = scan(home, "path_length")
    assert [failure.message for _, failure in outcome.failed] == ["OSError: gone"]
    assert rows(home, "runs") == before
    assert shown(home) == ("done", "OSError: gone")
    with Registry(home) as registry:
        (job,) = registry.jobs()
        assert (job.state, registry.attempts.of(job.key)[-1].outcome) == ("done", "failed")
    monkeypatch.undo()
    assert len(scan(home, "path_length").done) == 1
    assert shown(home) == ("done", None)


def shown(home: Home) -> tuple[str, str | None]:
    (job,) = standing(home).items
    return job.state, job.error


def test_workers_lost_before_a_measure_is_begun_leave_a_finished_run_to_be_tried_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan(home)
    attempts: list[int] = []

    def dying(task: Task, *_: Any) -> Iterator[Event]:
        attempts.append(task.attempt)
        yield Lost(task.run_id, task.attempt, "the worker died")

    monkeypatch.setattr(worker, "run_task", dying)
    for number in (1, 2):
        outcome = scan(home, "path_length")
        (failure,) = (each for _, each in outcome.failed)
        assert f"{Limits().losses} workers lost" in failure.message
        assert lengths(home) == {}
        # The second scan may lose as many as the first.
        assert len(attempts) == number * Limits().losses
    monkeypatch.undo()
    assert len(scan(home, "path_length").done) == 1


COEFFICIENT = "nonlinearity_coefficient"


def planned(*measures: str) -> Job:
    (job,) = make_plan(declared(*measures), {}, Holdings()).jobs
    return job


def events_of(measures: tuple[str, ...], **changes: Any) -> list[Event]:
    task = Task(planned(*measures), 1, measures=measures, **changes)
    return list(worker.run_task(task, "cpu", 1))


def scores_in(events: list[Event]) -> dict[str, NetworkScore]:
    records = [event for event in events if isinstance(event, NetworkRecord)]
    return {name: score for record in records for name, score in record.scores.items()}


def measure_of(compute: Any, **limits: Any) -> SampledMeasure:
    """Return a measure under the name of the coefficient, of the first ten images."""
    real = next(each for each in MEASURES if each.name == COEFFICIENT)
    return dataclasses.replace(real, compute=compute, images=10, **limits)


def test_a_measure_reads_the_first_images_whatever_the_shard() -> None:
    whole = events_of(("path_length", COEFFICIENT))
    assert [type(event) for event in whole[1:3]] == [NetworkRecord, Measuring]
    kinds = [type(event) for event in whole if not isinstance(event, Measuring)]
    assert kinds[2:] == [NetworkRecord, BatchRecord, BatchRecord, Finished]
    score = scores_in(whole)[COEFFICIENT]
    assert (score.samples, score.version) == (32, 1)
    assert 0.3 < (score.value or 0.0) < 3
    rest = events_of((COEFFICIENT,), shard=Shard(1, None, 16))
    assert scores_in(rest)[COEFFICIENT] == score
    assert [event.batch.batch for event in rest if isinstance(event, BatchRecord)] == [1]


def test_images_that_cannot_be_decoded_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    read = TaskImages.read
    seen: list[ImageSample] = []

    def broken(self: TaskImages, position: int) -> Iterator[Any]:
        for sample in read(self, position):
            yield dataclasses.replace(sample, pixels=None) if sample.position % 2 else sample

    def compute(model: torch.nn.Module, sample: ImageSample) -> Steps:
        seen.append(sample)
        yield 1.0
        return {COEFFICIENT: NetworkScore(1.0)}

    monkeypatch.setattr(TaskImages, "read", broken)
    monkeypatch.setattr(network_measures, "measures_named", lambda _: [measure_of(compute)])
    events_of((COEFFICIENT,))
    monkeypatch.setattr(TaskImages, "read", read)
    events_of((COEFFICIENT,))
    fewer, all_of_them = seen
    assert (len(fewer), len(all_of_them)) == (10, 10)
    assert torch.equal(fewer.images[:5], all_of_them.images[::2])
    assert fewer.labels is not None
    inputs = fewer.inputs(torch.arange(10))
    assert (inputs.dtype, inputs.shape) == (torch.float32, (10, 3, 32, 32))
    assert inputs.min() < -0.5


def test_too_little_memory_computes_a_measure_again_with_fewer_images(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    sizes: list[int] = []

    def scarce(model: torch.nn.Module, sample: ImageSample) -> Steps:
        sizes.append(sample.micro_batch)
        yield 0.5
        if sample.micro_batch > 4:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return {COEFFICIENT: NetworkScore(2.0)}

    monkeypatch.setattr(network_measures, "measures_named", lambda _: [measure_of(scarce)])
    events = events_of((COEFFICIENT,))
    assert sizes == [16, 8, 4]
    halved = [event for event in events if isinstance(event, Halved)]
    assert [(event.micro_batch, event.measure) for event in halved] == [
        (8, COEFFICIENT),
        (4, COEFFICIENT),
    ]
    # Batches and later runs have the passes that were asked for.
    assert {e.micro_batch for e in events if isinstance(e, BatchRecord)} == {16}
    scan(home, COEFFICIENT)
    assert lengths(home) == {COEFFICIENT: 2.0}
    assert {row["micro_batch"] for row in rows(home, "batches")} == {16}
    with Registry(home) as registry:
        assert registry.micro_batches() == {}


def starved(*_: object) -> Steps:
    yield 0.5
    raise MemoryError("no room")


def test_what_has_no_room_for_one_image_has_a_reason_and_the_run_its_scores(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    monkeypatch.setattr(network_measures, "measures_named", lambda _: [measure_of(starved)])
    outcome = scan(home, COEFFICIENT)
    assert (len(outcome.done), outcome.failed) == (1, ())
    (row,) = rows(home, "network_scores")
    assert (row["value"], row["status"]) == (None, "undefined")
    assert "one image at once: MemoryError: no room" in row["reason"]
    assert [row["images"] for row in rows(home, "batches")] == [16, 16]
    assert {row["micro_batch"] for row in rows(home, "batches")} == {16}
    # It is not tried again and again.
    assert scan(home, COEFFICIENT).plan.todo == ()


def test_a_measure_that_kills_its_workers_is_given_up_and_the_run_is_not(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    asked: list[tuple[int, tuple[str, ...]]] = []
    whole = worker.run_task

    def dying(task: Task, *rest: Any) -> Iterator[Event]:
        asked.append((task.measure_micro_batch, task.measures))
        for event in whole(task, *rest):
            yield event
            if isinstance(event, Measuring) and event.measure == COEFFICIENT:
                yield Lost(task.run_id, task.attempt, "killed for memory", of_memory=True)
                return

    monkeypatch.setattr(worker, "run_task", dying)
    outcome = scan(home, "path_length", COEFFICIENT)
    both_of_them, second = ("path_length", COEFFICIENT), (COEFFICIENT,)
    assert asked == [(0, both_of_them), (8, second), (1, second), (0, ())]
    assert (len(outcome.done), outcome.failed) == (1, ())
    values = {row["measure"]: row["value"] for row in rows(home, "network_scores")}
    assert values == {**dict.fromkeys(QUANTITIES, 6.0), COEFFICIENT: None}
    reasons = {row["reason"] for row in rows(home, "network_scores")} - {None}
    assert len(reasons) == 1
    assert "killed for memory" in reasons.pop()
    # The batches have the passes that were asked for.
    assert {row["micro_batch"] for row in rows(home, "batches")} == {16}
    assert scan(home, "path_length", COEFFICIENT).plan.todo == ()
    with Registry(home) as registry:
        assert [(job.state, job.losses) for job in registry.jobs()] == [("done", 0)]


def test_workers_lost_in_a_measure_do_not_count_against_the_job_in_the_next_scan(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    whole, dying = worker.run_task, Limits().losses - 1

    def killed(task: Task, *rest: Any) -> Iterator[Event]:
        nonlocal dying
        yield next(iter(whole(task, *rest)))
        if not dying:
            raise KeyboardInterrupt
        dying -= 1
        yield Lost(task.run_id, task.attempt, "the worker died")

    monkeypatch.setattr(worker, "run_task", killed)
    with pytest.raises(KeyboardInterrupt):
        scan(home, "path_length")
    with Registry(home) as registry:
        assert [each.losses for each in registry.jobs()] == [0]


def test_a_measure_that_is_stored_begins_the_count_of_lost_workers_anew(
    monkeypatch: pytest.MonkeyPatch, home: Home
) -> None:
    attempts: list[tuple[str, ...]] = []
    whole, most = worker.run_task, Limits().losses

    def dying(task: Task, *rest: Any) -> Iterator[Event]:
        attempts.append(task.measures)
        lasting = len(attempts) == most
        for event in whole(task, *rest):
            if isinstance(event, NetworkRecord) if lasting else len(attempts) < 2 * most:
                if lasting:
                    yield event
                yield Lost(task.run_id, task.attempt, "the worker died")
                return
            yield event

    monkeypatch.setattr(worker, "run_task", dying)
    outcome = scan(home, "path_length")
    assert attempts == [("path_length",)] * most + [()] * most
    assert (len(outcome.done), outcome.failed) == (1, ())


def test_what_a_run_holds_at_most_is_without_its_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(model: torch.nn.Module, sample: ImageSample) -> Steps:
        held = torch.ones(2**27)
        yield 0.5
        return {COEFFICIENT: NetworkScore(held[0].item())}

    def peak(*measures: str) -> int:
        (finished,) = (each for each in events_of(measures) if isinstance(each, Finished))
        assert finished.peak_memory is not None
        return finished.peak_memory

    monkeypatch.setattr(
        network_measures,
        "measures_named",
        lambda names: [measure_of(greedy)] if names else [],
    )
    before = peak()
    assert abs(peak(COEFFICIENT) - before) < 2**28


def test_a_measure_beats_the_heartbeat_reports_and_keeps_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beats: list[int] = []

    def slow(model: torch.nn.Module, sample: ImageSample) -> Steps:
        for part in range(10):
            beats.append(heartbeat.count)
            yield part / 10
        clock.append(60.0)
        yield 1.0
        return {COEFFICIENT: NetworkScore(2.0)}

    heartbeat, clock = Heartbeat(), [0.0]
    monkeypatch.setattr(pace, "monotonic", lambda: clock[-1])
    monkeypatch.setattr(network_measures, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(network_measures, "measures_named", lambda _: [measure_of(slow)])
    task = Task(planned(COEFFICIENT), 1, measures=(COEFFICIENT,), deadline=59.0)
    events = list(worker.run_task(task, "cpu", 1, heartbeat))
    fractions = [event.fraction for event in events if isinstance(event, Measuring)]
    assert fractions == [0.0, *(part / 10 for part in range(10))]
    assert beats == list(range(beats[0], beats[0] + 10))
    assert isinstance(events[-1], Failed)
    assert "deadline" in events[-1].message


def test_a_worker_lost_in_a_later_measure_keeps_the_earlier_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    whole = worker.run_task

    def dying(task: Task, *rest: Any) -> Iterator[Event]:
        asked.append(task.measures)
        for event in whole(task, *rest):
            if len(asked) == 1 and isinstance(event, Measuring):
                yield Lost(task.run_id, task.attempt, "the worker died")
                return
            yield event

    monkeypatch.setattr(worker, "run_task", dying)
    outcome = scan(home, "path_length", COEFFICIENT)
    assert asked == [("path_length", COEFFICIENT), (COEFFICIENT,)]
    assert (len(outcome.done), set(lengths(home))) == (1, {*QUANTITIES, COEFFICIENT})


def test_a_plan_states_what_measures_cost(home: Home) -> None:
    (before,) = forecast(home.path, declared()).table().to_pylist()
    (row,) = forecast(home.path, declared("path_length", COEFFICIENT)).table().to_pylist()
    assert (before["measures"], before["measure_seconds"]) == (None, None)
    assert row["measures"] == f"path_length, {COEFFICIENT}"
    assert row["measure_seconds"] > 0
    assert row["seconds"] == pytest.approx(before["seconds"] + row["measure_seconds"], abs=0.11)


def test_a_measure_that_would_not_end_is_refused_with_another_in_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limited = measure_of(None, most_size=16, alternative="a_quick_one")
    monkeypatch.setattr(planned_measures, "MEASURES", (limited,))
    with pytest.raises(SettingsError, match="up to 16 pixels, not at 32") as caught:
        planned(COEFFICIENT)
    assert "a_quick_one" in str(caught.value.hint)
    assert planned("path_length").measures == ("path_length",)


@pytest.mark.parametrize("bars", [False, True])
def test_a_scan_shows_what_measures_cost_and_how_far_they_are(
    monkeypatch: pytest.MonkeyPatch, *, bars: bool
) -> None:
    monkeypatch.setattr(progress_display, "PLAIN_INTERVAL_SECONDS", 0.0)
    job, host = planned(COEFFICIENT), Host("cpu", "processor", 1, "machine", 7)
    text = io.StringIO()
    console = Console(file=text, force_terminal=bars, width=200, color_system=None)
    with progress_display.progress_reporter(console) as reporter:
        guess = Estimate(90.0, 1.3, 32, {"path_length": 2.0, COEFFICIENT: 58.0})
        reporter.started(Devices("cpu", 1, 1), {job.run_id: guess})
        reporter.event(job, Started(job.run_id, 1, host, 1, 1.0, ()))
        reporter.event(job, Measuring(job.run_id, 1, COEFFICIENT, 0.4))
        reporter.event(job, Halved(job.run_id, 1, 8, "processor", "no room", COEFFICIENT))
    lines = text.getvalue()
    assert "measures of 1 whole network: about 60 s each" in lines
    assert f"{job.title}: {COEFFICIENT} 40%" in lines
    assert f"{job.title}: micro-batch 8 in {COEFFICIENT}" in lines
