"""Pooling a tensor and counting its values near zero, in one pass over the memory where possible.

Both read every value once. On a tensor that is far larger than a cache, reading costs as much as
either; done piece by piece, the count finds in the cache what pooling has just read.
"""

from __future__ import annotations

import math

import torch

from survey.counting import PIECE, Counter, NearZero, comparable, count_near_zero
from survey.layout import Layout
from survey.pooling import pool
from survey.signature import Pooling


def pool_and_count(
    tensor: torch.Tensor, layout: Layout, images: int, pooling: Pooling = "mean"
) -> tuple[torch.Tensor, NearZero]:
    """Pool a tensor and count its values near zero.

    Parameters
    ----------
    tensor, layout, images, pooling
        As for ``survey.pooling.pool``.

    Returns
    -------
    matrix : torch.Tensor
        What ``pool`` returns, bit for bit.
    near : NearZero
        What ``count_near_zero`` returns.

    Raises
    ------
    CaptureError, SettingsError
        As ``pool`` does.
    """
    if pooling in ("mean", "pre") and _is_maps(tensor, layout, images):
        return _in_one_pass(tensor.detach())
    matrix = pool(tensor, layout, images, pooling)
    return matrix, count_near_zero(tensor)


def _is_maps(tensor: torch.Tensor, layout: Layout, images: int) -> bool:
    """Tell whether a tensor is N x C x space in this order in a processor's memory."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and tensor.ndim > 2
        and tensor.numel() > PIECE
        and (layout.images, tuple(layout.channels)) == (0, (1,))
        and tensor.shape[0] == images
        and tensor.is_contiguous()
        and math.prod(tensor.shape[2:]) <= PIECE
    )


def _in_one_pass(tensor: torch.Tensor) -> tuple[torch.Tensor, NearZero]:
    """Average and count whole channel maps, as many at a time as fit into a piece."""
    images, channels = tensor.shape[:2]
    size = math.prod(tensor.shape[2:])
    counter = Counter(torch.float32)
    means = []
    # Pieces of like size: torch shares a sum out among threads only where there is but one, and
    # its bits then depend on how many there are. No piece may be a single map.
    pieces = math.ceil(images * channels / max(PIECE // size, 4))
    values, start = comparable(tensor.view(-1)), 0
    for maps in tensor.view(images * channels, size).tensor_split(pieces):
        means.append(maps.mean(dim=1))
        counter.add(values[start : start + maps.numel()])
        start += maps.numel()
    matrix = torch.cat(means).view(images, channels).to(torch.float64)
    return matrix, counter.counted(tensor.numel())
