"""Small datasets in their publishers' formats, made by the tests that read them."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from catalog.models.base import RemoteFile


class Shelf:
    """Files from elsewhere that are here already, by their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []

    def get(self, file: RemoteFile) -> Path:
        self.asked.append(file.name)
        return self.folder / file.name


def noise(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def jpeg(seed: int = 0, width: int = 24, height: int = 30) -> bytes:
    file = io.BytesIO()
    Image.fromarray(noise(height, width, 3, seed=seed)).save(file, "JPEG")
    return file.getvalue()


def tar(path: Path, members: Mapping[str, bytes], mode: str = "w:gz") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, mode) as archive:  # type: ignore[call-overload]
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def idx(path: Path, values: NDArray[np.uint8], magic: int | None = None) -> Path:
    magic = 0x0800 + values.ndim if magic is None else magic
    header = struct.pack(f">{1 + values.ndim}I", magic, *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes(), 1))
    return path
