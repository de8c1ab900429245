"""The eval mode of a network, for as long as it is measured."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch import nn

from survey.errors import InputError
from survey.text import first_line


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
        If it is no module, or one without an eval mode.
    """
    require_module(model)
    modes = {module: module.training for module in model.modules()}
    try:
        _to_eval(model)
        yield
    finally:
        # Some do more than to note the mode, as adapters that take themselves out of weights. Parts
        # come after the whole, which may change their mode.
        for module, training in modes.items():
            if type(module).train is not nn.Module.train:
                module.train(training)
        for module, training in modes.items():
            module.training = training


def _to_eval(model: nn.Module) -> None:
    try:
        model.eval()
    except NotImplementedError as error:
        raise InputError(
            f"the network has no eval mode: {first_line(error)}",
            hint="measure the network that it was exported from",
        ) from error
