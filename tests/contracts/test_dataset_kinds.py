"""Every kind of dataset keeps the contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from catalog.contract_tests.dataset_kind import DatasetKindContract
from catalog.datasets import ImageDataset, open_dataset
from catalog.datasets.kinds import (
    KINDS,
    cifar,
    digits,
    fashion_mnist,
    folder,
    imagenet,
    memory,
    parquet,
    random,
)
from catalog.datasets.label_map import imagenet_wnids
from tests.catalog.datasets.dataset_files import Shelf, idx, jpeg, noise, tar

Opener = Callable[[], ImageDataset]


def pictures(root: Path, classes: list[str], images: int) -> Path:
    for number, name in enumerate(classes * images):
        (root / name).mkdir(parents=True, exist_ok=True)
        (root / name / f"{number}.jpg").write_bytes(jpeg(number))
    return root


class TestCifar(DatasetKindContract):
    kind = cifar.KIND

    @pytest.fixture
    def opener(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
        monkeypatch.setattr(cifar, "IMAGES", {"test": 4})
        layout = cifar.LAYOUTS["cifar10"]
        (member,) = layout.subsets["test"]
        records = noise(4, 1 + cifar.PIXEL_BYTES)
        records[:, 0] %= 10
        names = "\n".join(f"class {number}" for number in range(10)).encode()
        tar(tmp_path / layout.archive.name, {layout.names: names, member: records.tobytes()})
        return partial(open_dataset, "cifar10", tmp_path, Shelf(tmp_path))


class TestDigits(DatasetKindContract):
    kind = digits.KIND


class TestFashionMnist(DatasetKindContract):
    kind = fashion_mnist.KIND

    @pytest.fixture
    def opener(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
        monkeypatch.setattr(fashion_mnist, "IMAGES", {"test": 4})
        images, labels = fashion_mnist.FILES["test"]
        idx(tmp_path / images.name, noise(4, fashion_mnist.SIDE, fashion_mnist.SIDE))
        idx(tmp_path / labels.name, noise(4) % 10)
        return partial(open_dataset, "fashion-mnist", tmp_path, Shelf(tmp_path))


class TestFolder(DatasetKindContract):
    kind = folder.KIND

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        pictures(tmp_path / "zoo", ["ape", "bear"], 2)
        (tmp_path / "zoo" / "ape" / "broken.png").write_bytes(b"no picture")
        return partial(open_dataset, "folder:zoo", tmp_path)


class TestImagenet(DatasetKindContract):
    kind = imagenet.KIND

    @pytest.fixture
    def opener(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opener:
        monkeypatch.setattr(imagenet, "IMAGES", 4)
        monkeypatch.setattr(imagenet, "IMAGENET_CLASSES", 2)
        pictures(tmp_path / "imagenet", list(imagenet_wnids()[5:7]), 2)
        return partial(open_dataset, "imagenet", tmp_path, data_dir=tmp_path)


class TestMemory(DatasetKindContract):
    kind = memory.KIND

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Iterator[Opener]:
        images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
        with memory.held(memory.HeldImages(images, torch.tensor([0, 1, 1, 0]))) as name:
            yield partial(open_dataset, name, tmp_path)


class TestParquet(DatasetKindContract):
    kind = parquet.KIND

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        table = pa.table({"image": [jpeg(n) for n in range(4)], "label": [0, 1, 1, 0]})
        pq.write_table(table, tmp_path / "zoo.parquet")
        return partial(open_dataset, "parquet:zoo.parquet", tmp_path)


class TestRandom(DatasetKindContract):
    kind = random.KIND


def test_every_kind_is_under_contract() -> None:
    tested = [kept.kind for kept in DatasetKindContract.__subclasses__()]
    assert sorted(map(id, tested)) == sorted(map(id, KINDS))
