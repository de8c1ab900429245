"""Decoded pixels: the samples of the dataset itself, whatever happens to the cache."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pytest
import torch
from filelock import FileLock
from PIL import Image

from catalog.datasets import open_dataset
from catalog.datasets.base import ImageDataset, Sample
from catalog.datasets.kinds.folder import FolderDataset
from catalog.datasets.kinds.random import RandomDataset
from catalog.models.base import InputTransform
from catalog.pixel_cache import cache as cache_module
from catalog.pixel_cache import entry, eviction
from catalog.pixel_cache.cache import PixelCache
from catalog.pixel_cache.checksums import Sums
from survey.errors import DatasetError
from tests.shared_data import shared

SMALL = InputTransform(size=16, resize=20)


class Pictures:
    """Noise as uint8, that counts what is decoded; every seventh picture is broken."""

    class_names = ("even", "odd")

    name = "pictures"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.decoded = 0
        self.signature = "unchanged"

    def __len__(self) -> int:
        return 40

    def stat_signature(self) -> str:
        return self.signature

    def fingerprint(self) -> str:
        return f"pictures of seed {self.seed}"

    def samples(self, transform: InputTransform, start: int = 0) -> Iterator[Sample]:
        for position in range(start, len(self)):
            self.decoded += 1
            shape = (transform.size, transform.size, 3)
            noise = np.random.default_rng([self.seed, position]).integers(0, 256, shape, np.uint8)
            # As Pillow's pixels lie: colours last.
            picture = torch.from_numpy(noise).permute(2, 0, 1)
            broken = position % 7 == 3
            yield Sample(
                position,
                f"{position}.png",
                None if broken else picture,
                position % 2,
                "cut short ☹ \udcff" if broken else None,
            )


class Plain(NamedTuple):
    """A sample whose pixels can be compared."""

    position: int
    name: str
    pixels: bytes | None
    shape: tuple[int, ...]
    label: int | None
    error: str | None


def plain(samples: Iterator[Sample], end: int | None = None) -> list[Plain]:
    taken = []
    for sample in samples:
        content = None if sample.pixels is None else sample.pixels.numpy().tobytes()
        shape = () if sample.pixels is None else tuple(sample.pixels.shape)
        taken.append(
            Plain(sample.position, sample.name, content, shape, sample.label, sample.error)
        )
        if len(taken) == end:
            break
    return taken


def through(
    cache: PixelCache,
    dataset: ImageDataset,
    transform: InputTransform = SMALL,
    start: int = 0,
) -> list[Plain]:
    return plain(cache.samples(dataset, dataset.fingerprint(), transform, start))


def entries(cache: PixelCache) -> list[Path]:
    return sorted(path for path in cache.root.glob("*") if "." not in path.name)


def unfinished(cache: PixelCache) -> list[Path]:
    return [path for path in cache.root.glob("*") if path.suffix in {".part", ".trash"}]


@pytest.fixture
def cache(tmp_path: Path) -> PixelCache:
    return PixelCache(tmp_path / "cache" / "pixels")


def test_every_sample_field_is_kept() -> None:
    assert set(entry.LISTED) | {"position", "pixels"} == {
        field.name for field in dataclasses.fields(Sample)
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    for seed in range(12):
        path = root / "abc"[seed % 3] / f"{seed}.{'png' if seed % 2 else 'jpg'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(seed).integers(0, 256, (30, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(path)
    (root / "a" / "text.png").write_text("no picture")
    (root / "b" / "cut.png").write_bytes((root / "b" / "1.png").read_bytes()[:500])
    (root / "c" / "gone.png").symlink_to(root / "nowhere.png")
    (root / os.fsdecode(b"c/\xff.png")).write_bytes(b"")
    return root


@pytest.mark.parametrize("size", [16, 5, 1])
def test_samples_are_the_datasets_own_before_and_after(
    cache: PixelCache, folder: Path, size: int
) -> None:
    dataset = FolderDataset("x", folder)
    transform = InputTransform(size=size, resize=20)
    expected = plain(dataset.samples(transform))
    assert sum(sample.pixels is None for sample in expected) == 4
    assert through(cache, dataset, transform) == expected
    with mock.patch.object(FolderDataset, "samples", side_effect=AssertionError("decoded")):
        assert through(cache, dataset, transform) == expected
        for start in (1, 7, 15, 16, 20):
            assert through(cache, dataset, transform, start) == expected[start:]
    assert len(entries(cache)) == 1
    assert not unfinished(cache)


def test_digits_are_kept(cache: PixelCache) -> None:
    dataset = open_dataset("digits[:20]", Path())
    expected = plain(dataset.samples(SMALL))
    assert through(cache, dataset) == expected == through(cache, dataset)
    assert len(entries(cache)) == 1


@pytest.mark.real_data
def test_photographs_are_kept(cache: PixelCache, tmp_path: Path) -> None:
    for photograph in sorted(shared("data/imagenet-sample").glob("*/*"))[:12]:
        place = tmp_path / "photographs" / photograph.parent.name
        place.mkdir(parents=True)
        (place / photograph.name).symlink_to(photograph)
    dataset = open_dataset("folder:photographs", tmp_path)
    transform = InputTransform(size=224, resize=256)
    expected = plain(dataset.samples(transform))
    assert through(cache, dataset, transform) == expected == through(cache, dataset, transform)


def test_the_files_are_what_is_documented(cache: PixelCache) -> None:
    dataset = Pictures()
    through(cache, dataset)
    (entry,) = entries(cache)
    stored = np.load(entry / "pixels.npy")
    assert stored.dtype == np.uint8
    for sample in dataset.samples(SMALL):
        expected = np.zeros((3, 16, 16)) if sample.pixels is None else sample.pixels.numpy()
        assert np.array_equal(stored[sample.position], expected)
    assert {path.name for path in entry.iterdir()} == {"pixels.npy", "samples.json"}
    assert (entry / "samples.json").read_text(encoding="ascii").startswith('{"sha256": "')


def test_noise_passes_through_and_leaves_nothing(cache: PixelCache) -> None:
    dataset = RandomDataset("random:5", 5)
    assert through(cache, dataset) == plain(dataset.samples(SMALL)) == through(cache, dataset)
    assert not cache.root.exists()


def test_an_entry_is_one_dataset_under_one_geometry(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Pictures()
    through(cache, dataset)
    through(cache, dataset, dataclasses.replace(SMALL, mean=(0, 0, 0), std=(1, 1, 1)))
    assert dataset.decoded == 40
    for index, change in enumerate([{"size": 8}, {"resize": 24}, {"interpolation": "bicubic"}], 2):
        other = dataclasses.replace(SMALL, **change)  # type: ignore[arg-type]
        assert through(cache, dataset, other) == plain(Pictures().samples(other))
        assert len(entries(cache)) == index
    changed = Pictures(seed=1)
    assert through(cache, changed) == plain(Pictures(seed=1).samples(SMALL))
    assert len(entries(cache)) == 5
    monkeypatch.setattr(cache_module, "version", lambda package: f"{package} 99")
    through(cache, dataset)
    assert len(entries(cache)) == 6
    monkeypatch.setattr(cache_module, "REVISION", cache_module.REVISION + 1)
    through(cache, dataset)
    assert len(entries(cache)) == 7


def test_what_a_caller_writes_stays_its_own(cache: PixelCache) -> None:
    dataset = Pictures()
    expected = through(cache, dataset)
    one = cache.samples(dataset, dataset.fingerprint(), SMALL)
    other = cache.samples(dataset, dataset.fingerprint(), SMALL)
    seen = []
    for written, untouched in zip(one, other, strict=True):
        if written.pixels is not None:
            written.pixels.fill_(7)
        seen.extend(plain(iter([untouched])))
    assert seen == expected == through(cache, dataset)
    assert dataset.decoded == 40


def test_a_mapping_goes_on_piece_by_piece(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "MAP_BYTES", 3 * 768 + 5)
    dataset = Pictures()
    expected = through(cache, dataset)
    assert through(cache, dataset) == expected
    assert through(cache, dataset, start=17) == expected[17:]
    assert dataset.decoded == 40


def test_an_entry_that_cannot_be_mapped_on_is_left_alone(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Pictures()
    expected = through(cache, dataset)
    memmap, calls = np.memmap, iter(range(100))

    def refused(*args: Any, **kwargs: Any) -> Any:
        if next(calls) == 2:
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return memmap(*args, **kwargs)

    monkeypatch.setattr(entry, "MAP_BYTES", 10 * 768)
    monkeypatch.setattr(np, "memmap", refused)
    assert through(cache, dataset, start=3) == expected[3:]
    # How many are decoded after all depends on how far ahead it was mapped.
    decoded = dataset.decoded
    assert 40 < decoded <= 40 + 40 - 3
    assert through(cache, dataset) == expected
    assert dataset.decoded == decoded


@pytest.mark.parametrize("taken", [1, 20, 39])
def test_a_generator_dropped_half_way_leaves_nothing(cache: PixelCache, taken: int) -> None:
    dataset = Pictures()
    plain(cache.samples(dataset, dataset.fingerprint(), SMALL), end=taken)
    assert not entries(cache)
    assert not unfinished(cache)
    assert through(cache, dataset) == plain(Pictures().samples(SMALL))
    assert len(entries(cache)) == 1


def test_who_stops_at_the_last_sample_has_built(cache: PixelCache) -> None:
    dataset = Pictures()
    samples = cache.samples(dataset, dataset.fingerprint(), SMALL)
    assert len([next(samples) for _ in range(40)]) == 40
    assert len(entries(cache)) == 1


def test_a_resumed_run_builds_nothing(cache: PixelCache) -> None:
    dataset = Pictures()
    assert through(cache, dataset, start=30) == plain(Pictures().samples(SMALL, 30))
    assert dataset.decoded == 10
    assert not cache.root.exists()


def test_an_error_of_the_dataset_is_its_own(cache: PixelCache) -> None:
    class Unmounted(Pictures):
        def samples(self, transform: InputTransform, start: int = 0) -> Iterator[Sample]:
            yield from list(super().samples(transform, start))[:9]
            raise DatasetError("unmounted")

    dataset = Unmounted()
    with pytest.raises(DatasetError, match="unmounted"):
        through(cache, dataset)
    assert not entries(cache)
    assert not unfinished(cache)


def test_two_at_once_both_go_on_and_one_builds(cache: PixelCache) -> None:
    dataset = Pictures()
    one = cache.samples(dataset, dataset.fingerprint(), SMALL)
    other = PixelCache(cache.root).samples(dataset, dataset.fingerprint(), SMALL)
    taken = [(next(one), next(other))]
    assert len(unfinished(cache)) == 1
    taken.extend((next(one), next(other)) for _ in range(39))
    expected = plain(Pictures().samples(SMALL))
    assert plain(first for first, _ in taken) == expected
    assert plain(second for _, second in taken) == expected
    assert dataset.decoded == 80
    assert len(entries(cache)) == 1
    assert through(cache, dataset) == expected
    assert dataset.decoded == 80


BUILDING = """
import sys
from pathlib import Path
from catalog.pixel_cache.cache import PixelCache
from tests.catalog.pixel_cache.test_pixel_cache import SMALL, Pictures
cache = PixelCache(Path(sys.argv[1]))
for dataset in (Pictures(seed=0), Pictures(seed=1)):
    for sample in cache.samples(dataset, dataset.fingerprint(), SMALL):
        if sample.position == 0:
            print("begun", flush=True)
            sys.stdin.readline()
