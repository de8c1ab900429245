"""Networks built from a seed, and a hash of their structure and weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn


def state_sha256(model: nn.Module) -> str:
    """Return a sha256 (hex) over a network's structure as it describes itself, and its weights."""
    import torch

    digest = hashlib.sha256(repr(model).encode())
    for name, tensor in model.state_dict().items():
        values = tensor.detach().cpu().contiguous()
        digest.update(repr((name, tuple(values.shape), str(values.dtype))).encode())
        # As bytes: numpy has no half precision of some kinds.
        digest.update(values.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def build_seeded(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """Return a network whose weights come from the seeded generator of the CPU."""
    import torch

    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        # torch.manual_seed would also seed every GPU, which fork_rng leaves out here.
        torch.default_generator.manual_seed(seed)
        return build()
