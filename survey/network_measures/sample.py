"""The images that a measure of a whole network reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch


def _as_they_are(images: torch.Tensor) -> torch.Tensor:
    return images


@dataclass(frozen=True, slots=True)
class ImageSample:
    """Images of one dataset, held as they were decoded: a network's input is four times as large.

    Measured in passes of ``micro_batch`` images, so that too little memory is met with fewer.
    """

    #: n x channels x height x width.
    images: torch.Tensor
    #: n class indices as the network numbers them, negative where there is none; None without any.
    labels: torch.Tensor | None = None
    #: Images in one pass.
    micro_batch: int = 32
    #: Returns the network's input on its device, given some of the images.
    prepare: Callable[[torch.Tensor], torch.Tensor] = _as_they_are

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.images)

    @property
    def size(self) -> int:
        """The greater side of its images, in pixels; 0 of vectors."""
        return max(self.images.shape[2:], default=0)

    def first(self, count: int) -> ImageSample:
        """Return its first images, or all where it has fewer."""
        labels = None if self.labels is None else self.labels[:count]
        return ImageSample(self.images[:count], labels, self.micro_batch, self.prepare)

    def inputs(self, places: torch.Tensor) -> torch.Tensor:
        """Return the network's input for the images at some places.

        Parameters
        ----------
        places : torch.Tensor
            Their indices.

        Returns
        -------
        torch.Tensor
            A copy, which a network may change in place.
        """
        return self.prepare(self.images[places])

    def passes(self) -> Iterator[torch.Tensor]:
        """Yield the places of all images in order, those of one pass at a time."""
        yield from torch.arange(len(self)).split(self.micro_batch)
