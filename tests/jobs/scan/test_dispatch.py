"""Which worker gets which jobs: order, how many at once, and micro-batches that fitted before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from catalog.registry.registry import Registry
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from jobs.planning.estimate import Estimate
from jobs.planning.holdings import Holdings
from jobs.planning.ordering import ordered
from jobs.planning.plan import make_plan
from jobs.planning.worker_layout import Devices
from jobs.runners.events import Halved, Host, Lost
from jobs.runners.options import Limits
from jobs.scan import dispatch
from jobs.scan.dispatch import TOGETHER, Dispatcher
from jobs.scan.job_progress import JobProgress
from jobs.scan.recorder import Recorder
from survey import SettingsError
from tests.catalog.homes import new_home
from tests.catalog.records import batch
from tests.jobs.jobs import declared, job

HERE = Host("cpu", "a processor", 1, "here", 1)


@pytest.fixture
def scan_of(tmp_path: Path):
    """Make scans of so many jobs, each expected to take so many seconds."""
    home = new_home(tmp_path / "home")
    registry, writers = Registry(home), []

    def make(count: int, seconds: float | Estimate, workers: int = 2) -> Dispatcher:
        definition = declared(*(f"init:{number}" for number in range(count)))
        jobs = make.jobs = make_plan(definition, {}, Holdings()).jobs
        registry.add_jobs(registry.record_survey("test", {}), [each.to_entry() for each in jobs])
        writers.append(Writer.open(home))
        guess = seconds if isinstance(seconds, Estimate) else Estimate(seconds, 1.0, 0)
        expected = {each.run_id: guess for each in jobs}
        devices = Devices("cpu", workers, 1)
        progress = {each.run_id: JobProgress(each, None) for each in jobs}
        recorder = Recorder(progress, writers[-1], registry, home.logs, Limits().losses)
        return Dispatcher(progress, expected, recorder, registry, devices, Limits())

    make.registry = registry
    yield make
    for writer in writers:
        writer.close()
    registry.close()


@pytest.mark.parametrize(("scores", "shards"), [(0.0, 1), (50.0, 1), (1000.0, 4)])
def test_a_job_is_shared_out_by_the_seconds_of_its_scores(scan_of, scores, shards):
    estimate = Estimate(scores + 5000.0, 1.0, 0, {"path_length": 2000.0, "linearisation": 3000.0})
    scan, spans = scan_of(1, estimate, workers=4), []
    while tasks := scan.next_tasks(HERE):
        spans += [(task.shard.first, task.shard.stop) for task in tasks]
    assert len(spans) == shards
    assert [first for first, _ in spans] == [0, *(stop for _, stop in spans[:-1])]


def test_short_jobs_are_given_out_together(scan_of):
    short = scan_of(1000, 0.01)
    assert len(short.next_tasks(HERE)) == TOGETHER


def test_long_jobs_come_alone(scan_of):
    assert len(scan_of(100, 30.0).next_tasks(HERE)) == 1


def test_a_job_cancelled_before_anybody_looked_is_not_begun(scan_of):
    scan = scan_of(3, 30.0)
    first, second, third = scan_of.jobs
    scan_of.registry.set_states([first.key, third.key], "cancelled", ["todo"])
    assert [task.run_id for task in scan.next_tasks(HERE)] == [second.run_id]
    assert scan.next_tasks(HERE) == ()
    assert scan.cancelled == [first, third]
    states = {one.run_id: one.state for one in scan_of.registry.jobs()}
    assert [states[job.run_id] for job in (first, second, third)] == [
        *("cancelled", "running", "cancelled")
    ]


def test_a_scan_whose_jobs_are_all_cancelled_is_over(scan_of, monkeypatch):
    monkeypatch.setattr(dispatch, "CANCEL_SECONDS", 0.0)
    scan = scan_of(2, 30.0)
    first, second = scan_of.jobs
    (task,) = scan.next_tasks(HERE)
    scan.handle([Lost(task.run_id, task.attempt, "the worker's machine was lost")])
    scan_of.registry.set_states([first.key], "cancelled", ["todo"])
    assert not scan.is_over()
    scan_of.registry.set_states([second.key], "cancelled", ["todo"])
    assert scan.is_over()
    assert scan.cancelled == [first, second]


def test_fewer_jobs_are_given_out_together_as_they_run_out(scan_of):
    scan, sizes = scan_of(40, 0.01), []
    while tasks := scan.next_tasks(HERE):
        sizes.append(len(tasks))
    assert sum(sizes) == 40
    assert sizes == sorted(sizes, reverse=True)
    assert (sizes[0], sizes[-1]) == (5, 1)


def test_a_job_that_lost_its_worker_goes_alone(scan_of):
    scan = scan_of(400, 0.01)
    first, *_ = scan.next_tasks(HERE)
    scan.handle([Lost(first.run_id, first.attempt, "the worker died")])
    (again,) = scan.next_tasks(HERE)
    assert (again.run_id, again.attempt) == (first.run_id, first.attempt + 1)


def test_a_batch_of_another_part_forgets_a_loss_that_came_with_it(scan_of):
    scan = scan_of(1, Estimate(1000.0, 1.0, 0), workers=4)
    (first,), (second,) = scan.next_tasks(HERE), scan.next_tasks(HERE)
    lost = Lost(first.run_id, first.attempt, "the worker died")
    row = BatchRecord(second.run_id, second.attempt, batch(second.shard.first), 64)
    scan.handle([lost, row])
    (kept,) = scan_of.registry.jobs()
    assert kept.losses == 0


def test_every_job_is_given_out_once(scan_of):
    scan, seen = scan_of(50, 0.3), []
    while tasks := scan.next_tasks(HERE):
        seen += [task.run_id for task in tasks]
    assert len(seen) == len(set(seen)) == 50


def test_what_fitted_before_is_where_a_job_begins(scan_of):
    scan_of.registry.remember_micro_batch("small:cifar_resnet8", "a processor", 32, 16)
    (task,) = scan_of(1, 30.0).next_tasks(HERE)
    assert task.micro_batch == 16


def test_what_fits_is_remembered_within_a_scan(scan_of):
    scan = scan_of(4, 30.0, workers=1)
    sizes = []
    for left, measure in ((32, None), (8, "path_length"), (64, None), (1, None)):
        (task,) = scan.next_tasks(HERE)
        sizes.append(task.micro_batch)
        halved = Halved(task.run_id, task.attempt, left, HERE.device_name, "memory", measure)
        scan.handle([halved])
    assert sizes == [64, 32, 32, 32]


def test_another_device_has_its_own_memory(scan_of):
    scan_of.registry.remember_micro_batch("small:cifar_resnet8", "another", 32, 16)
    (task,) = scan_of(1, 30.0).next_tasks(HERE)
    assert task.micro_batch == 64


def test_a_worker_killed_for_memory_goes_on_with_half(scan_of):
    scan = scan_of(1, 30.0)
    (task,) = scan.next_tasks(HERE)
    scan.handle([Lost(task.run_id, task.attempt, "low on memory", of_memory=True)])
    (again,) = scan.next_tasks(HERE)
    assert (task.micro_batch, again.micro_batch) == (64, 32)


def test_a_job_that_moves_to_another_kind_of_device_has_its_images_in_a_pass(scan_of):
    scan, gpu = scan_of(1, 30.0), dataclasses.replace(HERE, device="cuda", device_name="a GPU")
    sizes = []
    for host, of_memory in ((gpu, False), (HERE, True), (gpu, False)):
        (task,) = scan.next_tasks(host)
        sizes.append(task.micro_batch)
        scan.handle([Lost(task.run_id, task.attempt, "gone", of_memory=of_memory)])
    # What was too many on one is not tried on the other.
    assert sizes == [512, 64, 32]


def test_groups_of_the_same_images_stand_together_the_longest_first():
    jobs = [
        dataclasses.replace(job(), dataset_fingerprint=images, checkpoint_sha256=str(number))
        for number, images in enumerate("abab")
    ]
    seconds = dict(zip((each.run_id for each in jobs), (1.0, 5.0, 3.0, 2.0), strict=True))
    order = [each.checkpoint_sha256 for each in ordered(jobs, seconds)]
    assert order == ["1", "3", "2", "0"]


@pytest.mark.parametrize(("deadline", "losses"), [(0.0, 3), (-1.0, 3), (None, 0)])
def test_limits_that_allow_nothing_are_refused(deadline, losses):
    with pytest.raises(SettingsError):
        Limits(deadline, losses)
