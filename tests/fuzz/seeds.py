"""Small right files, one or a few a target, that mutation starts from; made here, not kept."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import safetensors.torch
import scipy.io
import torch
from PIL import Image

from catalog.pixel_cache.entry import LISTED, _sealed
from tests.fuzz.targets import LAYOUT

STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}
SURVEY = b"""remeasure = ["torch"]
[[models]]
name = "small:digits_*"
checkpoints = ["bundled", "init:0"]
mean = [0.5, 0.5, 0.5]
expect_top1 = {digits = 0.9}
[[datasets]]
name = "digits"
limit = 100
[settings]
images_per_score = 64
"""


def seeds(target: str) -> list[bytes]:
    """Return a target's right files."""
    return _MAKERS[target]()


def _saved(**options: object) -> bytes:
    file = io.BytesIO()
    torch.save({"state_dict": STATE, "epoch": 3}, file, **options)
    return file.getvalue()


def _weights() -> list[bytes]:
    whole, outer = _saved(), io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.pth", whole)
    safe = safetensors.torch.save(STATE)
    return [whole, outer.getvalue(), _saved(_use_new_zipfile_serialization=False), safe]


def _programs() -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(_saved())) as archive:
        names = [name for name in archive.namelist() if name.endswith("data.pkl")]
        return [archive.read(name) for name in names]


def _headers() -> list[bytes]:
    whole = safetensors.torch.save(STATE)
    return [whole[8 : 8 + int.from_bytes(whole[:8], "little")]]


def _pictures() -> list[bytes]:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    files = []
    for kind in ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP"):
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, kind)
        files.append(file.getvalue())
    deep = io.BytesIO()
    Image.fromarray(pixels[..., 0].astype(np.uint16) * 257).save(deep, "PNG")
    return [*files, deep.getvalue()]


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


def _archives() -> list[bytes]:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in ("a", "b" * 150, "ä"):
            entry = tarfile.TarInfo(name)
            entry.size = 9
            archive.addfile(entry, io.BytesIO(b"123456789"))
    return [plain.getvalue(), gzip.compress(plain.getvalue())]


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


def _idx() -> list[bytes]:
    return [gzip.compress(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, *range(6)]))]


def _entries() -> list[bytes]:
    rows = [["a"] * len(LISTED)] * LAYOUT.images
    content = {"key": "entry", "fields": LISTED, "samples": rows, "sums": [None] * LAYOUT.images}
    return [_sealed(content)]


def _responses() -> list[bytes]:
    headers = b'Content-Length: 9\nETag: "x"\nRetry-After: 3\nContent-Range: bytes 1-9/10'
    return [b"12345\n" + headers + b"\n\n<html><title>x</title>", b"12345\n\n\n\x80\x02}"]


_MAKERS = {
    "weights": _weights,
    "program": _programs,
    "safetensors_header": _headers,
    "picture": _pictures,
    "parquet": _tables,
    "archive": _archives,
    "devkit": _kits,
    "idx": _idx,
    "toml": lambda: [SURVEY],
    "pixels": _entries,
    "note": lambda: [b'{"validator": "x", "bytes": 3, "sha256": null}'],
    "response": _responses,
}
CORPUS = Path(__file__).with_name("corpus")


def kept(target: str) -> list[bytes]:
    """Return what campaigns have brought up, so that it never comes again."""
    folder = CORPUS / target
    return [path.read_bytes() for path in sorted(folder.glob("*"))] if folder.is_dir() else []


def temporary_folder() -> TemporaryDirectory[str]:
    """Return a folder for a target's files, in memory where the machine has such a place."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)
