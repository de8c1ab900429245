"""Datasets: torchvision's pixels, one fixed order, and broken pictures that end nothing."""

from __future__ import annotations

import hashlib
import os
import struct
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import ImageFolder
from torchvision.transforms import InterpolationMode, v2

from catalog.datasets import DATASET_NAMES, DATASETS, ImageDataset, needed_files, open_dataset
from catalog.datasets.kinds.folder import FolderDataset
from catalog.datasets.kinds.random import RandomDataset
from catalog.models.base import InputTransform
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.plan import make_plan
from survey.errors import DatasetError, UnknownName

SMALL = InputTransform(size=16, resize=20)


def _picture(
    path: Path, width: int = 24, height: int = 30, mode: str = "RGB", seed: int = 0
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    Image.fromarray(noise).convert(mode).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for seed, name in enumerate(["a/1.png", "a/deep/2.PNG", "b/1.jpg", "b/2.bmp", "c/9.webp"]):
        _picture(root / name, seed=seed)
    (root / "a" / "notes.txt").write_text("no picture")
    return root


def _names(dataset: ImageDataset, start: int = 0) -> list[str]:
    return [sample.name for sample in dataset.samples(SMALL, start)]


def _wide_png(grey: NDArray[np.uint16], colour: bool) -> bytes:
    """Return a picture of 16 bits a channel, as the format's own description lays it out."""
    rows = np.repeat(grey[..., None], 3 if colour else 1, axis=2).astype(">u2")
    head = struct.pack(">IIBBBBB", grey.shape[1], grey.shape[0], 16, 2 if colour else 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    chunks = [(b"IHDR", head), (b"IDAT", body), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content))
        + kind
        + content
        + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )


def _wide_pgm(grey: NDArray[np.uint16]) -> bytes:
    height, width = grey.shape
    return b"P5\n%d %d\n65535\n" % (width, height) + grey.astype(">u2").tobytes()


def test_sixteen_bits_of_grey_are_what_they_are_in_colour(tmp_path: Path) -> None:
    grey = np.random.default_rng(0).integers(0, 1 << 16, (30, 24)).astype(np.uint16)
    files = {"grey.png": _wide_png(grey, colour=False), "colour.png": _wide_png(grey, colour=True)}
    files["grey.pgm"] = _wide_pgm(grey)
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    Image.fromarray(grey).save(tmp_path / "grey.tif")
    wide = torch.from_numpy(np.stack([grey] * 3))
    scaled = v2.functional.to_dtype(wide, torch.uint8, scale=True)
    picture = v2.functional.to_pil_image(scaled)
    assert np.array_equal(np.asarray(picture)[..., 0], grey >> 8)
    expected = v2.functional.pil_to_tensor(
        v2.functional.center_crop(v2.functional.resize(picture, [20], antialias=True), [16, 16])
    )
    samples = {sample.name: sample for sample in FolderDataset("x", tmp_path).samples(SMALL)}
    assert set(samples) == {*files, "grey.tif"}
    for sample in samples.values():
        assert sample.pixels is not None
        assert torch.equal(sample.pixels, expected), sample.name


def _tiff(values: bytes, side: int, bits: int, photometric: int) -> bytes:
    """Return a grey TIFF of one strip, as its specification lays it out."""
    tags = {256: side, 257: side, 258: bits, 259: 1, 262: photometric, 273: 8 + 2 + 12 * 9 + 4}
    tags |= {277: 1, 278: side, 279: len(values)}
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(4) + values


