"""Plans: which jobs, which of them are done, and what their keys depend on."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch

from catalog.models import find
from catalog.models.base import InputTransform
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.store.records import RunState, Span
from catalog.tags import RunLabels
from jobs.operations.control import move_jobs
from jobs.operations.preview import forecast
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.plan import make_plan
from jobs.run import record_plan
from survey import MEASURING_VERSION, CatalogError, MeasureSettings, SettingsError
from tests.catalog.homes import new_home
from tests.jobs.jobs import IMAGES, declared, job


def planned(values):
    return make_plan(parse_definition(values, "test", Path()), {}, Holdings())


def test_every_model_meets_every_checkpoint_on_every_dataset():
    plan = planned(
        {
            "models": [{"name": "small:cifar_resnet[12]4", "checkpoints": ["init:0", "init:1"]}],
            "datasets": [{"name": "digits"}, {"name": "random"}],
        }
    )
    assert len(plan.jobs) == len({one.key for one in plan.jobs}) == 1 * 2 * 2


def test_what_is_named_twice_is_one_job():
    plan = planned({"models": [{"name": "small:cifar_resnet8", "checkpoints": ["init:0"]}] * 2})
    assert len(plan.jobs) == 1


def test_a_relative_file_is_found_by_workers_in_another_folder(tmp_path, monkeypatch):
    network = find("small:cifar_resnet8")[0].build()
    torch.save(network.state_dict(), tmp_path / "mine.pth")
    monkeypatch.chdir(tmp_path)
    plan = planned({"models": [{"name": "small:cifar_resnet8", "checkpoints": ["file:mine.pth"]}]})
    (one,) = plan.jobs
    assert one.checkpoint.path == tmp_path / "mine.pth"
    assert one.base == tmp_path


def test_a_glob_takes_only_models_that_have_a_checkpoint():
    plan = planned({"models": [{"name": "small:*"}]})
    assert len(plan.jobs) == 8
    assert {one.checkpoint.reference for one in plan.jobs} == {"bundled"}
    explicit = planned({"models": [{"name": "small:*", "checkpoints": ["bundled"]}]})
    assert explicit.jobs == plan.jobs


def test_a_glob_without_any_checkpoint_names_the_choices():
    with pytest.raises(CatalogError, match="bundled") as caught:
        planned({"models": [{"name": "small:cifar_*"}]})
    assert "init:SEED" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "given", [{"mean": [0.5]}, {"std": [0.5]}, {"mean": [0.5, 0.5]}, {"mean": [0.5], "std": [1.0]}]
)
def test_means_of_another_number_of_channels_are_refused(given):
    with pytest.raises(SettingsError, match="channels"):
        planned({"models": [{"name": "small:cifar_resnet8", "checkpoints": ["init:0"], **given}]})


def test_too_few_images_name_the_setting():
    with pytest.raises(SettingsError, match="images_per_score"):
        make_plan(declared(size=2000), {}, Holdings())


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "cifar_plain8"},
        {"source": "other"},
        {"checkpoint_sha256": "0" * 64},
        {"dataset_fingerprint": "0" * 64},
        {"transform": InputTransform(32, 32, mean=(0.5, 0.5, 0.5))},
        {"settings": MeasureSettings(images_per_score=128)},
        {"settings": MeasureSettings(images_per_score=64, ridge="absolute")},
        {"settings": MeasureSettings(images_per_score=64, micro_batch=32)},
        {"settings": MeasureSettings(images_per_score=64, pooling="pre")},
        {"code_sha256": "0" * 64},
    ],
)
def test_the_key_changes_with_what_determines_the_numbers(change):
    one = job()
    # Asked first: a key is kept once it is computed, and must not go over to another job.
    key = one.key
    assert dataclasses.replace(one, **change).key != key == job().key


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "another name"},
        {"base": Path("elsewhere")},
        {"settings": MeasureSettings(images_per_score=64, micro_batch=64)},
    ],
)
def test_the_key_does_not_change_with_names_and_places(change):
    assert dataclasses.replace(job(), **change).key == job().key


@pytest.mark.parametrize(("status", "todo"), [("done", 0), ("running", 1), ("failed", 1)])
def test_only_what_is_done_is_left_out(status, todo):
    state = RunState(status, batches_done=2, done=(Span(0, 2, 512),), images=512)
    plan = make_plan(declared(), {job().run_id: state}, Holdings())
    assert (len(plan.todo), len(plan.jobs)) == (todo, 1)


def test_what_an_older_version_measured_is_measured_again(monkeypatch):
    state = RunState("done", batches_done=8, done=(Span(0, 8, IMAGES),), images=IMAGES)
    with monkeypatch.context() as older:
        older.setattr("jobs.planning.job.MEASURING_VERSION", MEASURING_VERSION - 1)
        states = {job().run_id: state}
        assert make_plan(declared(), states, Holdings()).todo == ()
    assert len(make_plan(declared(), states, Holdings()).todo) == 1


def test_a_golden_key_stays_what_it_is():
    """Whatever setting is added later: this key must not change, or all is measured again.

    It changes with MEASURING_VERSION alone, when numbers move and must be measured again.
    """
    made = dataclasses.replace(
        job(), dataset_fingerprint="d" * 64, checkpoint_sha256="c" * 64,
        settings=MeasureSettings(), transform=InputTransform(32, 32),
    )  # fmt: skip
    assert made.run_id == "17365c758ceb"
    absolute = dataclasses.replace(made, settings=MeasureSettings(ridge="absolute"))
    assert absolute.run_id == "6ae8f84d0ba8"
    chosen = dataclasses.replace(made, settings=MeasureSettings(metrics=("affinity", "cka")))
    assert chosen.run_id not in (made.run_id, absolute.run_id)


def test_the_least_batches_are_named_in_a_key_with_a_precision_alone():
    """Eight were the default once, and ten now: numbers that stopped elsewhere have another key."""

    def key(**settings: float) -> str:
        return dataclasses.replace(job(), settings=MeasureSettings(**settings)).key

    assert key() == key(least_batches=3) == key(least_batches=50)
    assert key(precision=0.1) == key(precision=0.1, least_batches=2)
    assert len({key(), key(precision=0.1), key(precision=0.1, least_batches=12)}) == 3


def test_a_glob_of_files_is_one_job_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for epoch in (10, 2):
        state = {"weight": torch.full((1,), float(epoch))}
        torch.save(state, tmp_path / f"epoch_{epoch}.pth")
    choice = {"name": "small:cifar_resnet8", "checkpoints": ["file:epoch_*.pth", "init:0"]}
    references = [one.checkpoint.reference for one in planned({"models": [choice]}).jobs]
    assert references == ["file:epoch_2.pth", "file:epoch_10.pth", "init:0"]


def test_a_copy_of_a_checkpoint_is_one_run_with_the_labels_of_both(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"weight": torch.zeros(1)}, tmp_path / "epoch_3.pth")
    shutil.copy(tmp_path / "epoch_3.pth", tmp_path / "best.pth")
    best = {"ref": "file:best.pth", "label": "best", "tags": {"kind": "x"}}
    choice = {"name": "small:cifar_resnet8", "checkpoints": ["file:epoch_*.pth", best]}
    plan = planned({"models": [choice], "tags": {"kind": "y", "lr": 1}})
    (one,) = plan.jobs
    assert plan.copies == {"file:best.pth": "file:epoch_3.pth"}
    assert one.checkpoint.reference == "file:epoch_3.pth"
    assert one.labels.label == "best"
    # What the first one has stays.
    assert one.labels.tags == {"kind": "y", "lr": 1}


def test_labels_and_tags_enter_no_run_id_and_are_kept_with_the_runs(tmp_path):
    torch.save({}, tmp_path / "epoch_030.pth")

    def recorded(**model: object) -> tuple[str, RunLabels]:
        reference = {"ref": f"file:{tmp_path}/epoch_030.pth", "label": model.pop("weights", None)}
        choice = {"name": "small:cifar_resnet8", "checkpoints": [reference], **model}
        definition = parse_definition({"models": [choice]}, "test", Path())
        plan = make_plan(definition, {}, Holdings())
        with Registry(open_home(tmp_path / "home", create=True)) as registry:
            record_plan(registry, definition, plan)
            (item,) = registry.labels.all().items()
        return item

    run_id, labels = recorded()
    assert labels == RunLabels(tags={"epoch": 30})
    assert recorded(label="Net", tags={"lr": 1}) == (
        run_id,
        RunLabels("Net", tags={"epoch": 30, "lr": 1}),
    )
    assert recorded(weights="last", tags={"epoch": 31, "lr": 2}) == (
        run_id,
        RunLabels("Net", "last", tags={"epoch": 31, "lr": 2}),
    )
    # What was declared wins over the file's name from then on.
    assert recorded()[1].tags == {"epoch": 31, "lr": 2}


def test_a_plan_shows_the_epoch_that_a_file_s_name_gives(tmp_path):
    torch.save({}, tmp_path / "epoch_030.pth")
    choice = {"name": "small:cifar_resnet8", "checkpoints": [f"file:{tmp_path}/epoch_030.pth"]}
    for tags, shown in (({"lr": 1}, "epoch=30, lr=1"), ({"epoch": 31}, "epoch=31")):
        definition = parse_definition({"models": [{**choice, "tags": tags}]}, "test", Path())
        assert forecast(tmp_path / "home", definition).table()["tags"].to_pylist() == [shown]


def test_a_forecast_is_of_what_would_be_measured(tmp_path):
    home = new_home(tmp_path / "home")
    small, large = ("small:cifar_resnet8", "init:0"), ("torchvision:vgg16", "init:0")
    wrong = (large[0], f"file:{tmp_path}/other.pth")
    torch.save({}, tmp_path / "other.pth")

    def foreseen(*pairs):
        values = {"models": [{"name": name, "checkpoints": [ref]} for name, ref in pairs]}
        definition = parse_definition(values, "test", Path())
        with Registry(home) as registry:
            record_plan(registry, definition, make_plan(definition, {}, Holdings(home)))
        seen = forecast(home.path, definition, device="cuda")
        return seen.disk_bytes, seen.memory_bytes, seen.cores

    alone, both = foreseen(small), foreseen(small, large)
    assert both[1] > alone[1]
    assert foreseen(small, wrong) == alone
    with Registry(home) as registry:
        jobs = [each for each in registry.jobs() if each.architecture == "vgg16"]
    move_jobs(home, "cancelled", jobs)
    assert foreseen(small, large) == alone


def _saved(folder, name, network):
    torch.save(network.state_dict(), folder / name)


def test_a_file_is_planned_with_the_models_it_fits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["small:cifar_resnet8", "small:cifar_resnet14"]
    for name in names:
        _saved(tmp_path, f"{name[6:]}.pth", find(name)[0].build())
    files = ["file:cifar_resnet8.pth", "file:cifar_resnet14.pth"]
    values = {"models": [{"name": name, "checkpoints": files} for name in names]}
    pairs = [(name, f"file:{name[6:]}.pth") for name in names]
    crossed = parse_definition(values, "test", Path(), crossed=True)
    plan = make_plan(crossed, {}, Holdings())
    assert [(one.full_name, one.checkpoint.reference) for one in plan.jobs] == pairs
    assert [each.passed_over for each in plan.misfits] == [True, True]
    # A survey file that names each pair means it: the job is there, and will fail.
    declared = planned(values)
    assert len(declared.jobs) == 4
    unfit = [one for one in declared.jobs if one.run_id in declared.unfit]
    assert [(one.full_name, one.checkpoint.reference) for one in unfit] == [
        (names[0], files[1]),
        (names[1], files[0]),
    ]
    foreseen = forecast(tmp_path / "home", parse_definition(values, "test", Path()))
    rows = foreseen.table().to_pylist()
    assert {row["run_id"] for row in rows if row["seconds"] is None} == declared.unfit.keys()
    assert "2 to measure, 0 done, 2 cannot be loaded" in foreseen.summary()
    assert "keys missing" in declared.unfit[unfit[1].run_id]
    # A glob over models names no pair, and takes nothing from one that is named beside it.
    globbed = {"models": [{"name": "small:cifar_resnet[18]*", "checkpoints": files}]}
    assert [(one.full_name, one.checkpoint.reference) for one in planned(globbed).jobs] == [
        pairs[1],
        pairs[0],
    ]
    globbed["models"].append({"name": names[0], "checkpoints": files[1:]})
    assert len(planned(globbed).jobs) == 3
    # What fits none of several models is kept, so that it is not lost without a word.
    _saved(tmp_path, "other.pth", torch.nn.Linear(2, 1))
    other = {"models": [{"name": name, "checkpoints": ["file:other.pth"]} for name in names]}
    plan = make_plan(parse_definition(other, "test", Path(), crossed=True), {}, Holdings())
    assert len(plan.jobs) == len(plan.unfit) == 2
