"""Counts of a tensor's values near zero, in one pass over the memory.

Called on every input and output of every activation, on tensors of some 10^8 values: written
plainly, ``(x.abs() <= t).sum()`` costs more than everything else that is measured. Compiled code
would count in a third of the time, but takes most of a second to load, which a small network's
first score would wait for.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

#: Values of at most this size count as zero, as in the published script.
NEAR_ZERO = 1e-3

#: Values in one piece: half a megabyte of float32 stays in a core's cache between pooling and
#: counting, and takes long enough that calls do not matter.
PIECE = 1 << 17


#: Numbers whose eight bytes, each 0 or 1, are added without a carry.
_ADDED = 128


@dataclass(frozen=True, slots=True)
class NearZero:
    """A count of values and of those near zero; counts of parts add up."""

    #: Values x with ``|x| <= 1e-3``. On an accelerator a tensor without axes, so that counting
    #: does not wait for the device.
    near: int | torch.Tensor
    #: All values.
    values: int
    #: Values x with ``x < -1e-3``; held as ``near`` is.
    below: int | torch.Tensor = 0

    def __add__(self, other: NearZero) -> NearZero:
        """Return the count over both parts."""
        return NearZero(
            self.near + other.near, self.values + other.values, self.below + other.below
        )

    def rectified(self) -> NearZero:
        """Return the count of max(x, 0), which follows from that of x.

        What was below becomes zero, what was near zero stays near it, and nothing else comes near.
        """
        return NearZero(self.near + self.below, self.values)

    @property
    def fraction(self) -> float:
        """Share of the values that are near zero, in [0, 1]."""
        return int(self.near) / self.values


def count_near_zero(tensor: torch.Tensor) -> NearZero:
    """Count a tensor's values near zero.

    Parameters
    ----------
    tensor : torch.Tensor
        Real values of any shape, type and device. The limit is 1e-3 rounded to the tensor's type.
        Values that are not a number count as far from zero.

    Returns
    -------
    NearZero
        Exact.
    """
    flat = _flat(tensor.detach())
    if flat.device.type != "cpu":
        return count_by_masks(flat)
    counter = Counter(flat.dtype)
    for start in range(0, len(flat), PIECE):
        counter.add(comparable(flat[start : start + PIECE]))
    return counter.counted(tensor.numel())


def count_by_masks(flat: torch.Tensor) -> NearZero:
    """Count the values of one axis near zero by operations of their device, without waiting."""
    # Without |x|, which would be as large as the tensor.
    limit = _limit(flat.dtype)
    below = _count(flat < -limit)
    return NearZero(_count(flat <= limit) - below, flat.numel(), below)


def _count(mask: torch.Tensor) -> torch.Tensor:
    """Return how many values of a mask with one axis are true, as a tensor without axes.

    Torch sums a mask as int64s, eight times its memory: on an H200 such counts took 61 of the
    213 ms of a captured pass. Here eight values at a time are one number, of which as many are
    added as leave each of the eight its byte.
    """
    whole = len(mask) // (8 * _ADDED) * 8 * _ADDED
    added = mask[:whole].view(torch.int64).view(-1, _ADDED).sum(dim=1)
    return added.view(torch.uint8).sum() + mask[whole:].sum()


def comparable(tensor: torch.Tensor) -> NDArray[Any]:
    """Return values as a numpy array; half precision becomes float32."""
    kept = tensor.dtype in (torch.float32, torch.float64)
    array: NDArray[Any] = (tensor if kept else tensor.to(torch.float32)).numpy()
    return array


class Counter:
    """Counts values near zero, piece by piece, on a processor.

    Parameters
    ----------
    dtype : torch.dtype
        Type of the values.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._near = 0
        self._below = 0
        self._limit = _limit(dtype)

    def add(self, piece: NDArray[Any]) -> None:
        """Count the values of a piece with a single axis, as ``comparable`` returns it."""
        below = int(np.count_nonzero(piece < -self._limit))
        self._near += int(np.count_nonzero(piece <= self._limit)) - below
        self._below += below

    def counted(self, values: int) -> NearZero:
        """Return the count so far, as that of a tensor with this number of values."""
        return NearZero(self._near, values, self._below)


@functools.cache
def _limit(dtype: torch.dtype) -> float:
    """Return the limit in the type of the values, as a comparison of tensors would round it."""
    return float(torch.tensor(NEAR_ZERO, dtype=dtype)) if dtype.is_floating_point else 0.0


def _flat(tensor: torch.Tensor) -> torch.Tensor:
    """Return the values as one axis, in the order of the memory, without a copy where possible."""
    order = sorted(range(tensor.ndim), key=tensor.stride().__getitem__, reverse=True)
    return tensor.permute(order).reshape(-1).resolve_neg()
