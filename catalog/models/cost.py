"""What a network costs: parameters and multiply-accumulates, counted on the real network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


@dataclass(frozen=True, slots=True)
class Cost:
    """A network's size and work."""

    #: Number of parameters, shared ones once.
    parameters: int
    #: Billions of multiply-accumulates for one image, which the field calls GFLOPs.
    gflops: float


def model_cost(model: nn.Module, size: int) -> Cost:
    """Count a network's parameters, and its work on one image.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode, on any device.
    size : int
        Side of the square input, in pixels.

    Returns
    -------
    Cost
        Matrix products and convolutions count; elementwise work does not.
    """
    parameters = list(model.parameters())
    device = parameters[0].device if parameters else torch.device("cpu")
    counter = FlopCounterMode(display=False)
    with plain_attention(), _frozen(parameters), torch.inference_mode(), counter:
        model(torch.zeros(1, 3, size, size, device=device))
    # torch counts a multiplication and an addition apart; the field's tables count them as one.
    return Cost(sum(p.numel() for p in parameters), counter.get_total_flops() / 2e9)


@contextmanager
def plain_attention() -> Iterator[None]:
    """Have torch's attention and transformer layers run as the operations they consist of."""
    # Their fused kernel is one operation that the counter does not know, so it would count nothing.
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Have no parameter ask for a gradient for a while."""
    # The counter looks for the gradients of what is passed to a module, which fails in inference
    # mode where a network passes a parameter itself, such as a class token.
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
