"""Images handed over in Python, prepared as their network takes them; known to their process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from catalog.datasets.base import ImageDataset, Sample
from catalog.datasets.kind import DatasetInfo, DatasetKind, DatasetRequest
from catalog.models.base import InputTransform
from survey.errors import DatasetError

if TYPE_CHECKING:
    import torch

#: Digits of the hash in a name.
_DIGITS = 12

_HELD: dict[str, HeldImages] = {}


class HeldImages(ImageDataset):
    """Images in memory, in the order in which they were handed over.

    Parameters
    ----------
    images : torch.Tensor
        Of shape (n, channels, side, side), float32.
    labels : torch.Tensor or None
        Class of each image, of shape (n,); None without labels.
    """

    def __init__(self, images: torch.Tensor, labels: torch.Tensor | None) -> None:
        self.images = images
        self._labels: list[int] | None = None if labels is None else labels.tolist()
        classes = 0 if self._labels is None else max(self._labels, default=-1) + 1
        self.class_names = tuple(map(str, range(classes)))
        digest = hashlib.sha256(repr((tuple(images.shape), self._labels)).encode())
        for image in images:
            digest.update(image.contiguous().numpy())
        self._fingerprint = digest.hexdigest()
        self.name = f"memory:{self._fingerprint[:_DIGITS]}"

    def __len__(self) -> int:
        return len(self.images)

    def labels(self) -> Sequence[int | None]:
        return [None] * len(self) if self._labels is None else self._labels

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over the values, their order and the labels."""
        return self._fingerprint

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        """Yield images that are not to be normalised, resized where another size is asked for."""
        from torch.nn.functional import interpolate

        for position in positions:
            label = None if self._labels is None else self._labels[position]
            pixels = self.images[position].clone()
            if pixels.shape[-1] != transform.size:
                pixels = interpolate(pixels[None], transform.size, mode="bilinear")[0]
            yield Sample(position=position, name=str(position), pixels=pixels, label=label)


@contextmanager
def held(images: HeldImages) -> Iterator[str]:
    """Make images known to this process meanwhile; give the name they have there."""
    _HELD[images.name] = images
    try:
        yield images.name
    finally:
        _HELD.pop(images.name, None)


def open_held(request: DatasetRequest) -> HeldImages:
    """Return images that were handed over to this process."""
    if request.name not in _HELD:
        raise DatasetError(
            f"{request.name} is not in this process",
            hint="images in memory are measured where they are: jobs.survey_models(model, images)",
        )
    return _HELD[request.name]


KIND = DatasetKind(
    names=(
        DatasetInfo(
            syntax="memory:SHA256",
            sentence="Images handed over in Python, by jobs.survey_models.",
        ),
    ),
    open=open_held,
)
