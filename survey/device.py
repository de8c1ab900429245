"""The device of a network, and the type of its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import chain

import torch
from torch import nn


def device_of(model: nn.Module) -> torch.device:
    """Return the device that a network lies on: a processor where it holds no tensor."""
    held = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if held is None else held.device


def dtype_of(model: nn.Module) -> torch.dtype:
    """Return the floating type of a network: torch's default where it holds no such numbers."""
    held = (each.dtype for each in chain(model.parameters(), model.buffers()))
    return next((dtype for dtype in held if dtype.is_floating_point), torch.get_default_dtype())


def is_accelerator(device: torch.device) -> bool:
    """Return whether a device computes beside the processor, on enqueued calls."""
    return device.type not in ("cpu", "meta")


def random_numbers_kept(device: torch.device) -> AbstractContextManager[None]:
    """Return a context after which random numbers are drawn as if nothing had been drawn in it."""
    kept: AbstractContextManager[None] = torch.random.fork_rng(
        devices=[device] if device.type == "cuda" else []
    )
    return kept


@contextmanager
def full_precision() -> Iterator[None]:
    """Have GPUs compute float32 without TF32, which rounds to 10 bits of mantissa."""
    convolutions, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = convolutions.allow_tf32, products.allow_tf32
    convolutions.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        convolutions.allow_tf32, products.allow_tf32 = before
