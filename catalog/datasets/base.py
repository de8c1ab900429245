"""What a dataset offers: named images in one fixed, seeded order, with labels where they exist."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from catalog.models.base import InputTransform, RemoteFile
from survey.errors import DatasetError
from survey.text import printable

if TYPE_CHECKING:
    import torch

#: Seed of a dataset's own order, in which every model sees its images unless another is asked for
#: (``catalog.datasets.subset``).
ORDER_SEED = 0

#: What to do about a file that is not as its publisher made it.
INCOMPLETE = "the copy is incomplete or another file: get it again"


@dataclass(frozen=True, slots=True)
class Sample:
    """One image, or the reason there is none."""

    #: Place in the dataset's fixed order, counting from 0.
    position: int
    #: The image's name: a path relative to the dataset, or a number.
    name: str
    #: uint8 tensor of shape (3, size, size); float32 for datasets that are not pictures
    #: (``random``), which are not normalised; None for an image that cannot be decoded.
    pixels: torch.Tensor | None
    #: Index among the dataset's own classes; None where there are no labels.
    label: int | None
    #: Why ``pixels`` is None.
    error: str | None = None


class ImageDataset(Protocol):
    """Images in a fixed order. Constructed without decoding any image."""

    #: The full name, such as ``folder:cifar10-sample`` or ``digits``.
    name: str
    #: Class names by label: sorted for folders, in the publisher's order for published datasets;
    #: empty where there are no labels.
    class_names: tuple[str, ...]
    #: Pictures at its place that are no part of it, in a few words; None where there are none.
    left_out: str | None = None

    def __len__(self) -> int:
        """Return the number of images, broken ones included."""

    def labels(self) -> Sequence[int | None]:
        """Return every image's label in the fixed order, without decoding any image."""

    def stat_signature(self) -> str:
        """Return a hash that is quick to get and changes when the content may have changed.

        By default the fingerprint: while it is the same, that need not be computed again.
        """
        return self.fingerprint()

    def fingerprint(self) -> str:
        """Return a sha256 (hex) over every image's bytes, name, label and the order."""

    def samples(self, transform: InputTransform, start: int = 0) -> Iterator[Sample]:
        """Yield the images from position ``start`` on, in the fixed order; as ``pick``."""
        return self.pick(transform, range(start, len(self)))

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        """Yield the images at these positions alone, in the order given.

        What a file holds now must be what its ``stat_signature`` was first taken of, so that all
        images are of one state of the dataset.

        Parameters
        ----------
        transform : InputTransform
            Resize and crop, as torchvision does them. Its mean and deviation are not used.
        positions : sequence of int
            Places in the fixed order.

        Raises
        ------
        DatasetError
            If the files went away or changed since the dataset was opened.
        """


def require_unchanged(file: Path, mark: int, now: int) -> None:
    """Refuse a file that changed since its dataset was opened.

    Parameters
    ----------
    file : Path
        The file.
    mark, now : int
        Its ``change_mark`` then and now.

    Raises
    ------
    DatasetError
        If they differ.
    """
    if mark != now:
        raise DatasetError(
            f"{printable(str(file))} changed since the dataset was opened",
            hint="run the same command again when nothing writes to the dataset",
        )


class Files(Protocol):
    """Where files from elsewhere come from, verified; ``catalog.downloads`` keeps them."""

    def get(self, file: RemoteFile) -> Path:
        """Return the file's place here, fetching it where it is not here yet."""
