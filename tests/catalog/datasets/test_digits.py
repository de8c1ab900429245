"""The digits: scikit-learn's own values, one order, a stratified split that never overlaps."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from catalog.datasets.base import Sample
from catalog.datasets.kinds.digits import SUBSETS, DigitsDataset
from catalog.models.base import InputTransform
from survey.errors import UnknownName

TINY = InputTransform(size=8, resize=8)
IMAGES, LABELS = load_digits(return_X_y=True)


@functools.cache
def all_samples(subset: str, transform: InputTransform = TINY) -> list[Sample]:
    return list(DigitsDataset(subset).samples(transform))


def names(subset: str) -> list[str]:
    return [sample.name for sample in all_samples(subset)]


def test_every_digit_is_there_once_with_its_own_pixels_and_label() -> None:
    samples = all_samples("all")
    assert len(samples) == len(DigitsDataset()) == len(IMAGES) == 1797
    assert sorted(int(sample.name) for sample in samples) == list(range(1797))
    for sample in samples:
        index = int(sample.name)
        assert sample.label == LABELS[index]
        assert sample.pixels is not None
        assert sample.pixels.dtype == torch.uint8
        expected = IMAGES[index].reshape(8, 8) / 16 * 255
        assert np.abs(sample.pixels.numpy() - expected).max() <= 0.5


@pytest.mark.parametrize("subset", SUBSETS)
def test_starting_later_leaves_out_the_first_and_changes_nothing(subset: str) -> None:
    whole = all_samples(subset)
    assert [sample.position for sample in whole] == list(range(len(whole)))
    late = list(DigitsDataset(subset).samples(TINY, start=len(whole) - 3))
    for sample, expected in zip(late, whole[-3:], strict=True):
        assert (sample.position, sample.name) == (expected.position, expected.name)
        assert torch.equal(torch.as_tensor(sample.pixels), torch.as_tensor(expected.pixels))
    assert not list(DigitsDataset(subset).samples(TINY, start=len(whole)))


def test_the_order_is_shuffled_and_the_same_for_every_transform() -> None:
    large = InputTransform(size=40, resize=48, interpolation="bicubic")
    assert names("all") == [sample.name for sample in all_samples("all", large)]
    assert names("all") != sorted(names("all"))


def test_training_and_held_out_images_share_none_and_leave_none() -> None:
    train, held_out = names("train"), names("heldout")
    assert not set(train) & set(held_out)
    assert set(train) | set(held_out) == set(names("all"))
    assert train == [name for name in names("all") if name in set(train)]
    assert held_out == [name for name in names("all") if name in set(held_out)]


def test_a_fifth_of_each_class_is_held_out() -> None:
    everything = Counter(sample.label for sample in all_samples("all"))
    held_out = Counter(sample.label for sample in all_samples("heldout"))
    assert held_out == {label: count // 5 for label, count in everything.items()}
    assert DigitsDataset.class_names == tuple("0123456789")


def test_names_and_fingerprints_tell_the_subsets_apart() -> None:
    datasets = [DigitsDataset(subset) for subset in SUBSETS]
    assert [dataset.name for dataset in datasets] == ["digits", "digits:heldout", "digits:train"]
    assert len({dataset.fingerprint() for dataset in datasets}) == 3
    assert DigitsDataset().fingerprint() == DigitsDataset("all").fingerprint()


@pytest.mark.parametrize("subset", SUBSETS)
def test_the_fingerprint_is_over_every_name_label_and_pixel(subset: str) -> None:
    digest = hashlib.sha256(repr(tuple("0123456789")).encode())
    for sample in all_samples(subset):
        assert sample.pixels is not None
        digest.update(repr((sample.name, sample.label)).encode())
        digest.update(sample.pixels[0].numpy().tobytes())
    assert DigitsDataset(subset).fingerprint() == digest.hexdigest()


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_enlarging_goes_straight_to_the_size_asked_for(interpolation: str) -> None:
    transform = InputTransform(size=21, resize=99, interpolation=interpolation)  # type: ignore[arg-type]
    small = next(DigitsDataset().samples(TINY)).pixels
    large = next(DigitsDataset().samples(transform)).pixels
    assert small is not None
    assert large is not None
    image = Image.fromarray(small[0].numpy())
    expected = image.resize((21, 21), Image.Resampling[interpolation.upper()])
    assert large.shape == (3, 21, 21)
    for channel in large:
        assert np.array_equal(channel.numpy(), np.asarray(expected))


def test_changing_pixels_in_place_leaves_the_dataset_as_it_was() -> None:
    before = DigitsDataset().fingerprint()
    pixels = next(DigitsDataset().samples(TINY)).pixels
    assert pixels is not None
    pixels.zero_()
    again = next(DigitsDataset().samples(TINY)).pixels
    assert again is not None
    assert again.any()
    assert DigitsDataset().fingerprint() == before


def test_a_dataset_travels_to_another_process() -> None:
    dataset = pickle.loads(pickle.dumps(DigitsDataset("heldout")))
    assert dataset.fingerprint() == DigitsDataset("heldout").fingerprint()


def test_an_unknown_subset_is_refused_with_the_choices() -> None:
    with pytest.raises(UnknownName, match="test") as caught:
        DigitsDataset("test")
    assert "heldout" in str(caught.value.hint)
