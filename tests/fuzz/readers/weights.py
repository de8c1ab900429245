"""Files of weights: torch's, safetensors, zipped, their headers, and what lists their shards."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile
from collections import OrderedDict
from pathlib import Path

import safetensors.torch
import torch
from torch import nn

from catalog.checkpoint_files import files_of
from catalog.downloads.missing_files import missing_files
from catalog.downloads.store import FileStore
from catalog.downloads.urls import direct_address
from catalog.hub_checkpoints import HubFiles, hub_files
from catalog.models.base import Architecture, InputTransform, RemoteFile
from catalog.weights.fitting import fit_of
from catalog.weights.reading import read_content, read_header
from catalog.weights.strict_loading import differences, load_weights
from survey.errors import CheckpointError
from tests.fuzz.readers.base import Target

_STATE = {"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}
_INDEX = json.dumps({"weight_map": {"weight": "a.safetensors", "bias": "b.safetensors"}}).encode()


def _weights(data: bytes, folder: Path) -> None:
    path = folder / "weights"
    path.write_bytes(data)
    read_content(path).weights()
    load_weights(nn.Linear(3, 2), path, "test:linear")


def _header(data: bytes, folder: Path) -> None:
    """A header, held against a network, and against one that has other classes, or is a part."""
    path = folder / "weights"
    path.write_bytes(data)
    content = read_header(path)
    differences(nn.Linear(3, 2, device="meta"), content)
    for part in (None, "state_dict", "a.b"):
        with contextlib.suppress(CheckpointError):
            fit_of(content, _NET, _built, part)


def _built(classes: int = 2) -> nn.Module:
    layers = OrderedDict(first=nn.Linear(3, 3), norm=nn.BatchNorm1d(3), head=nn.Linear(3, classes))
    return nn.Sequential(layers).to("meta")


_NET = Architecture(
    "test", "net", "Test", 2, InputTransform(size=8, resize=8), build=_built, build_with=_built
)


def _zipped(data: bytes, folder: Path) -> None:
    """A file of weights in an archive whose checksums are right."""
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.pth", data)
    _weights(outer.getvalue(), folder)


def _program(data: bytes, folder: Path) -> None:
    """The pickle of a torch archive whose checksums are right."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("file/data.pkl", data)
        opened.writestr("file/byteorder", "little")
        for number, size in enumerate((24, 8)):
            opened.writestr(f"file/data/{number}", bytes(size))
        opened.writestr("file/version", "3\n")
    _weights(archive.getvalue(), folder)


def _safetensors_header(data: bytes, folder: Path) -> None:
    """The header of a safetensors file whose length is right."""
    _weights(len(data).to_bytes(8, "little") + data + bytes(32), folder)


def _shards(data: bytes, folder: Path) -> None:
    """The index of a folder of shards."""
    for name, tensor in zip("ab", _STATE.items(), strict=True):
        (folder / f"{name}.safetensors").write_bytes(safetensors.torch.save(dict([tensor])))
    (folder / "model.safetensors.index.json").write_bytes(data)
    load_weights(nn.Linear(3, 2), files_of(folder), "test:linear")


def _listing(data: bytes, folder: Path) -> None:
    """A repository's listing, and then the files that it names."""
    listing, index = folder / "listing.json", folder / "index.json"
    listing.write_bytes(data)
    index.write_bytes(_INDEX)

    def find(file: RemoteFile) -> Path | None:
        return {"net.json": listing, "model.safetensors.index.json": index}.get(file.name)

    for reference in ("hf://owner/net", "hf://owner/net@main/model.safetensors.index.json"):
        _use(hub_files(reference, find), FileStore(folder))


def _use(found: HubFiles, store: FileStore) -> None:
    for file in found.files:
        direct_address(file.url)
    missing_files({file: store.place(file) for file in found.files})
    store.missing(found.files)


def _saved(**options: object) -> bytes:
    file = io.BytesIO()
    torch.save({"state_dict": _STATE, "epoch": 3}, file, **options)
    return file.getvalue()


def _files() -> list[bytes]:
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("weights.pth", _saved())
    legacy = _saved(_use_new_zipfile_serialization=False)
    return [_saved(), outer.getvalue(), legacy, safetensors.torch.save(_STATE)]


def _parts() -> list[bytes]:
    """Whole files, and one of two networks with heads of other kinds."""
    keys = {f"a.b.{key}": torch.zeros(t.shape) for key, t in _built(7).state_dict().items()}
    heads = {f"a.c.{key.replace('head', 'head.1')}": tensor for key, tensor in keys.items()}
    file = io.BytesIO()
    torch.save({"state_dict": keys | heads, "teacher": heads}, file)
    return [*_files(), file.getvalue()]


def _programs() -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(_saved())) as archive:
        names = [name for name in archive.namelist() if name.endswith("data.pkl")]
        return [archive.read(name) for name in names]


def _headers() -> list[bytes]:
    files = safetensors.torch.save(_STATE), safetensors.torch.save(_STATE, {"other": "bias"})
    return [each[8 : 8 + int.from_bytes(each[:8], "little")] for each in files]


def _listings() -> list[bytes]:
    names = ["model.safetensors.index.json", "a.safetensors", "b.safetensors", "config.json"]
    files = [{"rfilename": name, "size": 9, "lfs": {"sha256": "0" * 64}} for name in names]
    facts = {"sha": "0" * 40, "tags": ["license:mit"]}
    return [json.dumps(facts | {"siblings": each}).encode() for each in (files, files[1:2])]


TARGETS = {
    "weights": Target(_weights, _files),
    "header": Target(_header, _parts),
    "zipped": Target(_zipped, _files),
    "program": Target(_program, _programs),
    "safetensors_header": Target(_safetensors_header, _headers, document=True),
    "shards": Target(_shards, lambda: [_INDEX], document=True),
    "listing": Target(_listing, _listings, document=True),
}
