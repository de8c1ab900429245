"""Small pictures of one size, held in memory as their publisher packed them.

Owns what CIFAR and Fashion-MNIST share: order, fingerprint and enlarging. Unpacking is theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from catalog.datasets.base import INCOMPLETE, ImageDataset, Sample
from catalog.datasets.images.decoding import fitted
from catalog.datasets.order import fingerprint_of, place
from catalog.files import stat_signature_of
from catalog.models.base import InputTransform
from survey.errors import DatasetError


@dataclass(frozen=True, slots=True, eq=False)
class PackedImages:
    """Images as a publisher orders them."""

    #: Class names by label.
    class_names: tuple[str, ...]
    #: uint8, of shape (images, height, width) or (images, height, width, 3).
    pixels: NDArray[np.uint8]
    #: Labels, of shape (images,).
    labels: NDArray[np.uint8]


class ArrayDataset(ImageDataset):
    """Packed images in an order that depends on their numbers and their subset alone.

    Parameters
    ----------
    name : str
        The name it was asked for by, such as ``cifar10``.
    subset : str
        ``train`` or ``test``; images are named ``test/00042``.
    packed : PackedImages
        The images.
    files : tuple of Path
        Where they were read from.

    Raises
    ------
    DatasetError
        If an image has a label that no class has.
    """

    def __init__(
        self, name: str, subset: str, packed: PackedImages, files: tuple[Path, ...]
    ) -> None:
        _require_labels(name, packed)
        self.name = name
        self.class_names = packed.class_names
        self._packed, self._subset, self._files = packed, subset, files
        self._order = sorted(range(len(packed.labels)), key=lambda i: place(self._image_name(i)))

    def __len__(self) -> int:
        return len(self._order)

    def labels(self) -> Sequence[int | None]:
        return tuple(int(label) for label in self._packed.labels[self._order])

    def stat_signature(self) -> str:
        return stat_signature_of(self._subset, files=self._files)

    def fingerprint(self) -> str:
        return fingerprint_of(
            self.class_names,
            (
                (
                    self._image_name(index),
                    int(self._packed.labels[index]),
                    hashlib.sha256(self._packed.pixels[index].tobytes()).hexdigest(),
                )
                for index in self._order
            ),
        )

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        for position in positions:
            index = self._order[position]
            # A single channel is repeated.
            picture = Image.fromarray(self._packed.pixels[index]).convert("RGB")
            yield Sample(
                position=position,
                name=self._image_name(index),
                pixels=fitted(picture, transform),
                label=int(self._packed.labels[index]),
            )

    def _image_name(self, index: int) -> str:
        return f"{self._subset}/{index:05d}"


def _require_labels(name: str, packed: PackedImages) -> None:
    largest = int(packed.labels.max(initial=0))
    if largest >= len(packed.class_names):
        raise DatasetError(
            f"{name} has an image of class {largest}, must be below {len(packed.class_names)}",
            hint=INCOMPLETE,
        )