@pytest.mark.parametrize(("bits", "photometric"), [(12, 1), (16, 1), (16, 0), (8, 1), (8, 0)])
def test_grey_of_any_depth_goes_from_black_to_white(
    tmp_path: Path, bits: int, photometric: int
) -> None:
    ramp = np.linspace(0, (1 << bits) - 1, 16 * 16).round().astype(int)
    stored = ramp if photometric else (1 << bits) - 1 - ramp
    packed = "".join(f"{value:0{bits}b}" for value in stored)
    values = int(packed, 2).to_bytes(len(packed) // 8, "big")
    if bits == 16:
        values = stored.astype("<u2").tobytes()
    (tmp_path / "grey.tif").write_bytes(_tiff(values, 16, bits, photometric))
    whole = InputTransform(size=16, resize=16)
    (sample,) = FolderDataset("x", tmp_path).samples(whole)
    assert sample.pixels is not None, sample.error
    assert torch.equal(sample.pixels[0].flatten(), torch.from_numpy(ramp >> (bits - 8)).byte())


def test_values_without_a_white_are_no_picture(tmp_path: Path) -> None:
    Image.fromarray(np.ones((8, 8), np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.ones((8, 8), np.int32)).save(tmp_path / "whole.tif")
    samples = {sample.name: sample for sample in FolderDataset("x", tmp_path).samples(SMALL)}
    assert samples["float.tif"].pixels is samples["whole.tif"].pixels is None
    assert samples["float.tif"].error
    assert samples["whole.tif"].error


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA", "P", "CMYK", "1"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("shape", [(24, 30), (31, 17), (224, 50), (5, 4), (20, 20), (21, 20)])
def test_pixels_are_torchvisions(
    tmp_path: Path, mode: str, interpolation: str, shape: tuple[int, int]
) -> None:
    suffix = ".tif" if mode == "CMYK" else ".png"
    path = _picture(tmp_path / "root" / f"x{suffix}", *shape, mode=mode)
    for size, resize in [(16, 20), (20, 20), (32, 20)]:
        transform = InputTransform(size, resize, interpolation)  # type: ignore[arg-type]
        (sample,) = FolderDataset("x", path.parent).samples(transform)
        expected = v2.Compose(
            [
                v2.Resize(resize, InterpolationMode(interpolation), antialias=True),
                v2.CenterCrop(size),
                v2.PILToTensor(),
            ]
        )(Image.open(path).convert("RGB"))
        assert sample.pixels is not None
        assert sample.pixels.dtype == torch.uint8
        assert torch.equal(sample.pixels, expected)


@pytest.mark.parametrize("shape", [(24, 30), (31, 17), (20, 20)])
@pytest.mark.parametrize("size", [16, 20])
def test_squashed_pixels_are_torchvisions(
    tmp_path: Path, shape: tuple[int, int], size: int
) -> None:
    path = _picture(tmp_path / "root" / "x.png", *shape)
    (sample,) = FolderDataset("x", path.parent).samples(InputTransform(size, 20, crop="squash"))
    expected = v2.Compose(
        [v2.Resize((20, 20), antialias=True), v2.CenterCrop(size), v2.PILToTensor()]
    )(Image.open(path))
    assert sample.pixels is not None
    assert torch.equal(sample.pixels, expected)


def test_names_and_labels_are_imagefolders(folder: Path) -> None:
    reference = ImageFolder(folder)
    expected = {
        Path(path).relative_to(folder).as_posix(): label for path, label in reference.samples
    }
    dataset = open_dataset("folder:pictures", folder.parent)
    assert dataset.name == "folder:pictures"
    assert dataset.class_names == tuple(reference.classes)
    assert len(dataset) == len(expected)
    assert list(dataset.labels()) == [sample.label for sample in dataset.samples(SMALL)]
    assert {sample.name: sample.label for sample in dataset.samples(SMALL)} == expected


def test_the_order_is_fixed_shuffled_and_resumable(tmp_path: Path) -> None:
    root = tmp_path / "many"
    for index in range(90):
        _picture(root / "ab"[index % 2] / f"{index:03}.bmp", 8, 8, seed=index)
    dataset = FolderDataset("folder:many", root)
    names = _names(dataset)
    assert len(set(names)) == 90
    assert names != sorted(names)
    assert _names(FolderDataset("folder:many", root)) == names
    assert _names(dataset, 37) == names[37:]
    assert _names(dataset, 90) == []
    assert [sample.position for sample in dataset.samples(SMALL, 85)] == [85, 86, 87, 88, 89]
    # Any 40 of the 45 + 45 pictures would do; a sorted order would begin with one class alone.
    assert 8 < sum(name.startswith("a/") for name in names[:40]) < 32


def test_pictures_that_are_no_part_of_a_folder_are_counted(folder: Path) -> None:
    assert FolderDataset("folder:pictures", folder).left_out is None
    for name in ("x.png", "y.jpg"):
        _picture(folder / name)
    (folder / "a" / "deep" / "moving.GIF").touch()
    (folder / ".hidden.gif").touch()
    dataset = open_dataset("folder:pictures[:3]", folder.parent)
    assert dataset.left_out is not None
    assert "2 pictures beside the class folders" in dataset.left_out
    assert "1 picture of kinds that are not read" in dataset.left_out
    assert len(FolderDataset("folder:pictures", folder)) == 5
    values: dict[str, Any] = {"models": [{"name": "small:digits_vgg7"}]}
    values["settings"] = {"images_per_score": 5}
    values["datasets"] = [{"name": f"folder:{folder}"}]
    plan = make_plan(parse_definition(values, "test", folder), {}, Holdings())
    (line,) = plan.left_out
    assert line.startswith(f"folder:{folder}: ")


def test_a_picture_more_leaves_the_others_in_order(folder: Path) -> None:
    before = _names(FolderDataset("x", folder))
    _picture(folder / "b" / "new.png", seed=77)
    after = _names(FolderDataset("x", folder))
    assert [name for name in after if name != "b/new.png"] == before


def test_a_flat_folder_has_no_labels(tmp_path: Path) -> None:
    _picture(tmp_path / "one.png")
    (tmp_path / "empty").mkdir()
    dataset = FolderDataset("x", tmp_path)
    assert dataset.class_names == ()
    assert [(sample.name, sample.label) for sample in dataset.samples(SMALL)] == [("one.png", None)]


def test_hidden_entries_and_circles_of_links_are_left_out(folder: Path) -> None:
    before = FolderDataset("x", folder)
    _picture(folder / ".cache" / "x.png")
    _picture(folder / "a" / "._1.png")
    (folder / "a" / "again").symlink_to(folder, target_is_directory=True)
    after = FolderDataset("x", folder)
    assert after.class_names == before.class_names
    assert _names(after) == _names(before)


def test_links_that_lead_to_each_other_end(tmp_path: Path) -> None:
    for name, other in ("ab", "ba"):
        _picture(tmp_path / name / f"{name}.png")
        for link in ("one", "two"):
            (tmp_path / name / link).symlink_to(tmp_path / other, target_is_directory=True)
    names = sorted(_names(FolderDataset("x", tmp_path)))
    assert names == [
        "a/a.png",
        "a/one/b.png",
        "a/two/b.png",
        "b/b.png",
        "b/one/a.png",
        "b/two/a.png",
    ]


def test_links_to_what_is_no_file_are_left_out(folder: Path) -> None:
    before = len(FolderDataset("x", folder))
    os.mkfifo(folder / "pipe")
    for number, target in enumerate([folder / "pipe", Path("/dev/zero")]):
        (folder / "a" / f"link{number}.png").symlink_to(target)
    assert len(FolderDataset("x", folder)) == before


def _as_nobody(work: Callable[[], object]) -> str:
    """Return the error that work ends in where files' modes count, as they do not for root."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            work()
            ending = "nothing was raised"
        except BaseException as problem:  # noqa: BLE001 - sent to the parent
            ending = f"{type(problem).__name__}: {problem}"
        os.write(writing, ending.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        ending = answer.read()
    os.waitpid(child, 0)
    return ending


@pytest.mark.parametrize("closed", ["a/1.png", "a/deep", "a", "."])
def test_what_may_not_be_read_is_named_and_never_left_out(closed: str) -> None:
    # Folders of pytest's own are for their owner alone.
    with tempfile.TemporaryDirectory() as parent:
        Path(parent).chmod(0o755)
        root = Path(parent) / "pictures"
        for name in ("a/1.png", "a/deep/2.png", "b/1.png"):
            _picture(root / name)
        mode = (root / closed).stat().st_mode
        (root / closed).chmod(0)
        ending = _as_nobody(lambda: FolderDataset("x", root).fingerprint())
        (root / closed).chmod(mode)
        assert ending.startswith("DatasetError: ")
        assert f"{root / closed}" in ending
        assert "Permission denied" in ending


def _break(folder: Path) -> dict[str, bytes]:
    whole = _picture(folder / "a" / "whole.png", 200, 200).read_bytes()
    huge = bytearray(whole)
    huge[16:24] = (30_000).to_bytes(4, "big") * 2
    return {
        "a/truncated.png": whole[: len(whole) // 2],
        "a/page.jpg": b"<html>not found</html>",
        "a/empty.png": b"",
        "a/huge.png": bytes(huge),
        "a/junk.tif": b"II*\x00" + bytes(range(256)),
        # Its first directory lies beyond the end of any file.
        "a/far.tif": b"II+\x00\x08\x00\x00\x00" + (2**63 - 1).to_bytes(8, "little"),
        "a/junk.webp": b"RIFF\x00\x00\x00\x00WEBPVP8 " + bytes(64),
    }


def test_broken_pictures_are_samples_with_a_reason(folder: Path) -> None:
    broken = _break(folder)
    for name, content in broken.items():
        (folder / name).write_bytes(content)
    (folder / "a" / "gone.png").symlink_to(folder / "nowhere.png")
    samples = list(FolderDataset("x", folder).samples(SMALL))
    failed = {sample.name: sample for sample in samples if sample.pixels is None}
    assert set(failed) == {*broken, "a/gone.png"}
    for name, sample in failed.items():
        assert sample.label == 0
        assert sample.error is not None
        assert sample.error.startswith(name)
        assert str(folder) not in sample.error
    assert len(samples) == 6 + len(failed)
    assert all(sample.error is None for sample in samples if sample.pixels is not None)


def test_a_hair_thin_picture_is_not_enlarged_without_bounds(tmp_path: Path) -> None:
    _picture(tmp_path / "a" / "thin.png", 20_000, 1)
    (sample,) = FolderDataset("x", tmp_path).samples(InputTransform(224, 256))
    assert sample.pixels is None
    assert sample.error is not None
    assert "20000 x 1" in sample.error
    # Where proportions are given up, nothing grows.
    (sample,) = FolderDataset("x", tmp_path).samples(InputTransform(224, 256, crop="squash"))
    assert sample.pixels is not None


def test_a_large_picture_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a" / "large.png"
    path.parent.mkdir()
    Image.new("1", (10_000, 9_000)).save(path)
    (sample,) = FolderDataset("x", tmp_path).samples(SMALL)
    assert sample.pixels is None


@pytest.mark.parametrize("make", ["missing", "file", "empty", "no_pictures", "empty_classes"])
def test_a_folder_without_pictures_is_refused(tmp_path: Path, make: str) -> None:
    root = tmp_path / "root"
    if make == "file":
        root.write_text("x")
    elif make != "missing":
        root.mkdir()
    if make == "no_pictures":
        (root / "readme.txt").write_text("x")
    if make == "empty_classes":
        (root / "a").mkdir()
    with pytest.raises(DatasetError, match="root") as caught:
        open_dataset("folder:root", tmp_path)
    assert caught.value.hint


def test_fingerprints_follow_content_and_signatures_follow_files(folder: Path) -> None:
    first = FolderDataset("x", folder)
    fingerprint, signature = first.fingerprint(), first.stat_signature()
    assert FolderDataset("other name", folder).fingerprint() == fingerprint
    path = folder / "a" / "1.png"
    times = path.stat()
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns + 10))
    assert first.fingerprint() == fingerprint
    assert first.stat_signature() != signature
    signature = first.stat_signature()
    # Another file with the same size and times, as far as its owner can set them.
    path.with_suffix(".new").write_bytes(path.read_bytes())
    os.utime(path.with_suffix(".new"), ns=(times.st_atime_ns, times.st_mtime_ns + 10))
    path.with_suffix(".new").rename(path)
    assert first.stat_signature() != signature
    _picture(path, seed=99)
    assert first.fingerprint() != fingerprint
    fingerprint = first.fingerprint()
    (folder / "a").rename(folder / "z")
    assert FolderDataset("x", folder).fingerprint() != fingerprint


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".bmp", ".tif", ".webp"])
def test_a_picture_that_changes_after_the_signature_is_refused(tmp_path: Path, suffix: str) -> None:
    path = _picture(tmp_path / "root" / f"x{suffix}")
    content = path.read_bytes()
    dataset = FolderDataset("x", path.parent)
    signature, fingerprint = dataset.stat_signature(), dataset.fingerprint()
    (first,) = dataset.samples(SMALL)
    assert first.pixels is not None
    for other in (content[:-9], b"no picture", content):
        path.write_bytes(other)
        with pytest.raises(DatasetError, match=path.name):
            list(dataset.samples(SMALL))
    # What it holds is asked apart: it is the same again.
    assert dataset.stat_signature() != signature
    assert dataset.fingerprint() == fingerprint
    with pytest.raises(DatasetError, match=path.name):
        list(dataset.samples(SMALL))


def test_what_leaves_a_picture_s_content_is_no_change(tmp_path: Path) -> None:
    path = _picture(tmp_path / "root" / "x.png")
    dataset = FolderDataset("x", path.parent)
    dataset.stat_signature()
    path.chmod(0o600)
    (tmp_path / "copy.png").hardlink_to(path)
    (sample,) = dataset.samples(SMALL)
    assert sample.pixels is not None


def test_a_link_that_comes_to_lead_nowhere_is_refused(tmp_path: Path) -> None:
    target = _picture(tmp_path / "target.png")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "x.png").symlink_to(target)
    dataset = FolderDataset("x", tmp_path / "root")
    dataset.stat_signature()
    target.unlink()
    with pytest.raises(DatasetError, match=r"x\.png"):
        list(dataset.samples(SMALL))


def test_leaving_early_ends_the_decoding(folder: Path) -> None:
    before = threading.active_count()
    samples = iter(FolderDataset("x", folder).samples(SMALL))
    next(samples)
    samples.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_random_images_are_standard_normal_and_seeded_by_position() -> None:
    dataset = open_dataset("random:50", Path())
    transform = InputTransform(size=24, resize=24)
    samples = list(dataset.samples(transform))
    assert len(samples) == len(dataset) == 50
    assert dataset.class_names == ()
    values = torch.stack([sample.pixels for sample in samples if sample.pixels is not None])
    assert values.dtype == torch.float32
    assert values.shape == (50, 3, 24, 24)
    assert all(sample.label is None for sample in samples)
    # 86,400 values: a mean 5 standard errors off 0, or a deviation off 1, would be a wrong draw.
    assert abs(values.mean().item()) < 5 / values.numel() ** 0.5
    assert abs(values.std().item() - 1) < 5 / (2 * values.numel()) ** 0.5
    correlation = torch.corrcoef(values.flatten(1)) - torch.eye(50)
    assert correlation.abs().max().item() < 6 / values[0].numel() ** 0.5
    (again,) = (sample.pixels for sample in dataset.samples(transform, 49))
    assert again is not None
    assert torch.equal(again, values[49])


def test_random_leaves_torchs_own_state_alone() -> None:
    state = torch.get_rng_state()
    list(RandomDataset("random:3", 3).samples(SMALL))
    assert torch.equal(torch.get_rng_state(), state)


def test_random_fingerprints_tell_the_number_of_images() -> None:
    assert open_dataset("random", Path()).fingerprint() == RandomDataset("x", 2048).fingerprint()
    assert len(open_dataset("random", Path())) == 2048
    assert RandomDataset("x", 1).fingerprint() != RandomDataset("x", 2).fingerprint()


@pytest.mark.parametrize("name", ["random:0", "random:-1", "random:x", "random:1.5", "random:²"])
def test_random_wants_a_number_of_images(name: str) -> None:
    with pytest.raises(DatasetError, match=name) as caught:
        open_dataset(name, Path())
    assert "random:2048" in str(caught.value.hint)


@pytest.mark.parametrize(
    "name",
    [
        *("", "digit", "digits:", "digits:tests", "folder:", "folder", "random:"),
        *("cifar", "cifar10:", "cifar10:test", "cifar100:valid", "fashion-mnist:", "imagenet:"),
        *("parquet", "parquet:", "imagenet1k"),
    ],
)
def test_unknown_names_are_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(UnknownName, match="dataset") as caught:
        open_dataset(name, Path())
    with pytest.raises(UnknownName, match="dataset"):
        needed_files(name)
    assert any(known in str(caught.value.hint) for known in DATASET_NAMES)


def test_a_folder_that_goes_away_is_no_broken_picture(folder: Path) -> None:
    dataset = FolderDataset("x", folder)
    for path in folder.rglob("*.png"):
        path.unlink()
    with pytest.raises(DatasetError, match=str(folder)):
        list(dataset.samples(SMALL))


def test_only_picture_formats_are_tried(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    (folder / "a" / "program.jpg").write_bytes(eps)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a program was run")

    monkeypatch.setattr("subprocess.Popen", refuse)
    samples = {s.name: s for s in FolderDataset("x", folder).samples(SMALL)}
    assert samples["a/program.jpg"].error is not None


def test_pipes_are_not_pictures(folder: Path) -> None:
    before = len(FolderDataset("x", folder))
    os.mkfifo(folder / "a" / "pipe.png")
    assert len(FolderDataset("x", folder)) == before


def test_names_that_are_no_text_can_be_stored(folder: Path) -> None:
    (folder / "a" / os.fsdecode(b"caf\xe9.png")).write_bytes(b"not a picture")
    names = [s.name for s in FolderDataset("x", folder).samples(SMALL)]
    assert any("\\udce9" in name for name in names)
    assert all(name.encode() for name in names)


def test_names_are_shown_on_one_line(folder: Path) -> None:
    (folder / "a" / "two\nlines\x1b[31m\u2028\u202e.png").write_bytes(b"not a picture")
    samples = {s.name: s for s in FolderDataset("x", folder).samples(SMALL)}
    shown = samples["a/two\\nlines\\x1b[31m\\u2028\\u202e.png"]
    assert shown.error is not None
    assert shown.error.startswith(shown.name)
    assert shown.error.isprintable()


def test_the_listing_is_what_can_be_opened() -> None:
    assert sorted(DATASET_NAMES, key=lambda name: name.split(":")) == list(DATASET_NAMES)
    for info in DATASETS:
        name = info.syntax.replace("PATH", "x").replace("IMAGES", "5")
        files = needed_files(name)
        assert sum(file.bytes or 0 for file in files) == info.download_bytes
        assert all(file.sha256 and file.md5 for file in files)
        assert {file.licence for file in files} <= {info.licence}
        assert info.sentence.endswith(".")
        if name.startswith(("digits", "random")):
            dataset = open_dataset(name, Path())
            assert info.images in {len(dataset), None}
            assert info.classes == len(dataset.class_names)


def test_the_order_is_the_hash_of_the_names_for_ever(tmp_path: Path) -> None:
    # Written down: any other order would make stored batches incomparable with new ones.
    for name in "abcdefgh":
        _picture(tmp_path / "root" / f"{name}.png", 8, 8)
    names = _names(FolderDataset("x", tmp_path / "root"))
    assert names == [f"{letter}.png" for letter in "cghfbead"]


def test_the_fingerprints_of_digits_are_what_they_were() -> None:
    # Written down: a run's key is made from it, and another one would be measured anew.
    starts = ["digits", "digits:heldout", "digits:train"]
    prints = [open_dataset(name, Path()).fingerprint()[:12] for name in starts]
    assert prints == ["8a09a228c786", "3200d0611984", "e293a21a517c"]


def test_the_fingerprint_of_a_folder_is_its_recipe(folder: Path) -> None:
    digest = hashlib.sha256(repr(("a", "b", "c")).encode())
    for sample in FolderDataset("x", folder).samples(SMALL):
        content = hashlib.sha256((folder / sample.name).read_bytes()).hexdigest()
        digest.update(repr((sample.name, sample.label, content)).encode())
    assert FolderDataset("x", folder).fingerprint() == digest.hexdigest()


def test_a_pipe_in_a_pictures_place_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    dataset = open_dataset(f"folder:{tmp_path}", Path())
    (tmp_path / "a.jpg").unlink()
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(DatasetError, match="pipe"):
        dataset.fingerprint()
