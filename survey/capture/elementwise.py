"""The elementwise functions of torch that are no activation functions, by what they compute.

Owns the tables alone: which of them make an activation, ``expressions`` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch.nn import functional


class Family(Enum):
    """What an elementwise function computes of its arguments."""

    #: A sum, a copy or another type: affine in all arguments together.
    SUM = "sum"
    #: A product: affine unless two factors depend on the images.
    PRODUCT = "product"
    #: A quotient: affine unless the divisor depends on the images.
    QUOTIENT = "quotient"
    #: A choice between arguments by another one.
    CHOICE = "choice"
    #: The largest or smallest of two arguments.
    EXTREME = "extreme"
    #: Values kept in bounds.
    CLIP = "clip"
    #: A power.
    POWER = "power"
    #: Any other non-linear function.
    OTHER = "other"


#: Calls that leave values out at random in training, and return them all in eval mode.
DROPOUTS = (
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout",
    "feature_alpha_dropout",
)  # fmt: skip

_NAMES: dict[Family, str] = {
    Family.SUM: (
        f"{' '.join(DROPOUTS)} add subtract sub rsub neg negative positive contiguous clone detach "
        "float half bfloat16 double to type type_as logical_not bitwise_not logical_and logical_or "
        "bitwise_and bitwise_or __add__ __radd__ __iadd__ "
        "__sub__ __rsub__ __isub__ __neg__ __pos__ __invert__ __and__ __or__ __rand__ __ror__"
    ),
    Family.PRODUCT: "mul multiply __mul__ __rmul__ __imul__",
    Family.QUOTIENT: "div divide true_divide __truediv__ __rtruediv__ __itruediv__ __rdiv__",
    Family.CHOICE: "where masked_fill",
    Family.EXTREME: "maximum minimum fmax fmin max min",
    Family.CLIP: "clamp clip clamp_min clamp_max",
    Family.POWER: "pow square float_power __pow__ __ipow__",
    Family.OTHER: (
        "abs absolute __abs__ exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal __rpow__ "
        "erf erfc erfinv sin cos tan sinh cosh asin acos atan asinh acosh atanh arctan sinc sign "
        "sgn round floor ceil trunc fix frac logit nan_to_num lgamma digamma heaviside atan2 hypot "
        "logaddexp xlogy fmod remainder floor_divide copysign addcmul addcdiv lerp "
        "gt ge lt le eq ne greater greater_equal less less_equal not_equal "
        "__gt__ __ge__ __lt__ __le__ __eq__ __ne__ __mod__ __floordiv__"
    ),
}

#: One spelling of each function that has several.
_SPELLINGS = {
    "multiply": "mul", "rmul": "mul", "imul": "mul", "truediv": "div", "rtruediv": "div",
    "itruediv": "div", "rdiv": "div", "divide": "div", "true_divide": "div", "ipow": "pow",
    "clip": "clamp", "absolute": "abs", "max": "maximum", "min": "minimum",
}  # fmt: skip


def _table() -> dict[Callable[..., Any], tuple[str, Family]]:
    table: dict[Callable[..., Any], tuple[str, Family]] = {}
    for owner in (functional, torch, torch.special, torch.Tensor):
        for family, names in _NAMES.items():
            for name in names.split():
                plain = name.strip("_")
                for spelling in (name, name + "_"):
                    if (function := getattr(owner, spelling, None)) is not None:
                        table[function] = (_SPELLINGS.get(plain, plain), family)
    return table


#: The name and the family of every such function.
ELEMENTWISE = _table()
