"""Fashion-MNIST (Xiao, Rasul and Vollgraf 2017, arXiv:1708.07747), from its four idx files.

Owns the idx format: a big-endian header (a magic number, then the length of each dimension), then
plain bytes; https://github.com/zalandoresearch/fashion-mnist has the addresses and md5.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.bounds import open_file
from catalog.datasets.base import INCOMPLETE
from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from catalog.models.base import RemoteFile
from survey.errors import DatasetError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from catalog.datasets.images.in_memory import ArrayDataset

#: Class names by label, as published.
CLASS_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

#: Side of an image in pixels.
SIDE = 28

#: Images in each subset.
IMAGES = {"train": 60_000, "test": 10_000}

_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"


def _file(name: str, size: int, sha256: str, md5: str) -> RemoteFile:
    return RemoteFile(
        url=f"{_URL}{name}", name=name, bytes=size, sha256=sha256, md5=md5, licence="MIT"
    )


#: Pixels and labels of each subset.
FILES = {
    "train": (
        _file(
            "train-images-idx3-ubyte.gz",
            26_421_880,
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        ),
        _file(
            "train-labels-idx1-ubyte.gz",
            29_515,
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "25c81989df183df01b3e8a0aad5dffbe",
        ),
    ),
    "test": (
        _file(
            "t10k-images-idx3-ubyte.gz",
            4_422_102,
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "bef4ecab320f06d8554ea6380940ec79",
        ),
        _file(
            "t10k-labels-idx1-ubyte.gz",
            5_148,
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
    ),
}

#: First two bytes of every idx file, and what says that values are unsigned bytes.
_MAGIC = 0x0800


def open_fashion_mnist(request: DatasetRequest) -> ArrayDataset:
    """Return the images of one subset.

    Raises
    ------
    DatasetError
        If a file is cut off or holds other than the published number of images.
    """
    from catalog.datasets.images.in_memory import ArrayDataset, PackedImages

    subset = request.detail or "test"
    images = IMAGES[subset]
    pixels, labels = request.downloaded()
    packed = PackedImages(
        CLASS_NAMES, _read_idx(pixels, (images, SIDE, SIDE)), _read_idx(labels, (images,))
    )
    return ArrayDataset(request.name, subset, packed, (pixels, labels))


def _info(syntax: str, sentence: str) -> DatasetInfo:
    subset = syntax.partition(":")[2] or "test"
    return DatasetInfo(
        syntax=syntax,
        sentence=sentence,
        images=IMAGES[subset],
        classes=len(CLASS_NAMES),
        files=FILES[subset],
        licence="MIT",
        source="https://github.com/zalandoresearch/fashion-mnist",
    )


KIND = DatasetKind(
    names=(
        _info(
            "fashion-mnist",
            "Test images of Fashion-MNIST: 28 x 28 clothes, one channel repeated to three.",
        ),
        _info("fashion-mnist:train", "Training images of Fashion-MNIST."),
    ),
    open=open_fashion_mnist,
)


def _read_idx(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the array in a compressed idx file, which must have the shape given."""
    import numpy as np

    header = struct.pack(f">{1 + len(shape)}I", _MAGIC + len(shape), *shape)
    size = len(header) + math.prod(shape)
    try:
        with open_file(path) as packed, gzip.open(packed) as file:
            # One byte more than is right shows a longer file, without reading all of a bomb.
            content = file.read(size + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise DatasetError(f"{path} cannot be read: {problem}", hint=INCOMPLETE) from problem
    if not content.startswith(header) or len(content) != size:
        lengths = " x ".join(f"{length:,}" for length in shape)
        raise DatasetError(f"{path} is no idx file of {lengths} bytes", hint=INCOMPLETE)
    return np.frombuffer(content, np.uint8, offset=len(header)).reshape(shape)
