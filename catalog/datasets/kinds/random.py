"""Gaussian noise in the shape of images, without labels; as many as are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import overload

from catalog.datasets.base import ORDER_SEED, ImageDataset, Sample
from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from catalog.models.base import InputTransform
from survey.errors import DatasetError

#: Images in ``random``, where no number is given.
DEFAULT_IMAGES = 2048

#: Characters a number of images may have.
_LONGEST_NUMBER = 20


def open_random(request: DatasetRequest) -> RandomDataset:
    """Return as many images as the name asks for."""
    name, images = request.name, request.detail
    if not images:
        return RandomDataset(name)
    plain = images.isascii() and images.isdigit() and len(images) <= _LONGEST_NUMBER
    if not (plain and 1 <= int(images) < 2**32):
        raise DatasetError(
            f"{name!r} asks for {images!r} images, must be a whole number of at least 1",
            hint="write random:2048",
        )
    return RandomDataset(name, int(images))


KIND = DatasetKind(
    names=(
        DatasetInfo(
            syntax="random",
            sentence="Gaussian noise in the shape of images, each seeded by its position alone.",
            images=DEFAULT_IMAGES,
            classes=0,
        ),
        DatasetInfo(
            syntax="random:IMAGES",
            sentence="Gaussian noise in the shape of so many images.",
            classes=0,
        ),
    ),
    open=open_random,
)


class RandomDataset(ImageDataset):
    """Images of independent N(0, 1) values, each seeded by its position alone.

    Parameters
    ----------
    name : str
        The name it was asked for by, such as ``random:512``.
    images : int
        Number of images, at least 1.
    """

    def __init__(self, name: str = "random", images: int = DEFAULT_IMAGES) -> None:
        self.name = name
        self.images = images
        self.class_names: tuple[str, ...] = ()

    def __len__(self) -> int:
        return self.images

    def labels(self) -> Sequence[int | None]:
        return _NoLabels(self.images)

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over the recipe that determines every value."""
        recipe = f"gaussian images={self.images} seed={ORDER_SEED}"
        return hashlib.sha256(recipe.encode()).hexdigest()

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        """Yield float32 images of the network's shape that are not to be normalised."""
        import torch

        for position in positions:
            generator = torch.Generator().manual_seed((ORDER_SEED << 32) + position)
            pixels = torch.randn(transform.shape, generator=generator, dtype=torch.float32)
            yield Sample(position=position, name=str(position), pixels=pixels, label=None)


class _NoLabels(Sequence[None]):
    """None for every image; four thousand million of them take no memory."""

    def __init__(self, images: int) -> None:
        self._images = range(images)

    def __len__(self) -> int:
        return len(self._images)

    @overload
    def __getitem__(self, index: int) -> None: ...
    @overload
    def __getitem__(self, index: slice) -> _NoLabels: ...
    def __getitem__(self, index: int | slice) -> _NoLabels | None:
        if isinstance(index, slice):
            return _NoLabels(len(self._images[index]))
        self._images[index]
        return None
