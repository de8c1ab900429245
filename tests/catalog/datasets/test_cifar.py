"""CIFAR: the records of the binary archives, torchvision's pixels, and what is damaged refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from catalog.datasets import needed_files, open_dataset
from catalog.datasets.kinds import cifar
from catalog.datasets.label_map import label_map
from catalog.datasets.order import place
from catalog.models.base import InputTransform
from survey.errors import DatasetError
from tests.catalog.datasets.dataset_files import Shelf, noise, tar

PLAIN = InputTransform(size=32, resize=32)
#: Images in each subset here, and as published.
IMAGES = {"train": 60, "test": 12}
PUBLISHED = dict(cifar.IMAGES)
NAMES = {
    "cifar10": ["plane", "car", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"],
    "cifar100": [f"fine_{index}" for index in range(100)],
}


def records(kind: str, subset: str, file: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return labels and pixels (n, 3, 32, 32) of one member."""
    seed = 100 * file + (subset == "train")
    count = IMAGES[subset] // len(cifar.LAYOUTS[kind].subsets[subset])
    labels = np.random.default_rng(seed).integers(0, len(NAMES[kind]), count).astype(np.uint8)
    return labels, noise(count, 3, 32, 32, seed=seed)


def member(kind: str, subset: str, file: int) -> bytes:
    labels, pixels = records(kind, subset, file)
    columns = [labels[:, None], pixels.reshape(len(labels), -1)]
    if kind == "cifar100":
        columns.insert(0, np.full_like(columns[0], 19))  # a coarse class is never a label
    return np.concatenate(columns, axis=1).tobytes()


def members(kind: str) -> dict[str, bytes]:
    layout = cifar.LAYOUTS[kind]
    listed = {layout.names: ("\n".join(NAMES[kind]) + "\n\n").encode()}
    for subset, names in layout.subsets.items():
        listed |= {name: member(kind, subset, number) for number, name in enumerate(names)}
    return listed


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar, "IMAGES", IMAGES)


def packed(folder: Path, kind: str, changed: dict[str, bytes | None] | None = None) -> Shelf:
    content = {**members(kind), **(changed or {})}
    there = {name: data for name, data in content.items() if data is not None}
    tar(folder / cifar.LAYOUTS[kind].archive.name, there)
    return Shelf(folder)


@pytest.mark.parametrize("kind", ["cifar10", "cifar100"])
@pytest.mark.parametrize("subset", ["test", "train"])
def test_images_and_labels_are_the_records(tmp_path: Path, kind: str, subset: str) -> None:
    name = kind if subset == "test" else f"{kind}:train"
    dataset = open_dataset(name, Path(), packed(tmp_path, kind))
    files = len(cifar.LAYOUTS[kind].subsets[subset])
    parts = [records(kind, subset, file) for file in range(files)]
    labels = np.concatenate([part[0] for part in parts])
    pixels = np.concatenate([part[1] for part in parts])
    samples = list(dataset.samples(PLAIN))
    assert dataset.name == name
    assert len(dataset) == len(samples) == IMAGES[subset]
    assert dataset.class_names == tuple(NAMES[kind])
    assert label_map(dataset.class_names, len(NAMES[kind])) == tuple(range(len(NAMES[kind])))
    for sample in samples:
        index = int(sample.name.removeprefix(f"{subset}/"))
        assert sample.label == labels[index]
        assert sample.pixels is not None
        assert torch.equal(sample.pixels, torch.from_numpy(pixels[index]))
    names = [sample.name for sample in samples]
    assert names == sorted(names, key=place)
    assert names != sorted(names)
    assert list(dataset.labels()) == [sample.label for sample in samples]
    assert [sample.name for sample in dataset.samples(PLAIN, 5)] == names[5:]
    assert [sample.position for sample in dataset.samples(PLAIN, 5)][:2] == [5, 6]


def test_images_are_enlarged_as_pictures_in_files_are(tmp_path: Path) -> None:
    from PIL import Image

    dataset = open_dataset("cifar10", Path(), packed(tmp_path, "cifar10"))
    for sample in dataset.samples(PLAIN):
        assert sample.pixels is not None
        path = tmp_path / "pictures" / str(sample.label) / f"{sample.name[5:]}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sample.pixels.permute(1, 2, 0).numpy()).save(path)
    transform = InputTransform(size=40, resize=44, interpolation="bicubic")
    folder = open_dataset("folder:pictures", tmp_path)
    files = {Path(sample.name).stem: sample.pixels for sample in folder.samples(transform)}
    for sample in dataset.samples(transform):
        assert sample.pixels is not None
        expected = files[sample.name[5:]]
        assert expected is not None
        assert torch.equal(sample.pixels, expected)


