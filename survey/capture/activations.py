"""The pointwise activation functions and modules of torch and timm, and the names of sites.

Owns the tables of activation functions and activation modules. Attention's softmax is not
pointwise and does not count. A gated linear unit counts as the sigmoid of its gate. What is written
out as several calls, or with ``where``, ``maximum`` or a clamp, ``expressions`` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as module_hooks

from survey.text import storable

#: Names in ``torch.nn.functional``, ``torch``, ``torch.special`` and ``torch.Tensor`` that are
#: activations, with the trailing underscore of in-place variants left off.
_FUNCTIONS = (
    "celu", "elu", "gelu", "glu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "leaky_relu", "logsigmoid", "mish", "prelu", "relu", "relu6", "rrelu", "selu", "sigmoid",
    "silu", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
)  # fmt: skip

#: The class of torch.nn of each, which has its name in capitals and without underscores.
_TORCH_CLASSES = {
    kind: name
    for kind in vars(nn.modules.activation).values()
    for name in _FUNCTIONS
    if isinstance(kind, type) and kind.__name__.lower() == name.replace("_", "")
}

#: Modules whose every public nn.Module is an activation, recognised by name, not by import.
_TIMM_MODULES = ("timm.layers.activations", "timm.layers.activations_me")

#: Single timm classes that live beside other things.
_TIMM_CLASSES = ("timm.models.metaformer.SquaredReLU", "timm.models.metaformer.StarReLU")

#: Activation names of timm's classes that differ from the class name in lower case.
_TIMM_NAMES = {
    "swish": "silu",
    "gelutanh": "gelu_tanh",
    "quickgelu": "quick_gelu",
    "squaredrelu": "squared_relu",
    "starrelu": "star_relu",
}


def _functions() -> dict[Callable[..., Any], str]:
    names: dict[Callable[..., Any], str] = {}
    for owner in (functional, torch, torch.special, torch._C._nn, torch.Tensor):
        for name in _FUNCTIONS:
            for spelling in (name, name + "_"):
                function = getattr(owner, spelling, None)
                if function is not None:
                    names[function] = name
    names[torch.special.expit] = "sigmoid"
    return names


#: Every activation function of torch, with its canonical name.
ACTIVATION_FUNCTIONS = _functions()


def activation_called(function: Callable[..., Any]) -> str | None:
    """Return the name of the activation that a function computes; None if it is none.

    Parameters
    ----------
    function : callable
        A function or method of torch, or one of the kernels under ``torch.ops.aten``.
    """
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        name = str(function).removeprefix("aten.").split(".")[0].removesuffix("_")
        return name if name in _FUNCTIONS else None
    return ACTIVATION_FUNCTIONS.get(function)


def activation_of(module: nn.Module) -> str | None:
    """Return the name of the activation that a module computes; None if it is none.

    Parameters
    ----------
    module : torch.nn.Module
        torch's own classes and what inherits from them, and timm's, by qualified name.
    """
    kinds = type(module).__mro__
    for kind in kinds:
        if kind in _TORCH_CLASSES:
            return _TORCH_CLASSES[kind]
    for kind in kinds:
        listed = f"{kind.__module__}.{kind.__qualname__}" in _TIMM_CLASSES
        if listed or kind.__module__ in _TIMM_MODULES:
            # The same function may be spelled in several ways.
            name = kind.__name__.removesuffix("Me").lower()
            return _TIMM_NAMES.get(name, name)
    return None


def rectifies(call: nn.Module | Callable[..., Any]) -> bool:
    """Return whether an activation is max(x, 0) near zero, so that its zeros follow from x.

    Parameters
    ----------
    call : torch.nn.Module or callable
        The activation. A class that only inherits from torch's may do something else, and so may
        an object whose forward was replaced, or whose output another hook changes.
    """
    if isinstance(call, nn.ReLU | nn.ReLU6):
        plain = type(call) in (nn.ReLU, nn.ReLU6) and "forward" not in vars(call)
        # One hook is that of the capture.
        hooked = len(call._forward_hooks) > 1 or bool(module_hooks._global_forward_hooks)
        return plain and not hooked and getattr(call, "min_val", 0.0) == 0.0
    if isinstance(call, nn.Module):
        return False
    return activation_called(call) in ("relu", "relu6")


def site_name(path: str, function: str | None, call: int) -> str:
    """Return a site's name: the path of its module, the functional, and the number of the call.

    Parameters
    ----------
    path : str
        Qualified name of the activation module, or of the module whose forward calls ``function``.
    function : str or None
        The functional that is called; None for an activation module.
    call : int
        Which call at this path, counting from 1.

    Returns
    -------
    str
        ``layer1.0.relu#2`` for a module, ``Mixed_5b.branch1x1:relu#1`` for a functional.
    """
    name = f"{path}#{call}" if function is None else f"{path}:{function}#{call}"
    return storable(name)
