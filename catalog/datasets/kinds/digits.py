"""Handwritten digits: the 1,797 real 8 x 8 images that come with scikit-learn.

Owns their order and the split into training and held-out images. They were written by 43 people
and scanned (Alpaydin and Kaynak 1998, doi:10.24432/C50P49); no network is needed to have them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.datasets.base import ORDER_SEED, ImageDataset, Sample
from catalog.datasets.images.decoding import fitted
from catalog.datasets.kind import DatasetInfo, DatasetKind
from catalog.models.base import InputTransform
from survey.errors import UnknownName

if TYPE_CHECKING:
    from catalog.datasets.images.in_memory import PackedImages

#: What a dataset of digits can hold: every image, those held out, or the others.
SUBSETS = ("all", "heldout", "train")

#: One image in so many of each class is held out.
HELD_OUT_ONE_IN = 5

#: The largest value of scikit-learn's pixels; it becomes 255.
_WHITE = 16


class DigitsDataset(ImageDataset):
    """Real handwritten digits in one fixed, seeded order.

    Every fifth image of each class in that order is held out, so that the split is stratified
    and a run of images from ``digits`` holds both kinds.

    Parameters
    ----------
    subset : {"all", "heldout", "train"}
        All images, those the bundled networks never saw, or those they were trained on.

    Raises
    ------
    UnknownName
        If there is no such subset.
    """

    class_names = tuple(str(digit) for digit in range(10))

    def __init__(self, subset: str = "all") -> None:
        if subset not in SUBSETS:
            raise UnknownName("subset of digits", subset, SUBSETS)
        self.subset = subset
        self.name = "digits" if subset == "all" else f"digits:{subset}"

    def __len__(self) -> int:
        return len(_order(self.subset))

    def labels(self) -> Sequence[int | None]:
        return tuple(int(label) for label in _digits().labels[list(_order(self.subset))])

    def fingerprint(self) -> str:
        digits = _digits()
        digest = hashlib.sha256(repr(self.class_names).encode())
        for index in _order(self.subset):
            label = int(digits.labels[index])
            digest.update(repr((_image_name(index), label)).encode())
            digest.update(digits.pixels[index].tobytes())
        return digest.hexdigest()

    def pick(self, transform: InputTransform, positions: Sequence[int]) -> Iterator[Sample]:
        from PIL import Image

        # Enlarged to the input's size at once, so that nothing is cropped.
        whole = replace(transform, resize=transform.size, crop="squash")
        digits, order = _digits(), _order(self.subset)
        for position in positions:
            index = order[position]
            yield Sample(
                position=position,
                name=_image_name(index),
                pixels=fitted(Image.fromarray(digits.pixels[index]).convert("RGB"), whole),
                label=int(digits.labels[index]),
            )


@functools.cache
def _digits() -> PackedImages:
    """Return the images as scikit-learn orders them, of shape (images, 8, 8)."""
    from importlib.metadata import distribution

    import numpy as np

    from catalog.datasets.images.in_memory import PackedImages

    # Read from its file: importing scikit-learn takes a second or two.
    path = distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")
    rows = np.loadtxt(str(path), delimiter=",")
    pixels = np.rint(rows[:, :-1].reshape(-1, 8, 8) * (255 / _WHITE)).astype(np.uint8)
    return PackedImages(DigitsDataset.class_names, pixels, rows[:, -1].astype(np.uint8))


@functools.cache
def _order(subset: str) -> tuple[int, ...]:
    """Return the indices of a subset's images, in the dataset's order."""
    import numpy as np

    labels = _digits().labels
    order = np.random.Generator(np.random.PCG64(ORDER_SEED)).permutation(len(labels))
    if subset == "all":
        return tuple(int(index) for index in order)
    held_out = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        of_class = order[labels[order] == label]
        held_out[of_class[HELD_OUT_ONE_IN - 1 :: HELD_OUT_ONE_IN]] = True
    return tuple(int(index) for index in order if held_out[index] == (subset == "heldout"))


def _image_name(index: int) -> str:
    return f"{index:04d}"


def _info(syntax: str, sentence: str, images: int) -> DatasetInfo:
    return DatasetInfo(
        syntax=syntax,
        sentence=sentence,
        images=images,
        classes=10,
        licence="CC BY 4.0",
        source="https://doi.org/10.24432/C50P49",
    )


KIND = DatasetKind(
    names=(
        _info(
            "digits", "All handwritten digits of scikit-learn, 8 x 8; no network is needed.", 1_797
        ),
        _info("digits:heldout", "The fifth of them that the bundled networks never saw.", 355),
        _info("digits:train", "Those that the bundled networks were trained on.", 1_442),
    ),
    open=lambda request: DigitsDataset(request.detail or "all"),
)
