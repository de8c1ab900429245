"""Activation functions by name: the paper's nine, and every other pointwise one of torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional

from survey.errors import UnknownName

#: A function from a tensor to one of the same shape, element by element.
Elementwise = Callable[[torch.Tensor], torch.Tensor]

#: The activations of Figure 6 of the paper, in its order.
PAPER_ACTIVATIONS = (
    "sigmoid",
    "relu",
    "gelu",
    "relu6",
    "leaky_relu",
    "tanh",
    "hardtanh",
    "silu",
    "hardswish",
)

#: Every name that can be studied: what torch.nn.functional applies to one tensor, pointwise.
ACTIVATIONS = (
    *PAPER_ACTIVATIONS,
    *("celu", "elu", "hardshrink", "hardsigmoid", "logsigmoid", "mish", "rrelu", "selu"),
    *("softplus", "softshrink", "softsign", "tanhshrink"),
)


def elementwise(name: str) -> Elementwise:
    """Return an activation function by its name in ``torch.nn.functional``.

    Raises
    ------
    UnknownName
        If it is none of ``ACTIVATIONS``.
    """
    if name not in ACTIVATIONS:
        raise UnknownName("activation", name, ACTIVATIONS)
    activation: Elementwise = getattr(functional, name)
    return activation
