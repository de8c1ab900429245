"""Sweeps of linearisations: jobs, lost workers, kills within a training, and bad input."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from torch import nn

from catalog.home import Home
from catalog.linearisations import read_result, state_path, write_result
from catalog.models.memory import held
from catalog.open_home import open_home
from catalog.training_checkpoints import load_training
from jobs.linearisation import (
    LOSSES,
    linearisation_table,
    linearisations,
    planned_linearisations,
    run_linearisations,
)
from jobs.planning.holdings import Holdings
from jobs.planning.linearisation import LinearisationJob, LinearisationSweep, _share_images
from jobs.planning.training_cost import _seconds_a_step
from jobs.runners.base import TaskSource
from jobs.runners.events import Event, Failed, Lost, Returned, Started, Trained
from jobs.runners.local import LocalRunner
from jobs.runners.options import RunnerOptions
from jobs.runners.worker import run_task
from jobs.runners.worker_host import host_of
from survey import (
    CatalogError,
    CheckpointError,
    DatasetError,
    LinearisationSettings,
    SettingsError,
    StoreError,
    UnknownName,
)
from tests.acceptance.command import start, survey, survey_process

pytestmark = pytest.mark.slow(seconds=30)

#: Last bits depend on the threads.
ON_CPU = RunnerOptions(device="cpu", threads=1)

#: Two images in a step would train for hundreds of steps: a pass here has five.
SETTINGS = LinearisationSettings(epochs=2, plain_epochs=1, images_per_step=25)

FEW = {"train": "digits:train[:125]", "heldout": "digits:heldout[:100]"}


def sweep(**changes: Any) -> LinearisationSweep:
    values: dict[str, Any] = {
        "models": ["small:digits_vgg7"],
        "omegas": [0.02],
        "seeds": [0],
        "beginnings": ["late"],
        "settings": SETTINGS,
        **FEW,
    }
    return LinearisationSweep(**values | changes)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return open_home(tmp_path / "home", create=True)


def ignore(job: LinearisationJob, event: Event, passes: int) -> None:
    pass


def numbers(home: Home, run_id: str) -> tuple[Any, ...]:
    result, state = read_result(home, run_id), load_training(state_path(home, run_id))
    assert result is not None
    assert state is not None
    tensors = {name: each.numpy().tobytes() for name, each in state.tensors.items()}
    return result["top1"], result["path_length"], result["sites"], state.passes, tensors


class Dying:
    """Workers of this process that die after so many passes, task after task."""

    name = "dying"
    devices = LocalRunner(ON_CPU).devices
    machines = LocalRunner(ON_CPU).machines

    def __init__(self, *passes: int) -> None:
        self._passes = list(passes)

    def __enter__(self) -> Dying:
        return self

    def __exit__(self, *exc: object) -> None:
        return None

    def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        import torch

        while tasks := source.next_tasks(host_of(torch.device("cpu"), 1)):
            assert not source.is_over()
            for task in tasks:
                yield from self._attempt(task)
        assert source.is_over()

    def _attempt(self, task: Any) -> Iterator[tuple[Event, ...]]:
        left = self._passes.pop(0) if self._passes else None
        for event in run_task(task, "cpu", 1):
            if left == 0:
                yield (Lost(task.run_id, task.attempt, "the worker died"),)
                # What a dead worker sent before is too late.
                yield (event,)
                return
            yield (event,)
            if isinstance(event, Trained) and left is not None:
                left -= 1


def test_jobs_are_the_product_of_what_is_named_and_passes_are_alike(home: Home) -> None:
    jobs = sweep(omegas=[0.01, 0.02, 0.01], seeds=[0, 1], beginnings=["late", "early"]).jobs(
        Holdings(home)
    )
    assert len({job.run_id for job in jobs}) == len(jobs) == 8
    assert {job.trained.checkpoint.reference for job in jobs} == {"init:0", "init:1"}
    assert all(job.settings.seed == job.trained.checkpoint.seed for job in jobs)
    assert {job.settings.passes for job in jobs} == {3}
    # As many of them have the penalty, too: only when it comes differs.
    assert {
        (job.beginning, *(job.settings.phase(number).penalised for number in range(3)))
        for job in jobs
    } == {("late", False, True, True), ("early", True, True, False)}
    (trained,) = sweep(checkpoint="bundled").jobs(Holdings(home))
    assert (trained.settings.plain_epochs, trained.settings.epochs) == (0, 2)


def test_a_training_goes_on_where_its_worker_was_lost_to_the_same_numbers(
    home: Home, tmp_path: Path
) -> None:
    whole = open_home(tmp_path / "whole", create=True)
    for each, runner in ((whole, LocalRunner(ON_CPU)), (home, Dying(1, 0, 1))):
        planned, trained = planned_linearisations(each, sweep()), []

        def note(job: LinearisationJob, event: Event, passes: int) -> None:
            if isinstance(event, Trained):
                trained.append(passes)  # noqa: B023 - called in this round alone

        assert not run_linearisations(each, planned, runner, note)
        # No pass is trained twice.
        assert trained == [1, 2, 3]
    run_id = planned[0].job.run_id
    assert numbers(home, run_id) == numbers(whole, run_id)
    (done,) = planned_linearisations(home, sweep())
    assert done.result is not None
    # Nothing is trained again: the runner is not even entered.
    assert not run_linearisations(home, [done], None, ignore)  # type: ignore[arg-type]


def test_a_training_that_loses_too_many_workers_fails_and_the_others_go_on(home: Home) -> None:
    planned = planned_linearisations(home, sweep(seeds=[0, 1]))
    seen: list[Event] = []
    failed = run_linearisations(
        home, planned, Dying(*[0] * LOSSES), lambda job, event, passes: seen.append(event)
    )
    assert [job.run_id for job, _ in failed] == [planned[0].job.run_id]
    assert [type(event) for event in seen if isinstance(event, (Lost, Failed))] == [
        *[Lost] * (LOSSES - 1),
        Failed,
    ]
    # What came of an attempt after its end is not reported.
    assert {event.run_id for event in seen if isinstance(event, Started)} == {planned[1].job.run_id}
    first, second = linearisations(home, [each.job for each in planned])
    assert (first.result, first.passes) == (None, 0)
    assert second.result is not None


def test_a_training_that_was_returned_is_given_out_again(home: Home) -> None:
    class Returning(Dying):
        def _attempt(self, task: Any) -> Iterator[tuple[Event, ...]]:
            if task.attempt <= 5:
                yield (Returned(task.run_id, task.attempt),)
            else:
                yield from super()._attempt(task)

    planned = planned_linearisations(home, sweep())
    assert not run_linearisations(home, planned, Returning(), ignore)
    assert read_result(home, planned[0].job.run_id) is not None


def test_the_table_has_what_was_trained_and_what_is_left(home: Home) -> None:
    planned = planned_linearisations(home, sweep(seeds=[0, 1]))
    run_linearisations(home, planned[:1], LocalRunner(ON_CPU), ignore)
    rows = linearisation_table(planned_linearisations(home, sweep(seeds=[0, 1]))).to_pylist()
    assert [row["state"] for row in rows] == ["done", "todo"]
    done, todo = rows
    result = read_result(home, done["run_id"])
    assert result is not None
    assert done["shape"] == " ".join(f"{s['active']}/{s['channels']}" for s in result["sites"])
    shares = [s["active"] / s["channels"] for s in result["sites"]]
    assert done["path_length"] == pytest.approx(sum(shares))
    assert done["path_length_normalised"] == pytest.approx(sum(shares))
    assert result["full_path_length"] == pytest.approx(6.0)
    assert todo["top1"] is None
    assert todo["seconds"] > 0


def test_a_killed_command_goes_on_within_a_training(tmp_path: Path) -> None:
    command = (
        *("linearise", "--runner", "local", "--threads", "1", "--beginning", "late"),
        *("--epochs", "6", "--plain-epochs", "1", "--images-per-step", "25", "--omega", "0.02"),
        *("--train", FEW["train"], "--heldout", FEW["heldout"], "--json"),
    )
    killed = tmp_path / "killed"
    process = start(*command, home=killed)
    while not (states := list((killed / "linearisations").glob("*.safetensors"))):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    before = load_training(states[0])
    assert before is not None
    assert len(before.passes) < 7
    (row,) = json.loads(survey(*command, home=killed).stdout)
    survey(*command, home=tmp_path / "whole")
    assert row["state"] == "done"
    homes = (Home(killed), Home(tmp_path / "whole"))
    assert numbers(homes[0], row["run_id"]) == numbers(homes[1], row["run_id"])


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.slow(seconds=60)
def test_workers_of_ray_train_as_this_process_does(tmp_path: Path) -> None:
    command = (
        *("linearise", "--device", "cpu", "--threads", "1", "--epochs", "2", "--plain-epochs", "1"),
        *("--images-per-step", "25", "--train", FEW["train"], "--heldout", FEW["heldout"]),
    )
    survey_process(*command, "--workers", "2", home=tmp_path / "ray")
    survey_process(*command, "--runner", "local", home=tmp_path / "local")
    results = sorted(path.stem for path in (tmp_path / "ray/linearisations").glob("*.json"))
    assert len(results) == 2
    for run_id in results:
        assert numbers(Home(tmp_path / "ray"), run_id) == numbers(Home(tmp_path / "local"), run_id)


def test_networks_without_weights_of_their_own_are_planned(home: Home) -> None:
    few = ("--model", "small:cifar_resnet8", "--train", FEW["train"], "--heldout", FEW["heldout"])
    planned = survey("linearise", *few, "--plan", "--runner", "local", "--json", home=home.path)
    rows = json.loads(planned.stdout)
    assert [(row["beginning"], row["state"]) for row in rows] == [
        ("late", "todo"),
        ("early", "todo"),
    ]
    assert all(row["seconds"] > 0 for row in rows)


def test_the_time_of_a_training_is_a_network_s_whatever_weights_it_brings() -> None:
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    with held(network, size=8, classes=2) as name:
        assert _seconds_a_step(name, (3, 8, 8), 2) > 0


def test_the_key_holds_the_code_and_no_sign_of_zero(home: Home) -> None:
    (job,) = sweep(omegas=[0.0, -0.0]).jobs(Holdings(home))
    trained = dataclasses.replace(job.trained, code_sha256="0" * 64)
    assert dataclasses.replace(job, trained=trained).key != job.key


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion-mnist"])
def test_the_parts_of_a_dataset_may_train_and_judge(name: str) -> None:
    # The name alone stands for the test images.
    assert not _share_images(f"{name}:train[:9]", name)
    assert _share_images(f"{name}[:9]", name)


def test_bad_input_is_refused_before_anything_is_trained(home: Home, tmp_path: Path) -> None:
    holdings = Holdings(home)
    pictures = tmp_path / "pictures"
    for number in range(20):
        folder = pictures / f"{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(folder / f"{number}.png")
    with pytest.raises(UnknownName):
        sweep(models=["small:digits_vgg8"]).jobs(holdings)
    with pytest.raises(CatalogError):
        sweep(train="digits:trained").jobs(holdings)
    with pytest.raises(SettingsError, match="initial weights"):
        sweep(checkpoint="bundled", beginnings=["early"]).jobs(holdings)
    with pytest.raises(SettingsError, match="trained on"):
        sweep(heldout=FEW["train"]).jobs(holdings)
    for train, heldout in (("digits", "digits:heldout"), ("digits:train[:9]", "digits:train[:8]")):
        with pytest.raises(SettingsError, match="share"):
            sweep(train=train, heldout=heldout).jobs(holdings)
    # A link and another spelling are the same images.
    with pytest.raises(SettingsError, match="share"):
        sweep(train=f"folder:{pictures}", heldout=f"folder:{pictures}/../pictures").jobs(holdings)
    for wrong in (
        ("--omega", "-1"),
        ("--checkpoint", ""),
        ("--epochs", str(2**63)),
        ("--beginning", "soon"),
        ("--epochs", "0"),
        ("--seed", "-1"),
    ):
        ended = survey("linearise", *wrong, "--runner", "local", home=home.path, code=2)
        assert wrong[1] in ended.stderr
    assert not home.linearisations.exists()


@pytest.mark.parametrize("option", ["--train", "--heldout"])
@pytest.mark.parametrize("plan", [(), ("--plan",)], ids=["run", "plan"])
def test_images_without_labels_are_refused_and_leave_nothing(
    option: str, plan: tuple[str, ...], home: Home
) -> None:
    command = ("linearise", option, "random[:50]", *plan, "--runner", "local")
    ended = survey(*command, home=home.path, code=2)
    assert "random[:50] has 0 classes" in ended.stderr
    assert "10 outputs" in ended.stderr
    assert not home.linearisations.exists()


def test_classes_and_weights_that_are_not_the_network_s_are_refused(
    home: Home, tmp_path: Path
) -> None:
    import torch

    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(2):
            picture = Image.new("RGB", (32, 32), (number, 0, 0))
            picture.save(tmp_path / "pets" / name / f"{number}.png")
    with pytest.raises(DatasetError, match="2 classes, and small:digits_vgg7 has 10 outputs"):
        sweep(heldout=f"folder:{tmp_path / 'pets'}").jobs(Holdings(home))
    torch.save({"weight": torch.zeros(1)}, tmp_path / "other.pt")
    with pytest.raises(CheckpointError, match="does not fit small:digits_vgg7"):
        sweep(checkpoint=f"file:{tmp_path / 'other.pt'}").jobs(Holdings(home))


def test_damaged_results_and_states_are_named(home: Home) -> None:
    (planned,) = planned_linearisations(home, sweep())
    home.linearisations.mkdir()
    write_result(home, {"run_id": planned.job.run_id})
    path = home.linearisations / f"{planned.job.run_id}.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError, match=path.name):
        planned_linearisations(home, sweep())
    path.write_text("[]", encoding="utf-8")
    with pytest.raises(StoreError, match=path.name):
        read_result(home, planned.job.run_id)


def test_two_sweeps_do_not_write_at_once(home: Home) -> None:
    from filelock import FileLock

    planned = planned_linearisations(home, sweep())
    home.linearisations.mkdir()
    with (
        FileLock(home.linearisations / "writer.lock"),
        pytest.raises(StoreError, match="another survey linearise"),
    ):
        run_linearisations(home, planned, LocalRunner(ON_CPU), ignore)