"""


@pytest.mark.slow(seconds=4)
def test_another_process_is_not_waited_for_and_its_death_is_no_harm(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [plain(Pictures(seed=seed).samples(SMALL)) for seed in (0, 1)]
    command = [sys.executable, "-c", BUILDING, str(cache.root)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        assert through(cache, Pictures(seed=0)) == expected[0]
        assert not entries(cache)
        # Once the other process has built its entry, it is shared.
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "begun\n"
        sharing = Pictures(seed=0)
        assert through(cache, sharing) == expected[0]
        assert sharing.decoded == 0
        (left,) = unfinished(cache)
        process.send_signal(signal.SIGKILL)
    # Without its lock it is dead, but only its age tells so where locks are not seen by all.
    assert through(cache, Pictures(seed=1)) == expected[1]
    assert len(entries(cache)) == 2
    assert unfinished(cache) == [left]
    monkeypatch.setattr(eviction, "STALE_SECONDS", 0)
    through(cache, Pictures(seed=2))
    assert not unfinished(cache)
    assert through(cache, Pictures(seed=1)) == expected[1]


def _flip(path: Path, place: int, bit: int = 1) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.write_bytes(content)


def _exchange(path: Path) -> None:
    stored = np.load(path)
    stored[[4, 5]] = stored[[5, 4]]
    np.save(path, stored)


def _rename_samples(path: Path) -> None:
    path.write_text(path.read_text(encoding="ascii").replace("8.png", "9.png"), encoding="ascii")


def _cut(path: Path, to_bytes: int) -> None:
    with path.open("r+b") as file:
        file.truncate(to_bytes)


DAMAGE: dict[str, tuple[str, Callable[[Path], object], int]] = {
    "first image": ("pixels.npy", lambda path: _flip(path, 128), 0),
    "an image": ("pixels.npy", lambda path: _flip(path, 128 + 768 * 20 + 333, 128), 20),
    "last byte": ("pixels.npy", lambda path: _flip(path, -1, 16), 39),
    "two exchanged": ("pixels.npy", _exchange, 4),
    "header": ("pixels.npy", lambda path: _flip(path, 60), 0),
    "cut": ("pixels.npy", lambda path: _cut(path, 20_000), 0),
    "empty": ("pixels.npy", lambda path: _cut(path, 0), 0),
    "longer": ("pixels.npy", lambda path: path.write_bytes(path.read_bytes() + b"\0"), 0),
    "no pixels": ("pixels.npy", Path.unlink, 0),
    "zeros": ("pixels.npy", lambda path: path.write_bytes(path.read_bytes()[:5000] + bytes(25848)),
              6),
    "another name": ("samples.json", _rename_samples, 0),
    "list cut": ("samples.json", lambda path: _cut(path, 900), 0),
    "list empty": ("samples.json", lambda path: _cut(path, 0), 0),
    "no list": ("samples.json", Path.unlink, 0),
    "nesting": ("samples.json", lambda path: path.write_bytes(b"[" * 100_000), 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_entry_gives_no_wrong_sample_and_is_built_again(
    cache: PixelCache, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    file_name, damage, good = DAMAGE[kind]
    dataset = Pictures()
    expected = through(cache, dataset)
    (entry,) = entries(cache)
    damage(entry / file_name)
    assert through(cache, dataset) == expected
    assert dataset.decoded == 80 - good
    assert [record for record in caplog.records if str(entry) in record.getMessage()]
    assert not unfinished(cache)
    assert through(cache, dataset) == expected
    before = dataset.decoded
    assert through(cache, dataset) == expected
    assert dataset.decoded == before


def test_an_entry_under_another_name_is_not_taken_for_it(cache: PixelCache) -> None:
    one, other = Pictures(seed=0), Pictures(seed=1)
    expected = through(cache, one)
    (name,) = entries(cache)
    shutil.rmtree(name)
    through(cache, other)
    entries(cache)[0].rename(name)
    assert through(cache, one) == expected
    assert one.decoded == 80


@pytest.mark.parametrize("image_bytes", [3, 8, 75, 768])
def test_a_sum_shows_every_flip_of_a_bit_and_every_exchange(image_bytes: int) -> None:
    sums = Sums(image_bytes)
    image = np.random.default_rng(0).integers(0, 256, image_bytes, dtype=np.uint8)
    expected = sums.of(image[np.newaxis])
    for place, bit in itertools.product(range(image_bytes), range(8)):
        image[place] ^= 1 << bit
        assert sums.of(image[np.newaxis]) != expected
        image[place] ^= 1 << bit
    for shift in range(8, image_bytes, 8):
        assert sums.of(np.roll(image, shift)[np.newaxis]) != expected
    assert sums.of(image[np.newaxis]) == expected


def test_the_least_recently_used_makes_room(cache: PixelCache) -> None:
    datasets = [Pictures(seed=seed) for seed in range(4)]
    keys = []
    for age, dataset in enumerate(datasets[:3]):
        through(cache, dataset)
        (key,) = set(entries(cache)) - set(keys)
        keys.append(key)
        os.utime(key, (1000 + age, 1000 + age))
    limit = sum(path.stat().st_size for key in keys for path in key.iterdir()) + 100
    limited = PixelCache(cache.root, limit)
    through(limited, datasets[0])
    through(limited, datasets[3])
    assert set(keys) - set(entries(cache)) == {keys[1]}
    assert len(entries(cache)) == 3
    sizes = [path.stat().st_size for entry in entries(cache) for path in entry.iterdir()]
    assert sum(sizes) <= limit
    through(limited, datasets[1])
    assert set(keys) - set(entries(cache)) == {keys[2]}


def test_an_entry_being_read_does_not_make_room(cache: PixelCache) -> None:
    one, other = Pictures(seed=0), Pictures(seed=1)
    expected = through(cache, one)
    (entry,) = entries(cache)
    limited = PixelCache(cache.root, 40_000)
    reading = cache.samples(one, one.fingerprint(), SMALL)
    first = next(reading)
    through(limited, other)
    assert entries(cache) == [entry]
    assert not unfinished(cache)
    assert plain(iter([first])) + plain(reading) == expected
    through(limited, other)
    assert entry not in entries(cache)
    assert len(entries(cache)) == 1


def test_an_entry_that_is_removed_is_read_to_its_end(cache: PixelCache) -> None:
    dataset = Pictures()
    expected = through(cache, dataset)
    reading = cache.samples(dataset, dataset.fingerprint(), SMALL)
    first = next(reading)
    shutil.rmtree(entries(cache)[0])
    assert plain(iter([first])) + plain(reading) == expected
    assert dataset.decoded == 40


def test_what_is_larger_than_the_limit_is_not_kept_and_removes_nothing(cache: PixelCache) -> None:
    through(cache, Pictures())
    kept = entries(cache)
    large = dataclasses.replace(SMALL, size=64)
    limited = PixelCache(cache.root, 100_000)
    assert through(limited, Pictures(), large) == plain(Pictures().samples(large))
    assert entries(cache) == kept
    assert not unfinished(cache)


class Disk(NamedTuple):
    """What ``shutil.disk_usage`` returns."""

    free: int


def test_a_gigabyte_of_the_disk_stays_free(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    through(cache, Pictures())
    kept = entries(cache)
    free = [2**30 - 1]
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Disk(free[0]))
    large = dataclasses.replace(SMALL, size=64)
    assert through(cache, Pictures(), large) == plain(Pictures().samples(large))
    assert entries(cache) == kept
    assert caplog.records[-1].levelno == logging.WARNING
    # The older entry is given up where that is enough.
    free[0] = 2**30 + 10_000
    through(cache, Pictures(seed=1))
    assert len(entries(cache)) == 1
    assert entries(cache) != kept
    # What others write shows while building goes on.
    monkeypatch.setattr(cache_module, "LOOK_BYTES", 768)
    free[0] = 2**40
    dataset = Pictures(seed=2)
    samples = cache.samples(dataset, dataset.fingerprint(), SMALL)
    head = [next(samples) for _ in range(3)]
    free[0] = 0
    head.append(next(samples))
    assert not unfinished(cache)
    assert plain(iter(head)) + plain(samples) == plain(Pictures(seed=2).samples(SMALL))
    assert len(entries(cache)) == 1
    assert not unfinished(cache)


def test_a_disk_that_fills_up_ends_nothing(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, calls = entry.EntryWriter.add, iter(range(100))

    def full(writer: entry.EntryWriter, sample: Sample) -> None:
        if next(calls) == 12:
            raise OSError(errno.ENOSPC, "No space left on device")
        add(writer, sample)

    monkeypatch.setattr(entry.EntryWriter, "add", full)
    assert through(cache, Pictures()) == plain(Pictures().samples(SMALL))
    assert not entries(cache)
    assert not unfinished(cache)


def test_a_folder_that_cannot_be_made_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = PixelCache(tmp_path / "cache" / "pixels")
    for _ in range(3):
        assert through(cache, Pictures()) == plain(Pictures().samples(SMALL))
    warnings = [record.getMessage() for record in caplog.records]
    assert 1 <= len(warnings) == len(set(warnings)) <= 2
    assert str(cache.root) in warnings[-1]


@pytest.mark.parametrize("moment", [0, 20, 39])
def test_a_dataset_that_changes_meanwhile_is_not_kept(cache: PixelCache, moment: int) -> None:
    class Changing(Pictures):
        def samples(self, transform: InputTransform, start: int = 0) -> Iterator[Sample]:
            for sample in super().samples(transform, start):
                if sample.position == moment:
                    self.signature = "changed"
                yield sample

    assert through(cache, Changing()) == plain(Pictures().samples(SMALL))
    assert not entries(cache)
    assert not unfinished(cache)


def test_only_old_parts_without_a_builder_are_swept(
    cache: PixelCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    young, old, held = (cache.root / f"{name}.1.part" for name in ("young", "old", "held"))
    for path in (young, old, held):
        path.mkdir(parents=True)
        (path / "pixels.npy").write_bytes(b"some")
    for path in (old, held):
        os.utime(path / "pixels.npy", (1000, 1000))
        os.utime(path, (1000, 1000))
    with FileLock(cache.root / "held.lock"):
        through(cache, Pictures())
        assert sorted(unfinished(cache)) == sorted([young, held])
    through(cache, Pictures(seed=1))
    assert unfinished(cache) == [young]