def test_one_archive_holds_both_subsets_and_the_fingerprint_tells_them_apart(
    tmp_path: Path,
) -> None:
    shelf = packed(tmp_path, "cifar10")
    test, train = (open_dataset(name, Path(), shelf) for name in ("cifar10", "cifar10:train"))
    assert needed_files("cifar10") == needed_files("cifar10:train[:3]")
    assert set(shelf.asked) == {"cifar-10-binary.tar.gz"}
    assert test.fingerprint() != train.fingerprint()
    assert test.stat_signature() != train.stat_signature()
    # Packed another time the bytes differ, the images do not.
    again = open_dataset("cifar10", Path(), packed(tmp_path / "again", "cifar10"))
    assert again.fingerprint() == test.fingerprint()
    changed = bytearray(member("cifar10", "test", 0))
    changed[-1] ^= 1
    names = cifar.LAYOUTS["cifar10"].subsets["test"]
    other = packed(tmp_path / "other", "cifar10", {names[0]: bytes(changed)})
    assert open_dataset("cifar10", Path(), other).fingerprint() != test.fingerprint()


TEST_MEMBER = "cifar-10-batches-bin/test_batch.bin"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({TEST_MEMBER: None}, TEST_MEMBER),
        ({TEST_MEMBER: member("cifar10", "test", 0)[:-1]}, "36,876"),
        ({TEST_MEMBER: member("cifar10", "test", 0) + b"x"}, "36,876"),
        ({TEST_MEMBER: b"\x0a" + member("cifar10", "test", 0)[1:]}, "class 10"),
        ({"cifar-10-batches-bin/batches.meta.txt": b"cat\ndog\n"}, "must be below 2"),
    ],
)
def test_a_copy_that_is_not_whole_is_refused(
    tmp_path: Path, changed: dict[str, bytes | None], named: str
) -> None:
    shelf = packed(tmp_path, "cifar10", changed)
    with pytest.raises(DatasetError, match=named) as caught:
        open_dataset("cifar10", Path(), shelf)
    assert caught.value.hint


@pytest.mark.parametrize("damage", ["cut off", "empty", "page", "gone"])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: str) -> None:
    shelf = packed(tmp_path, "cifar10")
    archive = tmp_path / "cifar-10-binary.tar.gz"
    whole = archive.read_bytes()
    if damage == "gone":
        archive.unlink()
    else:
        content = {"cut off": whole[: len(whole) // 2], "empty": b"", "page": b"<html>no</html>"}
        archive.write_bytes(content[damage])
    with pytest.raises(DatasetError, match="cifar-10-binary"):
        open_dataset("cifar10", Path(), shelf)


def test_pickles_in_an_archive_are_never_read(tmp_path: Path) -> None:
    bomb = b"cos\nsystem\n(S'touch " + str(tmp_path / "hit").encode() + b"'\ntR."
    shelf = packed(tmp_path, "cifar10", {"cifar-10-batches-bin/data_batch_1": bomb})
    assert len(open_dataset("cifar10", Path(), shelf)) == IMAGES["test"]
    assert not (tmp_path / "hit").exists()


def test_without_a_place_for_files_it_says_so() -> None:
    with pytest.raises(DatasetError, match="cifar10") as caught:
        open_dataset("cifar10", Path())
    assert "--home" in str(caught.value.hint)


def test_records_have_their_published_sizes() -> None:
    # What the publisher says: 30,730,000 bytes a file of CIFAR-10, two label bytes in CIFAR-100.
    layouts = cifar.LAYOUTS
    record = {kind: layout.label_bytes + cifar.PIXEL_BYTES for kind, layout in layouts.items()}
    assert record == {"cifar10": 3073, "cifar100": 3074}
    assert PUBLISHED["test"] * record["cifar10"] == 30_730_000
    assert PUBLISHED["train"] // len(layouts["cifar10"].subsets["train"]) == PUBLISHED["test"]
    assert PUBLISHED["train"] == 50_000
