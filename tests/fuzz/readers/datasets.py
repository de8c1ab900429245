"""Datasets: pictures, Parquet files, archives, small arrays, and the pixels kept of them."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
from PIL import Image

from catalog.datasets import open_dataset
from catalog.datasets.images.decoding import DECODE_ERRORS, decoded, fitted
from catalog.datasets.images.in_memory import ArrayDataset
from catalog.datasets.images.tar import index_members, read_members
from catalog.datasets.kinds import cifar
from catalog.datasets.kinds.fashion_mnist import _read_idx
from catalog.datasets.kinds.imagenet_devkit import FOLDER, validation_wnids
from catalog.models.base import InputTransform
from catalog.pixel_cache.entry import (
    LISTED,
    PIXELS,
    SAMPLES,
    EntryLayout,
    EntryUnreadable,
    _sealed,
    read_entry,
)
from survey.errors import SurveyError
from tests.fuzz.readers.base import Target

_SMALL = InputTransform(size=16, resize=20)
_LAYOUT = EntryLayout(images=3, size=4)


def _picture(data: bytes, folder: Path) -> None:
    with contextlib.suppress(*DECODE_ERRORS):
        fitted(decoded(io.BytesIO(data), _SMALL), _SMALL)


def _png(data: bytes, folder: Path) -> None:
    """A PNG file whose checksums are right."""
    start, rest, parts = data[:8], data[8:], []
    while len(rest) >= 12:
        length = int.from_bytes(rest[:4], "big")
        content = rest[4 : 8 + length]
        parts.append(rest[:4] + content + zlib.crc32(content).to_bytes(4, "big"))
        rest = rest[12 + length :]
    _picture(start + b"".join(parts), folder)


def _folder(data: bytes, folder: Path) -> None:
    """Names of pictures and their folders."""
    with _below(folder) as root:
        for name in data.split(b"\n")[:9]:
            with contextlib.suppress(OSError, ValueError):
                parts = [part for part in name.split(b"/") if part not in (b"", b".", b"..")]
                path = os.path.join(os.fsencode(root), *parts)  # noqa: PTH118 - of bytes
                os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
                Path(os.fsdecode(path)).write_bytes(b"P6 1 1 255\nabc")
        dataset = open_dataset(f"folder:{root}", Path())
        dataset.fingerprint()
        for sample in dataset.samples(_SMALL):
            sample.name.encode()


@contextlib.contextmanager
def _below(folder: Path) -> Iterator[Path]:
    """Give a folder that is empty again for the next input."""
    import shutil

    root = folder / "pictures"
    root.mkdir()
    try:
        yield root
    finally:
        shutil.rmtree(os.fsencode(root))


def _parquet(data: bytes, folder: Path) -> None:
    """A Parquet file of pictures, all of it."""
    path = folder / "file.parquet"
    path.write_bytes(data)
    dataset = open_dataset(f"parquet:{path}", Path())
    dataset.fingerprint()
    for _ in dataset.samples(_SMALL):
        pass


def _archive(data: bytes, folder: Path) -> None:
    """A tar archive, as it is and compressed."""
    path = folder / "file.tar.gz"
    for content in (data, gzip.compress(data, 1)):
        path.write_bytes(content)
        with contextlib.suppress(SurveyError):
            read_members(path, {"a": 1000}, whole=True)
    path.write_bytes(data)
    index_members(path, ["a"])


def _cifar(data: bytes, folder: Path) -> None:
    """The unpacked archive of CIFAR, of two images instead of ten thousand."""
    path = folder / "cifar.tar.gz"
    path.write_bytes(gzip.compress(data, 1))
    with mock.patch.dict(cifar.IMAGES, test=2):
        packed = cifar._unpacked.__wrapped__(path, "cifar10", "test", (0, 0, 0))
    dataset = ArrayDataset("cifar10", "test", packed, (path,))
    dataset.fingerprint()
    for _ in dataset.samples(_SMALL):
        pass


def _devkit(data: bytes, folder: Path) -> None:
    """The development kit's list of classes, in MATLAB's format."""
    kit = folder / FOLDER / "data"
    kit.mkdir(parents=True, exist_ok=True)
    (kit / "meta.mat").write_bytes(data)
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n")
    validation_wnids(kit.parent, images=2, classes=2)


def _idx(data: bytes, folder: Path) -> None:
    """An idx file, as it comes compressed, and compressed here."""
    path = folder / "file.gz"
    for content in (data, gzip.compress(data, 1)):
        path.write_bytes(content)
        with contextlib.suppress(SurveyError):
            _read_idx(path, (2, 3))


def _pixels(data: bytes, folder: Path) -> None:
    """An entry of the pixel cache; whoever can write its hash can write the home."""
    entry = folder / "entry"
    entry.mkdir(exist_ok=True)
    (entry / PIXELS).write_bytes(
        _LAYOUT.header + data[: _LAYOUT.images * _LAYOUT.image_bytes].ljust(144)
    )
    (entry / SAMPLES).write_bytes(data)
    with contextlib.suppress(EntryUnreadable):
        list(read_entry(entry, _LAYOUT, 0))


def _pictures() -> list[bytes]:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    files = []
    for kind in ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        files.append(file.getvalue())
    return [*files, *_pngs()]


def _pngs() -> list[bytes]:
    grey = np.arange(63, dtype=np.uint16).reshape(9, 7) * 1000
    palette = Image.fromarray((grey // 256).astype(np.uint8)).convert("P")
    files = []
    for picture in (Image.fromarray(grey), palette, palette.convert("RGBA")):
        file = io.BytesIO()
        picture.save(file, "PNG")
        files.append(file.getvalue())
    return files


def _tables() -> list[bytes]:
    rows = [{"bytes": _pictures()[1], "path": f"{number}.png"} for number in range(3)]
    image = pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
    names = {"huggingface": json.dumps({"info": {"features": {"label": {"names": ["a", "b"]}}}})}
    table = pa.table({"image": image, "label": [0, 1, 0]}).replace_schema_metadata(names)
    plain = pa.table({"img": pa.array([_pictures()[0]] * 2, pa.binary()), "label": ["x", "y"]})
    files = []
    for each, options in [
        (table, {}),
        (table, {"compression": "zstd"}),
        (plain, {"version": "1.0"}),
    ]:
        file = io.BytesIO()
        pq.write_table(each, file, **options)
        files.append(file.getvalue())
    return files


def _tar(contents: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file.getvalue()


def _archives() -> list[bytes]:
    plain = _tar(dict.fromkeys(("a", "b" * 150, "ä"), b"123456789"))
    return [plain, gzip.compress(plain)]


def _cifars() -> list[bytes]:
    layout = cifar.LAYOUTS["cifar10"]
    (member,) = layout.subsets["test"]
    records = b"".join(bytes([label]) + bytes(cifar.PIXEL_BYTES) for label in (1, 0))
    return [_tar({layout.names: b"cat\ndog\n", member: records})]


def _kits() -> list[bytes]:
    fields = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words", "num_children")]
    rows = [(1, "n01440764", "a", 0), (2, "n01443537", "b", 0), (3, "n00001740", "c", 2)]
    files = []
    for compressed in (False, True):
        file = io.BytesIO()
        synsets = {"synsets": np.array(rows, dtype=fields)}
        scipy.io.savemat(file, synsets, do_compression=compressed)
        files.append(file.getvalue())
    return files


def _arrays() -> list[bytes]:
    plain = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, *range(6)])
    return [plain, gzip.compress(plain)]


def _entries() -> list[bytes]:
    rows = [["a"] * len(LISTED)] * _LAYOUT.images
    content = {"key": "entry", "fields": LISTED, "samples": rows, "sums": [None] * _LAYOUT.images}
    return [_sealed(content)]


TARGETS = {
    # Within the bound of pixels a picture of 920 bytes takes 478 MB.
    "picture": Target(_picture, _pictures, most_mib=700),
    "png": Target(_png, _pngs, most_mib=700),
    "folder": Target(_folder, lambda: [b"cat/1.png\ndog/2.JPG", b"1.ppm\n\xff\x1b[31m.png"]),
    "parquet": Target(_parquet, _tables),
    "archive": Target(_archive, _archives),
    "cifar": Target(_cifar, _cifars),
    "devkit": Target(_devkit, _kits, apart=True),
    "idx": Target(_idx, _arrays),
    "pixels": Target(_pixels, _entries),
}
