"""What a network costs: parameters and multiply-accumulates, counted on the real network."""

from __future__ import annotations

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
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, 3, size, size, device=device))
    # torch counts a multiplication and an addition apart; the field's tables count them as one.
    return Cost(sum(p.numel() for p in parameters), counter.get_total_flops() / 2e9)
