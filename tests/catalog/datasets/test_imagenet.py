"""ImageNet's validation images: three forms, one dataset; and what is not all of it refused."""

from __future__ import annotations

import functools
import gzip
import io
import lzma
import struct
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import torch

from catalog.datasets import ImageDataset, needed_files, open_dataset
from catalog.datasets.kinds import imagenet, matlab_classes
from catalog.datasets.kinds.imagenet_devkit import ARCHIVE, FOLDER
from catalog.datasets.label_map import imagenet_wnids, label_map
from catalog.models.base import InputTransform
from survey.errors import DatasetError
from tests.catalog.datasets.dataset_files import jpeg, noise, tar

SMALL = InputTransform(size=16, resize=20)
WNIDS = tuple(imagenet_wnids()[index] for index in (7, 0, 999, 400))
IMAGES = 12
#: Numbers of the development kit's classes: not in the order of their wnids.
TRUTH = [1, 2, 3, 4, 4, 3, 2, 1, 1, 3, 2, 4]


@functools.cache  # the list is read once, in a process of its own
def meta(wnids: tuple[str, ...] = WNIDS) -> bytes:
    fields = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "num_children")]
    rows = [(number, wnid, "a, b", 0) for number, wnid in enumerate(wnids, 1)]
    rows.append((len(wnids) + 1, "n00001740", "entity", 4))
    file = io.BytesIO()
    scipy.io.savemat(file, {"synsets": np.array(rows, dtype=fields)})
    return file.getvalue()


def kit(truth: list[int] = TRUTH, classes: bytes | None = None) -> dict[str, bytes]:
    return {
        f"{FOLDER}/readme.txt": b"hello",
        f"{FOLDER}/data/meta.mat": meta() if classes is None else classes,
        f"{FOLDER}/data/ILSVRC2012_validation_ground_truth.txt": "".join(
            f"{number}\n" for number in truth
        ).encode(),
    }


def images() -> dict[str, bytes]:
    # From the last to the first, so that order in the archive is not order by number.
    numbers = range(IMAGES, 0, -1)
    return {f"ILSVRC2012_val_{number:08d}.JPEG": jpeg(number) for number in numbers}


def write(root: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


def as_tar(root: Path) -> Path:
    tar(root / ARCHIVE, kit())
    return tar(root / imagenet.TAR, images(), "w").parent


def as_flat(root: Path) -> Path:
    return write(root, {**images(), **kit()})


def as_flat_val(root: Path) -> Path:
    write(root / "val", images())
    return tar(root / ARCHIVE, kit()).parent


def as_classes(root: Path) -> Path:
    shown = {f"ILSVRC2012_val_{n:08d}.JPEG": WNIDS[c - 1] for n, c in enumerate(TRUTH, 1)}
    return write(root, {f"{shown[name]}/{name}": data for name, data in images().items()})


def as_classes_val(root: Path) -> Path:
    as_classes(root / "val")
    return root


FORMS: list[Callable[[Path], Path]] = [as_tar, as_flat, as_flat_val, as_classes, as_classes_val]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagenet, "IMAGES", IMAGES)
    monkeypatch.setattr(imagenet, "IMAGENET_CLASSES", len(WNIDS))


def contents(dataset: ImageDataset) -> list[tuple[int, str, int | None, bytes]]:
    return [
        (sample.position, sample.name, sample.label, sample.pixels.numpy().tobytes())
        for sample in dataset.samples(SMALL)
        if sample.pixels is not None
    ]


def packed_zeros(size: int) -> bytes:
    """Return a MATLAB file of one packed variable, made without the memory that it unpacks to."""
    kind, shape = struct.pack("<4I", 6, 8, 8, 0), struct.pack("<4I", 5, 8, 1, size)
    name, data = struct.pack("<2I8s", 1, 7, b"synsets"), struct.pack("<2I", 1, size)
    parts = kind + shape + name + data
    packing = zlib.compressobj()
    packed = packing.compress(struct.pack("<2I", 14, len(parts) + size) + parts)
    packed += b"".join(packing.compress(bytes(2**20)) for _ in range(size >> 20)) + packing.flush()
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    return head + struct.pack("<2I", 15, len(packed)) + packed


