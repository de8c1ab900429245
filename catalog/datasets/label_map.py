"""How a dataset's classes become a model's output indices, where they fit at all."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

#: Outputs of a network trained on ImageNet-1k.
IMAGENET_CLASSES = 1000

_WNID = re.compile(r"n\d{8}")


def label_map(dataset_class_names: Sequence[str], model_classes: int) -> tuple[int, ...] | None:
    """Return the output index of each of a dataset's classes.

    Classes that are all ImageNet wnids (``n01440764``) map onto the 1,000 indices of ImageNet-1k,
    however few of them there are; so do the numbers 0 to 999, by which ImageNet-V2 names them.
    Other classes fit in the dataset's own order when their number equals the model's outputs: that
    order is the publisher's for published datasets, and sorted for folders, as networks are trained
    on them.

    Parameters
    ----------
    dataset_class_names : sequence of str
        The dataset's classes by label; empty without labels.
    model_classes : int
        Number of outputs of the model.

    Returns
    -------
    tuple of int or None
        One output index a class; None where labels and outputs do not fit.
    """
    if not dataset_class_names:
        return None
    if model_classes == IMAGENET_CLASSES and all(map(_WNID.fullmatch, dataset_class_names)):
        indices = _imagenet_indices()
        known = all(wnid in indices for wnid in dataset_class_names)
        return tuple(indices[wnid] for wnid in dataset_class_names) if known else None
    numbers = set(map(str, range(IMAGENET_CLASSES)))
    if model_classes == IMAGENET_CLASSES and set(dataset_class_names) == numbers:
        return tuple(map(int, dataset_class_names))
    # A network of as many outputs as there are wnids was trained on just these classes.
    return tuple(range(model_classes)) if len(dataset_class_names) == model_classes else None


def imagenet_wnids() -> tuple[str, ...]:
    """Return the wnids of ImageNet-1k by output index, which is their sorted order."""
    return tuple(_imagenet_indices())


@functools.cache
def _imagenet_indices() -> dict[str, int]:
    from timm.data.imagenet_info import ImageNetInfo

    wnids: list[str] = ImageNetInfo().label_names()
    return {wnid: index for index, wnid in enumerate(wnids)}
