"""Calls and their arguments: tensors among them, and calls made again on another tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C._functorch import is_functorch_wrapped_tensor

from survey.capture.axis_origins import TensorFunction, named
from survey.errors import CaptureError

#: The same call again, on another input.
Again = Callable[[torch.Tensor], torch.Tensor]


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Return the tensors of a value and of its nested lists, tuples and dictionaries, in order."""
    # Called many times for every call of a pass: generators would take three times as long.
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (tuple, list)):
        return []
    held: list[torch.Tensor] = []
    for item in value:
        if isinstance(item, torch.Tensor):
            held.append(item)
        elif isinstance(item, (tuple, list, dict)):
            held += tensors_in(item)
    return held


def tensors_of_output(output: Any) -> list[torch.Tensor]:
    """Return the tensors of what a network returned, which may be a plain object of its own."""
    if isinstance(output, (torch.Tensor, dict, tuple, list)):
        return tensors_in(output)
    fields = getattr(type(output), "__dataclass_fields__", None)
    held = getattr(output, "__dict__", {}) if fields is None else fields
    return tensors_in([getattr(output, name, None) for name in held])


def tensors_read(
    function: TensorFunction, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """Return the tensors of which a call reads the values.

    Not those that it writes to as its ``out``, nor those that only give a shape or a type.
    """
    if function in TAKES_SHAPE:
        return tensors_in(args[:1])
    if not kwargs:
        return tensors_in(args)
    return tensors_in([args, {name: value for name, value in kwargs.items() if name != "out"}])


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """Return a tensor's memory; None where it cannot be looked at: sparse ones, and in ``vmap``."""
    if tensor.layout is not torch.strided or is_functorch_wrapped_tensor(tensor):
        return None
    return tensor.untyped_storage()


def repeated(
    function: Callable[..., Any], args: Any, kwargs: dict[str, Any], source: torch.Tensor
) -> Again:
    """Return a function that repeats a call on another tensor in the place of one argument."""
    # With the network's own ``out``, the second result would overwrite the first.
    kwargs = {name: value for name, value in kwargs.items() if name != "out"}
    places = [place for place, value in enumerate(args) if value is source]
    names = [name for name, value in kwargs.items() if value is source]
    if len(places) + len(names) != 1:
        return by_hand

    def again(tensor: torch.Tensor) -> Any:
        given = [tensor if place in places else value for place, value in enumerate(args)]
        return function(*given, **{**kwargs, **dict.fromkeys(names, tensor)})

    return again


def by_hand(_tensor: torch.Tensor) -> torch.Tensor:
    """Refuse to repeat an activation that several calls make up."""
    raise CaptureError("it is written by hand, as several calls, or takes its input twice")


def called(function: Any) -> str:
    """Return the name of what is called, or of the attribute of a tensor that is read."""
    name = getattr(function, "__name__", str(function))
    return str(function.__self__.__name__ if name == "__get__" else name)


def argument(
    args: Sequence[Any], kwargs: dict[str, Any], place: int, name: str, default: Any = None
) -> Any:
    """Return a call's argument by its place or its name."""
    return args[place] if len(args) > place else kwargs.get(name, default)


def first_tensor(args: Any, kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Return a call's first argument; None if it is no tensor.

    Of named ones it is that of one of torch's names for it, or the first tensor.
    """
    named = [kwargs.get(each) for each in ("input", "x", "self")] + [*kwargs.values()]
    first = args[0] if args else next((v for v in named if isinstance(v, torch.Tensor)), None)
    return first if isinstance(first, torch.Tensor) else None


def second_half(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    """Return a view of the half of a tensor that a gated linear unit activates."""
    with torch._C.DisableTorchFunction():
        length = tensor.shape[dim] // 2
        return tensor.narrow(dim, length, length)


def gate(half: torch.Tensor) -> torch.Tensor:
    """Return the factor that a gated linear unit makes of its second half."""
    with torch._C.DisableTorchFunction():
        return torch.sigmoid(half)


#: Calls that take only the shape or type of their second argument.
TAKES_SHAPE = named("expand_as", "view_as", "reshape_as", "type_as", "to")
