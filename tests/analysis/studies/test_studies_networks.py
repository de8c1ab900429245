"""The studies of the bundled networks: batch sizes, seeds, training."""

import pandas as pd
import pytest
import torch

from analysis.studies.batches import batch_size_chart, batch_size_scores
from analysis.studies.networks import images_of, spread
from analysis.studies.seeds import seed_chart, seed_scores
from analysis.studies.training import training_chart, training_scores
from catalog.datasets import open_dataset
from catalog.models.cifar import TRANSFORM
from survey import SettingsError, UnknownName

pytestmark = pytest.mark.slow(seconds=10)


def test_images_are_normalised_as_workers_do(tmp_path):
    from jobs.runners.images import normalise

    dataset = open_dataset("digits:heldout", tmp_path)
    images = images_of("digits:heldout", TRANSFORM)
    first = next(iter(dataset.samples(TRANSFORM)))
    assert images.shape == (len(dataset), 3, 32, 32)
    assert torch.allclose(images[0], normalise(first.pixels[None], TRANSFORM)[0], atol=1e-6)


def test_batch_sizes_change_a_signature_little():
    table = batch_size_scores("digits_vgg7", (64, 350), dataset="digits:heldout")
    assert table.groupby("images_per_score")["batches"].first().to_dict() == {64: 5, 350: 1}
    moved = spread(table, "images_per_score")
    assert len(moved) == 6
    assert (moved["range"] < 0.15).all()
    assert (moved["range"] == moved["high"] - moved["low"]).all()
    assert "viridis" in str(batch_size_chart(table).to_dict())


def test_a_batch_larger_than_the_dataset_is_refused():
    with pytest.raises(SettingsError, match="holds 355 images, a batch of 360"):
        batch_size_scores("digits_vgg7", (64, 360), dataset="digits:heldout")


@pytest.mark.long
def test_training_makes_a_network_less_linear(caplog):
    with caplog.at_level("INFO", "analysis.studies"):
        table = training_scores(["small:digits_vgg7"])
    assert caplog.messages == ["digits_vgg7"]
    means = table.groupby("trained")["affinity"].mean()
    assert means[True] < means[False]
    assert list(table["checkpoint"].unique()) == ["init:0", "bundled"]
    assert table["affinity"].between(0, 1).all()
    assert "facet" in training_chart(table).to_dict()


@pytest.mark.long
def test_a_seed_is_a_training_of_its_own():
    table = seed_scores("digits_vgg7", (1, 2), epochs=1)
    signatures = table.pivot_table(index="site", columns="seed", values="affinity")
    assert signatures.shape == (6, 2)
    assert (signatures[1] - signatures[2]).abs().max() > 1e-4
    # One epoch in six is enough to be far better than chance.
    assert (table["heldout_top1"] > 0.3).all()
    assert seed_chart(table).to_dict()["title"] == "digits_vgg7"
    assert isinstance(spread(table, "seed"), pd.DataFrame)


def test_only_bundled_networks_are_known():
    with pytest.raises(UnknownName) as caught:
        training_scores(["digits_vgg8"])
    assert "digits_vgg" in str(caught.value.hint)
