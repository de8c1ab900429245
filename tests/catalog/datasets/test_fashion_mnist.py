"""Fashion-MNIST: idx files as torchvision reads them, and what is damaged refused."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.datasets import FashionMNIST

from catalog.datasets import needed_files, open_dataset
from catalog.datasets.kinds import fashion_mnist
from catalog.models.base import InputTransform
from survey.errors import DatasetError
from tests.catalog.datasets.dataset_files import Shelf, idx, noise

PLAIN = InputTransform(size=28, resize=28)
IMAGES = {"train": 30, "test": 20}


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    monkeypatch.setattr(fashion_mnist, "IMAGES", IMAGES)
    for seed, (subset, (images, labels)) in enumerate(fashion_mnist.FILES.items()):
        idx(tmp_path / images.name, noise(IMAGES[subset], 28, 28, seed=seed))
        idx(tmp_path / labels.name, noise(IMAGES[subset], seed=seed) % 10)
    return Shelf(tmp_path)


@pytest.mark.parametrize("subset", ["test", "train"])
def test_images_and_labels_are_torchvisions(shelf: Shelf, subset: str, tmp_path: Path) -> None:
    raw = tmp_path / "torchvision" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for file in (*fashion_mnist.FILES["train"], *fashion_mnist.FILES["test"]):
        content = gzip.decompress((shelf.folder / file.name).read_bytes())
        (raw / file.name.removesuffix(".gz")).write_bytes(content)
    reference = FashionMNIST(tmp_path / "torchvision", train=subset == "train")
    name = "fashion-mnist" if subset == "test" else "fashion-mnist:train"
    dataset = open_dataset(name, Path(), shelf)
    samples = list(dataset.samples(PLAIN))
    assert dataset.class_names == tuple(reference.classes)
    assert len(dataset) == len(samples) == len(reference.data)
    for sample in samples:
        index = int(sample.name.removeprefix(f"{subset}/"))
        assert sample.label == int(reference.targets[index])
        assert sample.pixels is not None
        assert torch.equal(sample.pixels, reference.data[index].expand(3, 28, 28))
    assert list(dataset.labels()) == [sample.label for sample in samples]


def test_md5_and_addresses_are_torchvisions() -> None:
    ours = {file.name: file.md5 for subset in fashion_mnist.FILES.values() for file in subset}
    assert ours == dict(FashionMNIST.resources)
    assert {file.url.removesuffix(file.name) for file in needed_files("fashion-mnist")} <= set(
        FashionMNIST.mirrors
    )


def test_only_the_subset_asked_for_is_needed(shelf: Shelf) -> None:
    open_dataset("fashion-mnist", Path(), shelf)
    assert shelf.asked == ["t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"]
    assert [file.name for file in needed_files("fashion-mnist")] == shelf.asked


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("short", "20 x 28 x 28"),
        ("long", "20 x 28 x 28"),
        ("count", "20 x 28 x 28"),
        ("type", "20 x 28 x 28"),
        ("cut off", r"t10k-images-idx3-ubyte\.gz"),
        ("page", r"t10k-images-idx3-ubyte\.gz"),
        ("gone", r"t10k-images-idx3-ubyte\.gz"),
        ("pipe", r"t10k-images-idx3-ubyte\.gz"),
        ("labels", "class 10"),
    ],
)
def test_a_damaged_copy_is_refused(shelf: Shelf, damage: str, named: str) -> None:
    images, labels = (shelf.folder / file.name for file in fashion_mnist.FILES["test"])
    whole, plain = images.read_bytes(), gzip.decompress(images.read_bytes())
    if damage == "labels":
        idx(labels, np.full(20, 10, np.uint8))
    elif damage == "count":
        idx(images, noise(21, 28, 28))
    elif damage == "type":
        idx(images, noise(20, 28, 28), magic=0x0D03)
    elif damage == "gone":
        images.unlink()
    elif damage == "pipe":
        images.unlink()
        os.mkfifo(images)
    else:
        images.write_bytes(
            {
                "short": gzip.compress(plain[:-1]),
                "long": gzip.compress(plain + b"x"),
                "cut off": whole[: len(whole) // 2],
                "page": b"<html>not found</html>",
            }[damage]
        )
    with pytest.raises(DatasetError, match=named) as caught:
        open_dataset("fashion-mnist", Path(), shelf)
    assert caught.value.hint


def test_a_bomb_is_not_unpacked(shelf: Shelf) -> None:
    images = shelf.folder / fashion_mnist.FILES["test"][0].name
    plain = gzip.decompress(images.read_bytes())
    # Were it read to its end, the cut at its end would be met.
    images.write_bytes(gzip.compress(plain + bytes(1 << 25), 1)[:-20])
    with pytest.raises(DatasetError, match="20 x 28 x 28"):
        open_dataset("fashion-mnist", Path(), shelf)
