"""Copies of networks with other tensors in them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn


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
        for held in _held(vars(module), set()):
            made = convert(held.detach())
            if isinstance(held, nn.Parameter):
                made = nn.Parameter(made, requires_grad=held.requires_grad)
            memo[id(held)] = made
    return copy.deepcopy(model, memo)


def _held(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Yield the tensors of nested containers, of which one may hold itself."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (dict, tuple, list)) and id(value) not in seen:
        seen.add(id(value))
        for each in value.values() if isinstance(value, dict) else value:
            yield from _held(each, seen)
