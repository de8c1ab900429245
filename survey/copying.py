"""Copies of networks with other tensors in them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn

from survey.capture.arguments import tensors_in


def copied(model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Return a copy of a network whose tensors are converted; none is copied as it is.

    Parameters
    ----------
    model : torch.nn.Module
        Any network. What it shares, such as a tied weight, its copy shares too.
    convert : callable
        Returns what stands in the copy for a parameter, a buffer or a plain tensor of a module,
        which may be in lists, tuples and dicts.
    """
    memo: dict[int, object] = {}
    for module in model.modules():
        # Parameters and buffers are in dicts among the attributes.
        for held in tensors_in(vars(module)):
            made = convert(held.detach())
            if isinstance(held, nn.Parameter):
                made = nn.Parameter(made, requires_grad=held.requires_grad)
            memo[id(held)] = made
    return copy.deepcopy(model, memo)
