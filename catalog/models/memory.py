"""Networks handed over in Python: known to their process alone, named by what they are."""

from __future__ import annotations

import copy
import functools
import hashlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from catalog.models.base import Architecture, InputTransform, ModelSource
from survey.errors import UnknownName

if TYPE_CHECKING:
    from torch import nn

_HELD: dict[str, Architecture] = {}

#: Digits of the hash in a name.
_DIGITS = 8


class MemorySource(ModelSource):
    """Networks of this process; none is listed, and those that were handed over may be named."""

    name = "memory"

    def get(self, name: str) -> Architecture:
        """Return a network that was handed over to this process.

        Raises
        ------
        UnknownName
            If there is none of that name.
        """
        if name not in _HELD:
            hint = "it is measured in the process that has it: jobs.survey_models(model, batches)"
            raise UnknownName("network in memory", name, sorted(_HELD), hint)
        return _HELD[name]


@contextmanager
def held(model: nn.Module, *, size: int, classes: int, channels: int = 3) -> Iterator[str]:
    """Make a network known to this process meanwhile; give the full name it has there.

    Parameters
    ----------
    model : torch.nn.Module
        The network. Copies of it are measured: changing it later changes no run.
    size : int
        Side of its square images, in pixels.
    classes : int
        Number of classes of the labels; 0 without labels.
    channels : int
        Of its images, 3 or 1.

    Yields
    ------
    str
        ``memory:CLASS-DIGITS``. The digits are of a sha256 over the structure and the source text
        of the classes of its modules; what their methods call elsewhere is no part of it, nor are
        the weights, which are the checkpoint ``built``.
    """
    name = f"{type(model).__name__}-{_code_sha256(model)[:_DIGITS]}"
    transform = InputTransform(size=size, resize=size)
    if channels == 1:
        transform = replace(transform, mean=(0.0,), std=(1.0,))
    _HELD[name] = Architecture(
        source=MemorySource.name,
        name=name,
        family="own",
        classes=classes,
        transform=transform,
        brings_weights=True,
        build=functools.partial(_copy_of, copy.deepcopy(model)),
    )
    try:
        yield f"{MemorySource.name}:{name}"
    finally:
        _HELD.pop(name, None)


def _copy_of(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).cpu().float().eval()


def _code_sha256(model: nn.Module) -> str:
    kinds = {type(module) for module in model.modules()}
    texts = sorted(f"{kind.__module__}.{kind.__qualname__}\n{_source(kind)}" for kind in kinds)
    return hashlib.sha256("\n".join([repr(model), *texts]).encode()).hexdigest()


def _source(kind: type) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        # Typed at a prompt, which keeps no text: the compiled methods stand in.
        methods = (each for each in vars(kind).values() if inspect.isfunction(each))
        return repr([(each.__name__, each.__code__.co_code.hex()) for each in methods])
