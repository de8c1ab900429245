"""Memory of pooled pairs, apart from what forward passes free.

A C library puts a pair into memory that the pass has freed. The next tensor of that size no longer
fits there, and with every site, pass by pass, the process grows by such a tensor.
"""

from __future__ import annotations

import math
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

import torch

#: Bytes that are taken from the system at a time; what is not used of them takes no memory.
_BLOCK = 2**24

#: Bytes that a matrix begins at a multiple of, as torch's own do.
_ALIGNMENT = 64


class PairMemory:
    """Memory for the pooled matrices of one forward pass; a block is freed with its last matrix.

    A matrix is a part of its block: whoever pickles one clones it first.
    """

    def __init__(self) -> None:
        self._free = torch.empty(0, dtype=torch.uint8)

    def copied(self, matrix: torch.Tensor) -> torch.Tensor:
        """Return a copy of a matrix in this memory; one on another device is returned itself."""
        # A subclass, such as a fake tensor, holds no values.
        if type(matrix) is not torch.Tensor or matrix.device.type != "cpu" or not matrix.numel():
            return matrix
        taken = _ALIGNMENT * math.ceil(matrix.nbytes / _ALIGNMENT)
        if taken > len(self._free):
            self._free = _block(max(taken, _BLOCK))
        place, self._free = self._free[: matrix.nbytes], self._free[taken:]
        return place.view(matrix.dtype).view(matrix.shape).copy_(matrix)


def _block(size: int) -> torch.Tensor:
    """Return bytes from the system, which a process that is forked does not share."""
    try:
        memory = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
    except OSError as error:
        # What torch's own lack of memory is: a smaller micro-batch may fit.
        raise MemoryError(str(error)) from None
    return torch.frombuffer(memory, dtype=torch.uint8)
