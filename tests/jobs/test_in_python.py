"""Surveys from Python: of names, and of a network in memory."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from catalog.datasets.kinds.memory import HeldImages
from catalog.home import Home
from catalog.models import consent
from catalog.open_home import open_home
from catalog.store.reader import query
from jobs import survey_models
from jobs.scan.scan_progress import read_progress
from survey import MeasureSettings, measure
from survey.errors import InputError, SettingsError, SurveyError

SIZE = 8


def network(seed: int = 0) -> nn.Module:
    """Return a small network with weights of one seed."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3), nn.GELU(), nn.Flatten(), nn.LazyLinear(3)
    ).eval()


def batches(seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return three batches of labelled images."""
    made = torch.Generator().manual_seed(seed)
    images = torch.randn(96, 3, SIZE, SIZE, generator=made)
    labels = torch.randint(0, 3, (96,), generator=made)
    return list(zip(images.split(32), labels.split(32), strict=True))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one run of a network in memory."""
    path = tmp_path_factory.mktemp("python") / "home"
    model = network()
    model(batches()[0][0])
    survey_models(model, batches(), home=path, label="mine", images_per_score=32)
    return path


def ready(seed: int = 0) -> nn.Module:
    """Return a network whose lazy layer has its size."""
    model = network(seed)
    model(batches()[0][0])
    return model


def test_a_network_in_memory_has_the_scores_of_measure(home: Path) -> None:
    again = survey_models(ready(), batches(), home=home, images_per_score=32)
    assert not again.outcome.done
    (run_id,) = again.run_ids
    frame = again.signatures()
    rows = list(measure(ready(), batches(), MeasureSettings(images_per_score=32)))
    means = [sum(row.affinity or 0.0 for row in rows if row.site == site) / 3 for site in (0, 1)]
    assert set(frame["run_id"]) == {run_id}
    assert frame["affinity"].tolist() == pytest.approx(means, abs=1e-9)


def test_others_can_watch_it(home: Path) -> None:
    progress = read_progress(Home(home).progress)
    assert progress is not None
    assert progress.end == "done"


def test_accuracy_is_that_of_the_labels(home: Path) -> None:
    import analysis

    images, labels = (torch.cat(each) for each in zip(*batches(), strict=True))
    expected = (ready()(images).argmax(1) == labels).float().mean().item()
    assert analysis.models(home)["measured_top1"][0] == pytest.approx(expected)


@pytest.mark.parametrize("changed", ["weights", "images", "structure", "settings"])
def test_what_numbers_depend_on_makes_another_run(changed: str, home: Path) -> None:
    model, settings = ready(seed=int(changed == "weights")), {"images_per_score": 32}
    if changed == "structure":
        model[3] = nn.SiLU()
    if changed == "settings":
        settings["images_per_score"] = 48
    other = survey_models(model, batches(int(changed == "images")), home=home, **settings)
    assert len(other.outcome.done) == 1


def test_the_network_handed_over_is_left_as_it_was(tmp_path: Path) -> None:
    model = ready().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    survey_models(model, batches(), home=tmp_path / "home", images_per_score=32)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_neither_network_nor_images_are_kept_in_memory(home: Path, tmp_path: Path) -> None:
    def kept() -> set[int]:
        gc.collect()
        # By their types: isinstance asks the class of dead weak references of others.
        return {id(each) for each in gc.get_objects() if type(each) in (HeldImages, nn.GELU)}

    # Other tests of this process may hold networks.
    before = kept()
    ((images, labels), *_), path = batches(), tmp_path / "none"
    assert survey_models(ready(), [(images, labels)], home=home, images_per_score=32).run_ids
    assert kept() <= before
    with pytest.raises(SettingsError):
        survey_models(ready(), [(images, labels)], home=path, images_per_score=-1)
    assert kept() <= before


def test_batches_are_let_go_before_they_are_measured(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handed: list[weakref.ref[torch.Tensor]] = []

    def drawn() -> Iterator[torch.Tensor]:
        for images, _ in batches():
            handed.append(weakref.ref(whole := images.clone()))
            yield whole
            del whole

    def counted(*_: object) -> object:
        gc.collect()
        held = sum(each() is not None for each in handed)
        raise InputError(f"{held} of {len(handed)} batches")

    monkeypatch.setattr("jobs.in_python.run_survey", counted)
    with pytest.raises(InputError, match="0 of 3 batches"):
        survey_models(ready(), drawn(), home=home, images_per_score=32)


def test_labels_that_would_take_all_memory_are_refused(home: Path, tmp_path: Path) -> None:
    images, labels = batches()[0]
    small_type, path = [(images, (labels + 90).byte())], tmp_path / "small"
    small = survey_models(ready(), small_type, home=path, images_per_score=32)
    assert small.outcome.done
    for wrong in (labels + 2**31 - 1, labels - 1):
        with pytest.raises(InputError, match="999,999"):
            survey_models(ready(), [(images, wrong)], home=home)
    with pytest.raises(InputError, match="NoneType"):
        survey_models(ready(), [()], home=home)


def test_names_take_labels_tags_and_settings(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = survey_models(
        "small:digits_vgg7",
        "digits[:64]",
        home=home,
        label="seven",
        tags={"lr": 0.1},
        measures="path_length",
        images_per_score=32,
    )
    assert len(made.run_ids) == 1
    # What a notebook's cell shows.
    assert made.run_ids[0] in repr(made)
    assert len(repr(made).splitlines()[0]) < 80 + len(str(tmp_path))
    assert len(made.signatures()) == 6
    assert made.outcome.plan.jobs[0].labels.tags == {"lr": 0.1}
    assert made.outcome.plan.jobs[0].measures == ("path_length",)


@pytest.mark.parametrize(
    ("models", "data", "settings"),
    [
        ("small:digits_vgg7", [torch.zeros(2, 3, 8, 8)], {}),
        (3, "digits", {}),
        (nn.ReLU(), "digits", {}),
        (nn.ReLU(), [], {}),
        (nn.ReLU(), [torch.zeros(2, 3, 8, 9)], {}),
        (nn.ReLU(), [torch.zeros(2, 2, 8, 8)], {}),
        (nn.ReLU(), [torch.zeros(2, 3, 8, 8, dtype=torch.uint8)], {}),
        (nn.ReLU(), [[1, 2]], {}),
        (
            nn.ReLU(),
            [torch.zeros(2, 3, 8, 8), (torch.zeros(2, 3, 8, 8), torch.zeros(2).long())],
            {},
        ),
        (nn.ReLU(), [torch.zeros(2, 3, 8, 8), torch.zeros(2, 3, 9, 9)], {}),
        (nn.ReLU(), [torch.zeros(2, 3, 8, 8), torch.zeros(2, 1, 8, 8)], {}),
        (nn.ReLU(), [(torch.zeros(2, 3, 8, 8), torch.zeros(2))], {}),
        (nn.ReLU(), [(torch.zeros(2, 3, 8, 8), torch.zeros(3).long())], {}),
        (nn.ReLU(), [(torch.zeros(2, 3, 8, 8), torch.tensor([-1, 0]))], {}),
        (nn.ReLU(), [(torch.zeros(2, 3, 8, 8), ("cat", "dog"))], {}),
        ("small:digits_vgg7", "digits", {"images_per_score": "many"}),
        ("small:digits_vgg7", "digits", {"batch": 3}),
        ("small:digits_vgg7", "digits", {"measures": 3}),
        (nn.ReLU(), [torch.zeros(2, 3, 8, 8)], {"checkpoints": "init:0"}),
    ],
)
def test_bad_input_is_refused_and_makes_no_home(
    models: object, data: object, settings: dict[str, object], tmp_path: Path
) -> None:
    with pytest.raises(SurveyError):
        survey_models(models, data, home=tmp_path / "home", **settings)  # type: ignore[arg-type]
    assert not (tmp_path / "home").exists()


def test_it_computes_with_the_threads_of_the_process(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        made = survey_models(ready(), batches(), home=tmp_path, images_per_score=32)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert made.outcome.done
    assert query(open_home(tmp_path, create=False), "SELECT threads FROM runs").to_pylist() == [
        {"threads": 1}
    ]


def test_the_precision_of_gpus_stays_as_it_was(tmp_path: Path) -> None:
    parts = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [part.allow_tf32 for part in parts]
    seen = []

    class Looking(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append([part.allow_tf32 for part in parts])
            return x.flatten(1).relu()

    try:
        for part in parts:
            part.allow_tf32 = True
        survey_models(Looking(), batches(), home=tmp_path, images_per_score=32)
        assert [part.allow_tf32 for part in parts] == [True, True]
    finally:
        for part, value in zip(parts, before, strict=True):
            part.allow_tf32 = value
    assert [False, False] in seen


def test_a_network_of_one_channel_is_measured_in_memory_and_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grey_nets.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    head = nn.Flatten(), nn.Linear(144, 10)\n"
        "    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), *head)\n"
        "net.survey = {'size': 8, 'mean': [0.0], 'std': [1.0], 'classes': 10}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    consent.trust("python:grey_nets:net")
    from sklearn.datasets import load_digits

    digits = load_digits()
    folder = tmp_path / "digits"
    for index, (image, label) in enumerate(zip(digits.images[:96], digits.target, strict=False)):
        path = folder / str(label) / f"{index:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image * 15).astype("uint8")).save(path)
    named = survey_models(
        "python:grey_nets:net",
        f"folder:{folder}",
        home=tmp_path / "home",
        images_per_score=96,
        measures=["path_length", "nonlinearity_coefficient"],
    )
    assert named.outcome.done
    network = importlib.import_module("grey_nets").net()
    images = torch.from_numpy(digits.images[:96] * 15).floor().float()[:, None] / 255
    (row,) = measure(network, [images], MeasureSettings(images_per_score=96))
    assert named.signatures()["affinity"].tolist() == pytest.approx([row.affinity], abs=1e-6)
    held = survey_models(network, [images], home=tmp_path / "home", images_per_score=96)
    assert held.signatures()["affinity"].tolist() == pytest.approx([row.affinity], abs=1e-6)
