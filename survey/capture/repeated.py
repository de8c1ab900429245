"""Calls of activations made again, on another tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from survey.errors import CaptureError

#: The same call again, on another input.
Again = Callable[[torch.Tensor], torch.Tensor]


def repeated(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Again:
    """Return a function that repeats a call on another tensor."""
    # With the network's own ``out``, the second result would overwrite the first.
    kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    if args:
        return lambda tensor: function(tensor, *args[1:], **kwargs)
    name = next(name for name in ("input", "x", "self") if name in kwargs)
    return lambda tensor: function(**{**kwargs, name: tensor})


def by_hand(_tensor: torch.Tensor) -> torch.Tensor:
    """Refuse to repeat an activation that several calls make up."""
    raise CaptureError("it is written by hand, as several calls")


def first_tensor(args: Any, kwargs: dict[str, Any], name: str) -> torch.Tensor | None:
    """Return a call's first argument, by place or by name; None if it is no tensor."""
    value = args[0] if args else kwargs.get(name, kwargs.get("x", kwargs.get("self")))
    return value if isinstance(value, torch.Tensor) else None


def second_half(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Return a view of the half of a tensor that a gated linear unit activates."""
    with torch._C.DisableTorchFunction():
        length = tensor.shape[dim] // 2
        return tensor.narrow(dim, length, length)


def gate(half: torch.Tensor) -> torch.Tensor:
    """Return the factor that a gated linear unit makes of its second half."""
    with torch._C.DisableTorchFunction():
        return torch.sigmoid(half)
