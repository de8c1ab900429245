"""Copies of networks with other tensors in them."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import nn


def copied(model: nn.Module, convert: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Return a copy of a network whose tensors are converted; none is copied as it is.

    Parameters
    ----------
    model : torch.nn.Module
        Any network. What it shares, such as a tied weight, its copy shares too.
    convert : callable
        Returns what stands in the copy for a parameter, a buffer or a plain tensor of a module.
    """
    memo: dict[int, object] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            made = convert(parameter.detach())
            memo[id(parameter)] = nn.Parameter(made, requires_grad=parameter.requires_grad)
        for held in (*module.buffers(recurse=False), *vars(module).values()):
            if isinstance(held, torch.Tensor):
                memo[id(held)] = convert(held.detach())
    return copy.deepcopy(model, memo)
