"""From a tensor of any layout to the n x c matrix of its spatial means."""

from __future__ import annotations

import math

import torch

from survey.errors import CaptureError
from survey.layout import Layout


def pool(tensor: torch.Tensor, layout: Layout, images: int) -> torch.Tensor:
    """Average a tensor over all axes but images and channels.

    Parameters
    ----------
    tensor : torch.Tensor
        Input or output of an activation.
    layout : Layout
        Which of its axes hold the images and the channels.
    images : int
        Images B in this forward pass. An images axis of length k B (patches or windows folded
        into the batch) is averaged over each image's k parts.

    Returns
    -------
    torch.Tensor
        B x c, float64.

    Raises
    ------
    CaptureError
        If the images or the channels cannot be told apart any more.
    """
    if tensor.is_complex():
        raise CaptureError("the activation is complex, and the score is defined for real values")
    rows, columns = _axes(tensor, layout, images)
    rest = [axis for axis in range(tensor.ndim) if axis != rows and axis not in columns]
    values = tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)
    if rest:
        # A float64 mean of float32 values is 14 to 50 times slower on a CPU. torch sums pairwise,
        # so the float32 mean is off by some 2e-7 of the mean of |x|: what the forward pass's own
        # arithmetic loses too, and what moves scores of trained networks by less than 1e-7.
        values = values.mean(dim=rest, keepdim=True)
    values = values.to(torch.float64).movedim(rows, 0)
    channels = math.prod(tensor.shape[axis] for axis in columns)
    return values.reshape(images, -1, channels).mean(dim=1)


def _axes(tensor: torch.Tensor, layout: Layout, images: int) -> tuple[int, tuple[int, ...]]:
    rows, columns = layout.images, layout.channels
    shape = tuple(tensor.shape)
    if rows is None or shape[rows] % images:
        raise CaptureError(f"which axis of {shape} holds the {images} images cannot be told")
    if not columns or rows in columns:
        raise CaptureError(f"which axis of {shape} holds the channels cannot be told")
    return rows, columns
