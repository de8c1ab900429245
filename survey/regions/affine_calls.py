"""The calls of torch that are affine in what depends on the input, and why others are not.

What depends on the input is either affine in it between breakpoints, or a step: the same value
between breakpoints, such as a comparison's. A call that is listed nowhere is taken for bent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from survey.capture.arguments import argument, tensors_in
from survey.capture.axis_origins import PERMUTATIONS, named
from survey.capture.elementwise import DROPOUTS, ELEMENTWISE, Family
from survey.capture.expressions import SWAPPED
from survey.capture.layout import RESHAPES

_SIZES = "123"

#: Calls that change a number's type alone.
CASTS = named("float", "double", "half", "bfloat16", "to", "type", "type_as")

#: Calls that return Python values, on which a path through the network may depend.
READS = named(
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__",
    "__complex__", "__contains__", "is_nonzero", "equal", "allclose", "nonzero", "argwhere",
    "unique", "masked_select",
)  # fmt: skip

#: Calls that move, repeat or leave out values, along with what says where.
_MOVES = RESHAPES | PERMUTATIONS | named(
    "__getitem__", "__setitem__", "__iter__", "select", "narrow", "unbind", "chunk", "split",
    "split_with_sizes", "tensor_split", "hsplit", "vsplit", "expand", "expand_as", "broadcast_to",
    "repeat", "tile", "repeat_interleave", "roll", "flip", "fliplr", "flipud", "rot90", "diagonal",
    "index_select", "take_along_dim", "gather", "cat", "concat", "concatenate", "stack", "hstack",
    "vstack", "pad", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle", "unfold", "fold", "tril", "triu", "copy_", "squeeze_", "unsqueeze_",
    "detach_", "requires_grad_", "cpu", "cuda", "as_strided", "broadcast_tensors",
    "as_tensor", "asarray",
) | {inspect.getattr_static(torch.Tensor, "data").__get__}  # fmt: skip

#: Calls that sum values with constant weights.
_SUMS = named(
    "sum",
    "mean",
    "cumsum",
    "interpolate",
    "upsample",
    "grid_sample",
    "trace",
    *(f"{kind}avg_pool{n}d" for kind in ("", "adaptive_") for n in _SIZES),
)

#: Calls that are linear in each of their factors.
_PRODUCTS = named(
    "linear",
    "bilinear",
    "matmul",
    "__matmul__",
    "__rmatmul__",
    "mm",
    "bmm",
    "mv",
    "dot",
    "inner",
    "outer",
    "tensordot",
    "einsum",
    "kron",
    *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in _SIZES),
)

#: Calls that add a product: their first argument is an addend.
_ADDED_PRODUCTS = named("addmm", "baddbmm", "addbmm", "addmv", "addr")

_DROPOUTS = named(*DROPOUTS)
_NORMS = {
    **dict.fromkeys(named("batch_norm"), ("training", False)),
    **dict.fromkeys(named("instance_norm"), ("use_input_stats", True)),
}


def bent(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    affine: Sequence[torch.Tensor],
) -> str | None:
    """Return why a call is not affine, as half a sentence; None where it is.

    Parameters
    ----------
    function : callable
        What is called.
    args, kwargs
        Its arguments.
    affine : sequence of torch.Tensor
        Those of them that are affine in the network's input; others are constant or steps.
    """
    if function in _NORMS:
        name, default = _NORMS[function]
        uses = argument(args, kwargs, 5, name, default)
        return "divides by a deviation of its input" if uses else _several(affine)
    if function in _DROPOUTS:
        random = argument(args, kwargs, 2, "training", kwargs.get("train", True))
        return "draws random numbers" if random else None
    if function in _MOVES | _SUMS | CASTS:
        return None
    if function in _PRODUCTS:
        return _several(affine)
    if function in _ADDED_PRODUCTS:
        factors = tensors_in(args[1:])
        return _several([each for each in factors if any(each is held for held in affine)])
    return _elementwise(function, args, kwargs, affine)


def _elementwise(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    affine: Sequence[torch.Tensor],
) -> str | None:
    name, family = ELEMENTWISE.get(function, ("", None))
    # Conditions are truth values, which are no affine ones: they are steps.
    adds = family is Family.SUM and "logical" not in name and "bitwise" not in name
    if adds or family is Family.CHOICE:
        return None
    if family is Family.PRODUCT:
        return _several(affine)
    if family is Family.QUOTIENT:
        divisor = args[0] if function in SWAPPED else argument(args, kwargs, 1, "other")
        rounded = kwargs.get("rounding_mode") is not None
        return "rounds" if rounded else _divides(divisor, affine)
    return "is not piecewise linear"


def _several(affine: Sequence[torch.Tensor]) -> str | None:
    return "multiplies two values that depend on the input" if len(affine) > 1 else None


def _divides(divisor: Any, affine: Sequence[torch.Tensor]) -> str | None:
    inside = any(tensor is each for tensor in tensors_in([divisor]) for each in affine)
    return "divides by a value that depends on the input" if inside else None
