"""The bundled zoo: it loads, it reads digits it never saw, and its shortcuts show."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from statistics import mean

import pytest
import torch
from torch import nn

from catalog import zoo
from catalog.checkpoint_references import resolve
from catalog.model_loading import load_model
from catalog.models.cifar import BUNDLED, CifarSource
from catalog.zoo import bundled_checkpoint, read_results
from catalog.zoo.train import Recipe, hits, labelled_images, main, train_zoo
from survey import MeasureSettings, SiteScore, measure
from survey.errors import CheckpointError, UnknownName

pytestmark = pytest.mark.slow(seconds=6)

DEPTHS = (14, 20, 26)


@functools.cache
def network(name: str) -> nn.Module:
    architecture = CifarSource().get(name)
    return load_model(architecture, resolve(None, architecture, Path())).model


@functools.cache
def digits(subset: str) -> tuple[torch.Tensor, torch.Tensor]:
    return labelled_images(subset, CifarSource().get(BUNDLED[0]).transform)


@functools.cache
def first_batch(name: str) -> tuple[SiteScore, ...]:
    settings = MeasureSettings(images_per_score=128)
    return tuple(measure(network(name), [digits("all")[0][:128]], settings))


def mean_affinity(name: str, *, after_shortcut: bool) -> float:
    """Return the mean over the second ReLUs of all blocks, or over all other sites."""
    rows = first_batch(name)
    chosen = [row for row in rows if (".relu2#" in row.site_name) == after_shortcut]
    assert len(chosen) in {len(rows) // 2, len(rows) // 2 + 1}
    return mean(row.affinity for row in chosen if row.affinity is not None)


def test_there_are_three_pairs_and_two_more() -> None:
    pairs = {f"digits_{shape}{depth}" for shape in ("resnet", "plain") for depth in DEPTHS}
    assert set(BUNDLED) == pairs | {"digits_vgg7", "digits_vgg9"}


def test_the_files_are_small_and_no_others_lie_there() -> None:
    files = list((zoo.FOLDER / "weights").iterdir())
    assert sorted(files) == [bundled_checkpoint(name) for name in BUNDLED]
    assert sum(file.stat().st_size for file in files) < 1_000_000


@pytest.mark.parametrize("name", BUNDLED)
def test_weights_load_as_finite_single_precision(name: str) -> None:
    floats = [value for value in network(name).state_dict().values() if value.is_floating_point()]
    assert all(value.dtype == torch.float32 and value.isfinite().all() for value in floats)


@pytest.mark.parametrize("name", BUNDLED)
def test_held_out_accuracy_is_the_recorded_one(name: str) -> None:
    record = read_results(zoo.FOLDER)[name]
    # One image may tip over where another processor rounds differently.
    assert abs(hits(network(name), *digits("heldout")) - record["heldout_hits"]) <= 1
    assert record["heldout_images"] == len(digits("heldout")[1])
    assert record["heldout_top1"] == record["heldout_hits"] / record["heldout_images"] >= 0.95


@pytest.mark.parametrize("name", BUNDLED)
def test_every_site_has_a_score(name: str) -> None:
    assert {row.status for row in first_batch(name)} == {"ok"}


@pytest.mark.parametrize("depth", DEPTHS)
def test_sites_after_a_shortcut_lie_above_the_others_and_above_the_plain_twin(depth: int) -> None:
    residual, plain = f"digits_resnet{depth}", f"digits_plain{depth}"
    after_shortcut = mean_affinity(residual, after_shortcut=True)
    assert after_shortcut - mean_affinity(residual, after_shortcut=False) >= 0.05
    assert after_shortcut - mean_affinity(plain, after_shortcut=True) >= 0.05


def test_an_unknown_network_has_no_weights() -> None:
    with pytest.raises(UnknownName, match="digits_resnet15") as caught:
        bundled_checkpoint("digits_resnet15")
    assert "digits_resnet14" in str(caught.value.hint)


def test_an_installation_without_the_files_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zoo, "FOLDER", tmp_path)
    with pytest.raises(CheckpointError, match="do not exist") as caught:
        bundled_checkpoint("digits_vgg7")
    assert "catalog.zoo.train" in str(caught.value.hint)


@pytest.mark.long
def test_training_again_gives_the_same_weights_and_keeps_the_records_of_others(
    tmp_path: Path,
) -> None:
    def weights(folder: Path, seed: int) -> bytes:
        train_zoo(["digits_vgg7"], folder, Recipe(seed=seed, epochs=1, images_per_step=256))
        return (folder / "weights" / "digits_vgg7.safetensors").read_bytes()

    state = torch.random.get_rng_state()
    (tmp_path / "results.json").write_text('{"digits_vgg9": {"heldout_top1": 0.5}}')
    first = weights(tmp_path, seed=0)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["digits_vgg9"] == {"heldout_top1": 0.5}
    assert results["digits_vgg7"]["heldout_hits"] <= results["digits_vgg7"]["heldout_images"] == 355
    assert results["digits_vgg7"]["epochs"] == 1
    assert weights(tmp_path, seed=0) == first
    assert weights(tmp_path, seed=1) != first
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_command_refuses_an_unknown_network(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--only", "digits_resnet15"])
    assert caught.value.code == 2
    assert "digits_resnet14" in capsys.readouterr().err
