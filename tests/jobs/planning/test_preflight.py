"""Whether machines and disks have room: jobs that cannot work are refused, tight memory warned."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest
import torch

from jobs.planning.capacity import (
    BARE_BYTES,
    memory_bytes,
    pixel_bytes,
    require_room,
    row_bytes,
    tight_memory,
)
from jobs.planning.estimate import History, Measured
from jobs.planning.worker_layout import Devices, Machine, local_memory
from jobs.run import run_survey
from jobs.runners.local import LocalRunner
from jobs.scan.reporter import Reporter
from survey.errors import CapacityError
from tests.catalog.homes import new_home
from tests.jobs.jobs import ON_CPU, declared, job

GB = 10**9
TWO_WORKERS = Devices("cpu", 2, 1)
Usage = namedtuple("Usage", "total used free")


class Warned(Reporter):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warned(self, warning: str) -> None:
        self.warnings.append(warning)


def machine(memory: int, cores: int = 2) -> Machine:
    return Machine("m", cores, 0, memory)


def test_what_a_network_took_before_counts_more_than_any_guess():
    one = job(model="torchvision:vgg16")
    guess = memory_bytes(one, History())
    # 138.4 million parameters, held twice while they are loaded.
    assert guess > BARE_BYTES + 8 * 138_000_000
    history = History(
        [Measured(one.full_name, 1.0, 10, 1.0, peak_memory=peak) for peak in (3, 5, 4)]
    )
    assert memory_bytes(one, history) == 5


def test_decoded_images_are_counted_once_for_jobs_that_share_them():
    one, other = job(), job(model="small:cifar_resnet14")
    assert pixel_bytes([one]) == one.images * 3 * one.transform.size**2
    assert pixel_bytes([one, other]) == pixel_bytes([one])
    assert row_bytes([one, other], {}) > row_bytes([one], {}) > 0


def test_weights_that_no_machine_can_hold_are_refused_before_anything_starts(tmp_path):
    home = new_home(tmp_path / "home")
    jobs = [job(), job(model="torchvision:vgg16")]
    with pytest.raises(CapacityError, match=r"vgg16.*1\.29 GB.*1 GB"):
        require_room(home, jobs, {}, TWO_WORKERS, [machine(GB), machine(GB // 2)])
    require_room(home, jobs, {}, TWO_WORKERS, [machine(GB), machine(2 * GB)])
    # The larger machine has no core for a worker with so many threads.
    with pytest.raises(CapacityError):
        require_room(home, jobs, {}, Devices("cpu", 1, 2), [machine(GB), machine(2 * GB, cores=1)])
    # A machine whose memory is unknown is tried.
    require_room(home, jobs, {}, TWO_WORKERS, [machine(GB), machine(0)])


def test_a_disk_without_room_for_the_rows_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    home = new_home(tmp_path / "home")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(GB, GB - 100, 100))
    with pytest.raises(CapacityError, match="100 bytes"):
        run_survey(home, declared(), LocalRunner(ON_CPU), Reporter())


def test_workers_that_may_need_more_than_their_machine_has_give_a_warning():
    jobs = [job(), job(model="torchvision:vgg16")]
    each = memory_bytes(jobs[1], History())
    warning = tight_memory(jobs, History(), TWO_WORKERS, [machine(2 * each - 1)])
    assert warning is not None
    assert "vgg16" in warning
    assert "--workers" in warning
    assert tight_memory(jobs, History(), TWO_WORKERS, [machine(2 * each)]) is None
    assert tight_memory(jobs, History(), TWO_WORKERS, [machine(0)]) is None
    # Only a worker knows what its GPU has left.
    gpu = Machine("g", 2, 2, 1)
    assert tight_memory(jobs, History(), Devices("cuda", 2, 1), [gpu]) is None


@pytest.mark.slow(seconds=2)
def test_a_scan_warns_of_tight_memory_and_goes_on(tmp_path: Path):
    runner, reporter = LocalRunner(ON_CPU), Warned()
    assert runner.machines[0].memory == local_memory() > GB
    runner.machines = [Machine("here", 2, 0, BARE_BYTES + 10**7)]
    home = new_home(tmp_path / "home")
    assert run_survey(home, declared(), runner, reporter).done
    assert "cifar_resnet8" in reporter.warnings[-1]


@pytest.mark.parametrize("memory", [GB, 2 * GB])
def test_a_job_that_cannot_be_loaded_needs_no_room(tmp_path: Path, memory: int):
    torch.save({}, tmp_path / "other.pth")
    runner = LocalRunner(ON_CPU)
    runner.machines = [machine(memory)]
    wrong = declared(f"file:{tmp_path}/other.pth", model="torchvision:vgg16")
    reporter = Warned()
    outcome = run_survey(new_home(tmp_path / "home"), wrong, runner, reporter)
    ((_, failure),) = outcome.failed
    assert failure.stage == "load"
    # That it cannot be loaded, and nothing of its memory.
    assert len(reporter.warnings) == 1
