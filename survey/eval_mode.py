"""The eval mode of a network, for as long as it is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from survey.errors import InputError


def require_module(model: object) -> None:
    """Raise an InputError if a network is none."""
    if not isinstance(model, nn.Module):
        raise InputError(
            f"a torch.nn.Module is wanted, not a {type(model).__name__}",
            hint="build the network; models are measured by name with `survey run -m NAME`",
        )


@contextlib.contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module in eval mode, and restore the modes afterwards.

    Raises
    ------
    InputError
        If it is no module.
    """
    require_module(model)
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