@pytest.mark.parametrize("mebibytes", [1, 640])
def test_a_small_list_of_classes_makes_no_memory(tmp_path: Path, mebibytes: int) -> None:
    file = tmp_path / "meta.mat"
    file.write_bytes(packed_zeros(mebibytes << 20))
    assert file.stat().st_size < 2**20
    # A small process begins it: what this one takes would count as its memory.
    code = """
import os, resource, subprocess, sys
ended = subprocess.run([sys.executable, "-P", sys.argv[1]], stdin=open(sys.argv[2], "rb"),
                       capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss * 1024, used.ru_utime, b"MemoryError" in ended.stderr)
"""
    command = [sys.executable, "-c", code, matlab_classes.__file__, str(file)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    most_bytes, seconds, refused = ended.stdout.split()
    assert int(most_bytes) < matlab_classes.MOST_BYTES
    assert float(seconds) < matlab_classes.MOST_SECONDS
    # One of a size that it may have is read, and is no list of classes.
    assert refused == str(mebibytes > 512)


@pytest.mark.parametrize("form", FORMS[1:])
def test_every_form_is_the_same_dataset(tmp_path: Path, form: Callable[[Path], Path]) -> None:
    reference = open_dataset(f"imagenet:{as_tar(tmp_path / 'tar')}", Path())
    dataset = open_dataset(f"imagenet:{form(tmp_path / 'other')}", Path())
    assert len(dataset) == len(reference) == IMAGES
    assert dataset.class_names == reference.class_names == tuple(sorted(WNIDS))
    assert contents(dataset) == contents(reference)
    assert dataset.labels() == reference.labels()
    assert dataset.fingerprint() == reference.fingerprint()


@pytest.mark.parametrize("form", [as_classes, as_classes_val])
@pytest.mark.parametrize("beside", [f"{imagenet.TAR}", f"{FOLDER}/readme.txt", "lost+found/#1.png"])
def test_class_folders_are_all_with_what_they_came_from_beside(
    tmp_path: Path, form: Callable[[Path], Path], beside: str
) -> None:
    reference = open_dataset(f"imagenet:{as_classes(tmp_path / 'reference')}", Path())
    root = form(tmp_path / "other")
    folder = root if (root / WNIDS[0]).exists() else root / "val"
    write(root if beside == imagenet.TAR else folder, {beside: jpeg()})
    dataset = open_dataset(f"imagenet:{root}", Path())
    assert dataset.class_names == tuple(sorted(WNIDS))
    assert dataset.fingerprint() == reference.fingerprint()


def test_labels_are_the_kits_and_lead_to_imagenets_outputs(tmp_path: Path) -> None:
    dataset = open_dataset(f"imagenet:{as_tar(tmp_path)}", Path())
    outputs = label_map(dataset.class_names, 1000)
    assert outputs is not None
    index = {wnid: number for number, wnid in enumerate(imagenet_wnids())}
    for sample in dataset.samples(SMALL):
        number = int(sample.name[-13:-5])
        assert sample.label is not None
        assert outputs[sample.label] == index[WNIDS[TRUTH[number - 1] - 1]]
        assert sample.pixels is not None
        assert sample.pixels.dtype == torch.uint8


def test_the_bare_name_looks_in_the_folder_of_datasets(tmp_path: Path) -> None:
    as_tar(tmp_path / "datasets" / "imagenet")
    dataset = open_dataset("imagenet", Path(), data_dir=tmp_path / "datasets")
    assert dataset.name == "imagenet"
    assert len(dataset) == IMAGES
    assert needed_files("imagenet") == ()


@pytest.mark.parametrize("data_dir", [True, False])
def test_without_images_it_says_what_to_put_where(tmp_path: Path, data_dir: bool) -> None:
    with pytest.raises(DatasetError) as caught:
        open_dataset("imagenet", Path(), data_dir=tmp_path if data_dir else None)
    hint = str(caught.value.hint)
    if data_dir:
        assert imagenet.TAR in hint
        assert ARCHIVE in hint
        assert str(tmp_path / "imagenet") in hint
    else:
        assert "imagenet:PATH" in hint


def test_an_archive_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    archive = as_tar(tmp_path) / imagenet.TAR
    whole = archive.read_bytes()
    with tarfile.open(archive) as opened:
        last = opened.getmembers()[-1]
    # Within the last image, after a whole image, within a header.
    for size in (last.offset_data + last.size - 1, last.offset, last.offset + 100):
        archive.write_bytes(whole[:size])
        with pytest.raises(DatasetError, match=imagenet.TAR):
            open_dataset(f"imagenet:{tmp_path}", Path())


def test_a_missing_or_broken_image_is_named(tmp_path: Path) -> None:
    fewer = dict(list(images().items())[1:])
    tar(as_tar(tmp_path / "tar") / imagenet.TAR, fewer, "w")
    with pytest.raises(DatasetError, match=r"1 of 12 .*ILSVRC2012_val_00000012\.JPEG"):
        open_dataset(f"imagenet:{tmp_path / 'tar'}", Path())
    (as_flat(tmp_path / "flat") / "ILSVRC2012_val_00000003.JPEG").unlink()
    with pytest.raises(DatasetError, match=r"ILSVRC2012_val_00000003\.JPEG"):
        open_dataset(f"imagenet:{tmp_path / 'flat'}", Path())
    broken = images() | {"ILSVRC2012_val_00000005.JPEG": b"no picture"}
    tar(tmp_path / "tar" / imagenet.TAR, broken, "w")
    dataset = open_dataset(f"imagenet:{tmp_path / 'tar'}", Path())
    (bad,) = [sample for sample in dataset.samples(SMALL) if sample.pixels is None]
    assert bad.name.endswith("ILSVRC2012_val_00000005.JPEG")
    assert bad.label is not None
    assert str(bad.error).startswith(bad.name)


def test_an_archive_that_shrinks_while_it_is_read_ends_the_run(tmp_path: Path) -> None:
    dataset = open_dataset(f"imagenet:{as_tar(tmp_path)}", Path())
    signature = dataset.stat_signature()
    archive = tmp_path / imagenet.TAR
    archive.write_bytes(archive.read_bytes()[:2000])
    with pytest.raises(DatasetError, match=imagenet.TAR):
        list(dataset.samples(SMALL))
    assert dataset.stat_signature() != signature
    archive.unlink()
    for read in (lambda: list(dataset.samples(SMALL)), dataset.fingerprint):
        with pytest.raises(DatasetError, match=imagenet.TAR):
            read()


@pytest.mark.parametrize("form", [as_flat, as_tar])
def test_images_that_are_written_again_end_the_run(
    tmp_path: Path, form: Callable[[Path], Path]
) -> None:
    dataset = open_dataset(f"imagenet:{form(tmp_path)}", Path())
    dataset.stat_signature()
    assert len(list(dataset.samples(SMALL))) == len(dataset)
    form(tmp_path)
    with pytest.raises(DatasetError, match="ILSVRC2012"):
        list(dataset.samples(SMALL))


def test_a_part_of_the_classes_is_a_folder_and_not_imagenet(tmp_path: Path) -> None:
    root = as_classes(tmp_path)
    for path in (root / WNIDS[0]).iterdir():
        path.unlink()
    with pytest.raises(DatasetError, match="9 images of 3 classes") as caught:
        open_dataset(f"imagenet:{root}", Path())
    assert f"folder:{root}" in str(caught.value.hint)
    dataset = open_dataset(f"folder:{root}", Path())
    assert label_map(dataset.class_names, 1000) is not None


def test_other_classes_are_refused(tmp_path: Path) -> None:
    root = as_classes(tmp_path)
    write(root, {"cats/1.JPEG": jpeg()})
    with pytest.raises(DatasetError, match="cats"):
        open_dataset(f"imagenet:{root}", Path())


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({}, "development kit"),
        (kit(TRUTH[:-1]), "11 images"),
        (kit([1] * 12), "3 of each class"),
        (kit([9, *TRUTH[1:]]), "ground truth.* 9"),
        (kit(classes=b"MATLAB 5.0 MAT-file" + bytes(200)), r"meta\.mat"),
        (kit(classes=meta()[:300]), r"meta\.mat"),
        (kit(classes=meta(WNIDS[:3])), r"meta\.mat .* 3 classes"),
        (kit(classes=meta((*WNIDS[:3], "n99999999"))), r"meta\.mat"),
        ({f"{FOLDER}/readme.txt": b"x"}, r"meta\.mat"),
    ],
)
def test_another_kit_is_refused(tmp_path: Path, files: dict[str, bytes], named: str) -> None:
    with pytest.raises(DatasetError, match=named) as caught:
        open_dataset(f"imagenet:{write(tmp_path, {**images(), **files})}", Path())
    assert ARCHIVE in str(caught.value.hint)


