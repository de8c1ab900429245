"""What is fuzzed: one function a reader, which gives it some bytes and lets its refusals pass.

A target ends, or raises one of the product's errors; anything else that it raises is a finding, and
so is memory or time beyond the limits of ``tests.fuzz.campaign``.
"""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import requests
from torch import nn

from catalog.datasets import open_dataset
from catalog.datasets.images.decoding import DECODE_ERRORS, decoded, fitted
from catalog.datasets.images.tar import index_members, read_members
from catalog.datasets.kinds.fashion_mnist import _read_idx
from catalog.datasets.kinds.imagenet_devkit import FOLDER, validation_wnids
from catalog.downloads.partial import Version
from catalog.downloads.receipts import read_note
from catalog.downloads.responses import Passing, check_content, check_status, first_byte, version_of
from catalog.models.base import InputTransform
from catalog.pixel_cache.entry import PIXELS, SAMPLES, EntryLayout, EntryUnreadable, read_entry
from catalog.weights.reading import read_content
from catalog.weights.strict_loading import load_weights
from jobs.planning.definition import read_definition
from survey.errors import SurveyError

SMALL = InputTransform(size=16, resize=20)
LAYOUT = EntryLayout(images=3, size=4)

Target = Callable[[bytes, Path], None]


def weights(data: bytes, folder: Path) -> None:
    """A file of weights of any kind, as it is, read and put into a network."""
    path = folder / "weights"
    path.write_bytes(data)
    read_content(path).weights()
    load_weights(nn.Linear(3, 2), path, "test:linear")


def program(data: bytes, folder: Path) -> None:
    """The pickle of a torch archive whose checksums are right."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("file/data.pkl", data)
        opened.writestr("file/byteorder", "little")
        for number in range(3):
            opened.writestr(f"file/data/{number}", bytes(range(64)))
        opened.writestr("file/version", "3\n")
    weights(archive.getvalue(), folder)


def safetensors_header(data: bytes, folder: Path) -> None:
    """The header of a safetensors file whose length is right."""
    weights(len(data).to_bytes(8, "little") + data + bytes(range(64)), folder)


def picture(data: bytes, folder: Path) -> None:
    """One encoded picture."""
    with contextlib.suppress(*DECODE_ERRORS):
        fitted(decoded(io.BytesIO(data), SMALL), SMALL)


def parquet(data: bytes, folder: Path) -> None:
    """A Parquet file of pictures, all of it."""
    path = folder / "file.parquet"
    path.write_bytes(data)
    dataset = open_dataset(f"parquet:{path}", Path())
    dataset.fingerprint()
    for _ in dataset.samples(SMALL):
        pass


def archive(data: bytes, folder: Path) -> None:
    """A tar archive, compressed or not."""
    path = folder / "file.tar.gz"
    path.write_bytes(data)
    for read in (
        lambda: read_members(path, {"a": 1000}, whole=True),
        lambda: index_members(path, ["a"]),
    ):
        with contextlib.suppress(SurveyError):
            read()


def devkit(data: bytes, folder: Path) -> None:
    """The development kit's list of classes, in MATLAB's format."""
    kit = folder / FOLDER / "data"
    kit.mkdir(parents=True, exist_ok=True)
    (kit / "meta.mat").write_bytes(data)
    (kit / "ILSVRC2012_validation_ground_truth.txt").write_text("1\n2\n")
    validation_wnids(kit.parent, images=2, classes=2)


def idx(data: bytes, folder: Path) -> None:
    """A compressed idx file."""
    path = folder / "file.gz"
    path.write_bytes(data)
    _read_idx(path, (2, 3))


def toml(data: bytes, folder: Path) -> None:
    """A survey file."""
    path = folder / "survey.toml"
    path.write_bytes(data)
    read_definition(path)


def pixels(data: bytes, folder: Path) -> None:
    """An entry of the pixel cache; whoever can write its hash can write the home."""
    entry = folder / "entry"
    entry.mkdir(exist_ok=True)
    (entry / PIXELS).write_bytes(
        LAYOUT.header + data[: LAYOUT.images * LAYOUT.image_bytes].ljust(144)
    )
    (entry / SAMPLES).write_bytes(data)
    with contextlib.suppress(EntryUnreadable):
        list(read_entry(entry, LAYOUT, 0))


def note(data: bytes, folder: Path) -> None:
    """The note of a partial download."""
    path = folder / "note.json"
    path.write_bytes(data)
    read_note(path, Version)


def response(data: bytes, folder: Path) -> None:
    """A server's headers and the start of its answer."""
    head, _, body = data.partition(b"\n\n")
    lines = [line.split(":", 1) for line in head.decode("latin-1").split("\n")]
    answer = requests.Response()
    answer.status_code = len(lines[0][0]) + 195
    answer.headers.update({line[0]: line[1] for line in lines if len(line) == 2})
    with contextlib.suppress(Passing, SurveyError):
        check_status(answer)
    with contextlib.suppress(SurveyError):
        check_content(answer, body, "name")
    first_byte(answer)
    version_of(answer)
    json.dumps(str(version_of(answer)))


TARGETS: dict[str, Target] = {
    each.__name__: each
    for each in (
        weights,
        program,
        safetensors_header,
        picture,
        parquet,
        archive,
        devkit,
        idx,
        toml,
        pixels,
        note,
        response,
    )
}


def run(target: Target, data: bytes, folder: Path) -> None:
    """Give some bytes to a target; the product's own errors are what should come of most."""
    with contextlib.suppress(SurveyError, OSError):
        target(data, folder)
