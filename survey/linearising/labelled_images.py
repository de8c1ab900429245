"""Images with their classes, to train on and to count accuracy on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from survey.errors import InputError


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImages:
    """Images as a network takes them, with their classes.

    Parameters
    ----------
    images : torch.Tensor
        n images, n x ..., of a floating type.
    labels : torch.Tensor
        n whole numbers from 0.

    Raises
    ------
    InputError
        If they are not that.
    """

    images: torch.Tensor
    labels: torch.Tensor

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        for value in (images, labels):
            if not isinstance(value, torch.Tensor):
                raise InputError(f"images and labels must be tensors, not {type(value).__name__}")
        if images.ndim < 2 or len(images) < 2 or not images.is_floating_point():
            shape = tuple(images.shape)
            raise InputError(f"images are {shape} of {images.dtype}, must be two or more, floating")
        whole = not (labels.is_floating_point() or labels.is_complex())
        if labels.shape != images.shape[:1] or not whole or labels.dtype == torch.bool:
            raise InputError(
                f"labels are {tuple(labels.shape)} of {labels.dtype}, must be {len(images)} whole"
                " numbers"
            )
        if (labels < 0).any():
            raise InputError(f"a label is {int(labels.min())}, must be 0 or more")
        if not images.isfinite().all():
            raise InputError("an image has values that are not finite")

    def __len__(self) -> int:
        return len(self.labels)
