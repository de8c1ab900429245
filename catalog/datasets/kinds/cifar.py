"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), from the archives of their binary versions.

The python versions are pickles, which may run code when they are loaded; the binary ones hold the
same images as plain records: the labels' bytes, then 1,024 bytes of red, green and blue each.
Layout, sizes and md5 as on https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.datasets.base import INCOMPLETE
from catalog.datasets.images.tar import read_members
from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from catalog.files import file_identity
from catalog.models.base import RemoteFile
from survey.errors import DatasetError

if TYPE_CHECKING:
    from catalog.datasets.images.in_memory import ArrayDataset, PackedImages

#: Side of an image in pixels, and the bytes of its three channels.
SIDE = 32
PIXEL_BYTES = 3 * SIDE * SIDE

#: Images in each subset.
IMAGES = {"train": 50_000, "test": 10_000}

_LARGEST_NAMES_FILE = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLayout:
    """How one of the two archives is laid out."""

    #: The archive.
    archive: RemoteFile
    #: Its members: the class names, one a line, and the records of each subset.
    names: str
    subsets: dict[str, tuple[str, ...]]
    #: Bytes before the pixels; the last of them is the label.
    label_bytes: int
    #: Number of classes.
    classes: int


def _archive(name: str, size: int, sha256: str, md5: str) -> RemoteFile:
    url = f"https://www.cs.toronto.edu/~kriz/{name}"
    return RemoteFile(url=url, name=name, bytes=size, sha256=sha256, md5=md5)


#: The two datasets by name.
LAYOUTS = {
    "cifar10": ArchiveLayout(
        archive=_archive(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            "c32a1d4ab5d03f1284b67883e8d87530",
        ),
        names="cifar-10-batches-bin/batches.meta.txt",
        subsets={
            "train": tuple(f"cifar-10-batches-bin/data_batch_{n}.bin" for n in range(1, 6)),
            "test": ("cifar-10-batches-bin/test_batch.bin",),
        },
        label_bytes=1,
        classes=10,
    ),
    "cifar100": ArchiveLayout(
        archive=_archive(
            "cifar-100-binary.tar.gz",
            168_513_733,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            "03b5dce01913d631647c71ecec9e9cb8",
        ),
        names="cifar-100-binary/fine_label_names.txt",
        subsets={
            "train": ("cifar-100-binary/train.bin",),
            "test": ("cifar-100-binary/test.bin",),
        },
        # The coarse class comes first, the fine one is what networks are trained on.
        label_bytes=2,
        classes=100,
    ),
}


def open_cifar(request: DatasetRequest) -> ArrayDataset:
    """Return the images of one subset.

    Raises
    ------
    DatasetError
        If the archive is cut off, lacks a member, or holds other than the published records.
    """
    from catalog.datasets.images.in_memory import ArrayDataset

    (archive,) = request.downloaded()
    subset = request.detail or "test"
    packed = _unpacked(archive, request.info.prefix, subset, file_identity(archive))
    return ArrayDataset(request.name, subset, packed, (archive,))


def _info(syntax: str, sentence: str) -> DatasetInfo:
    prefix, _, subset = syntax.partition(":")
    layout = LAYOUTS[prefix]
    return DatasetInfo(
        syntax=syntax,
        sentence=sentence,
        images=IMAGES[subset or "test"],
        classes=layout.classes,
        files=(layout.archive,),
        source="https://www.cs.toronto.edu/~kriz/cifar.html",
    )


KIND = DatasetKind(
    names=(
        _info("cifar10", "Test images of CIFAR-10: 32 x 32 photographs of animals and vehicles."),
        _info("cifar10:train", "Training images of CIFAR-10, from the same archive."),
        _info(
            "cifar100", "Test images of CIFAR-100: 32 x 32 photographs with its 100 fine classes."
        ),
        _info("cifar100:train", "Training images of CIFAR-100, from the same archive."),
    ),
    open=open_cifar,
)


# A worker opens its dataset anew for every model: the archive takes seconds to decompress.
@functools.lru_cache(maxsize=1)
def _unpacked(archive: Path, kind: str, subset: str, _when: tuple[int, int, int]) -> PackedImages:
    import numpy as np

    from catalog.datasets.images.in_memory import PackedImages

    layout = LAYOUTS[kind]
    members = layout.subsets[subset]
    record = layout.label_bytes + PIXEL_BYTES
    expected = IMAGES[subset] * record
    content = read_members(
        archive, {layout.names: _LARGEST_NAMES_FILE, **dict.fromkeys(members, expected)}
    )
    joined = b"".join(content[member] for member in members)
    if len(joined) != expected:
        raise DatasetError(
            f"the {subset} images in {archive.name} have {len(joined):,} bytes,"
            f" must have {expected:,}",
            hint=INCOMPLETE,
        )
    records = np.frombuffer(joined, np.uint8).reshape(-1, record)
    planes = records[:, layout.label_bytes :].reshape(-1, 3, SIDE, SIDE)
    return PackedImages(
        tuple(content[layout.names].decode(errors="replace").strip().splitlines()),
        np.ascontiguousarray(planes.transpose(0, 2, 3, 1)),
        records[:, layout.label_bytes - 1].copy(),
    )
