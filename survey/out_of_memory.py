"""Errors of the machine rather than of a network: above all, that the memory was not enough."""

from __future__ import annotations

import torch

#: Messages of allocators that raise no particular error class.
_MESSAGES = (
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "alloc_failed",
    "bad_alloc",
    "out of memory",
)


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means that the memory was not enough, on a GPU or the CPU."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(each in text for each in _MESSAGES)


def is_of_machine(error: Exception) -> bool:
    """Return whether another machine, or another attempt, may do without the error."""
    return is_out_of_memory(error) or isinstance(error, torch.AcceleratorError)