def test_a_kit_is_read_to_the_sum_at_its_end(tmp_path: Path) -> None:
    archive = as_tar(tmp_path) / ARCHIVE
    content = bytearray(archive.read_bytes())
    content[-8] ^= 1  # of gzip's sum over all content
    archive.write_bytes(content)
    with pytest.raises(DatasetError, match="CRC check failed"):
        open_dataset(f"imagenet:{tmp_path}", Path())


def test_a_kit_packed_otherwise_is_refused_where_it_is_damaged(tmp_path: Path) -> None:
    long = {**kit(), f"{FOLDER}/readme.txt": noise(1 << 20).tobytes()}
    archive = tar(as_tar(tmp_path) / ARCHIVE, long)
    content = bytearray(lzma.compress(gzip.decompress(archive.read_bytes())))
    content[len(content) // 2] ^= 255
    archive.write_bytes(content)
    with pytest.raises(DatasetError, match=ARCHIVE):
        open_dataset(f"imagenet:{tmp_path}", Path())


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"cats/1.jpg": jpeg()})
    with pytest.raises(DatasetError, match=str(tmp_path)) as caught:
        open_dataset(f"imagenet:{tmp_path}", Path())
    assert imagenet.TAR in str(caught.value.hint)


def test_a_kit_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    as_tar(tmp_path)
    tar(tmp_path / ARCHIVE, {**kit(), f"{FOLDER}/readme.txt": bytes(2**25)})
    with pytest.raises(DatasetError, match="more than"):
        open_dataset(f"imagenet:{tmp_path}", Path())
