"""The architectures of the sweep, built with cheap random weights or without values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import timm
import torch
import torchvision
from timm.models._registry import _model_to_module
from torch import nn
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Choice:
    """One architecture to try."""

    library: str
    name: str
    module: str


def chosen() -> list[Choice]:
    """Return all of torchvision's classifiers, then all of timm's networks."""
    ours = torchvision.models.list_models(module=torchvision.models)
    first = [Choice("torchvision", name, _torchvision_module(name)) for name in ours]
    return first + [Choice("timm", name, _model_to_module[name]) for name in timm.list_models()]


def _torchvision_module(name: str) -> str:
    return str(torchvision.models.get_model_builder(name).__module__.rpartition(".")[2])


def _timm(name: str, **settings: Any) -> nn.Module:
    return timm.create_model(name, pretrained=False, **settings)


def _torchvision(name: str, **settings: Any) -> nn.Module:
    quiet = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    if "img_size" in settings:
        settings["image_size"] = settings.pop("img_size")
    model: nn.Module = torchvision.models.get_model(name, weights=None, **quiet, **settings)
    return model


BUILDERS: dict[str, Callable[..., nn.Module]] = {"torchvision": _torchvision, "timm": _timm}


class CheapDraws(TorchFunctionMode):
    """Weights from one table of normal values, over and over: drawing each takes most of a build.

    Parameters
    ----------
    seed : int
        Of the table.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._table = torch.randn(1_000_003, generator=torch.Generator().manual_seed(seed))

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if function is torch.Tensor.erfinv_:
            return args[0]
        drawn = function in (torch.Tensor.normal_, torch.Tensor.uniform_)
        if not drawn or not args[0].is_contiguous() or args[0].is_meta:
            return function(*args, **(kwargs or {}))
        names = ("mean", "std") if function is torch.Tensor.normal_ else ("from", "to")
        given = dict(zip(names, args[1:], strict=False)) | (kwargs or {})
        first, second = (float(given.get(name, i)) for i, name in enumerate(names))
        if names[0] == "from":
            # A normal law of the same mean and deviation.
            first, second = (first + second) / 2, (second - first) / 12**0.5
        return self._filled(args[0], first, second)

    def _filled(self, tensor: torch.Tensor, mean: float, std: float) -> torch.Tensor:
        table, flat = self._table * std + mean, tensor.view(-1)
        for start in range(0, len(flat), len(table)):
            piece = flat[start : start + len(table)]
            piece.copy_(table[: len(piece)])
        return tensor


def built(choice: Choice, seed: int, **settings: int) -> nn.Module:
    """Build a network with random weights; matrices that begin at zero get small values."""
    torch.manual_seed(seed)
    with CheapDraws(seed):
        model = BUILDERS[choice.library](choice.name, **settings).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim >= 2 and not bool(parameter.any()):
                    parameter.normal_(0, 0.02)
    return model


def without_values(choice: Choice, **settings: int) -> nn.Module:
    """Build a network on the meta device."""
    builder = BUILDERS[choice.library]
    try:
        with torch.device("meta"):
            return builder(choice.name, **settings).eval()
    except NotImplementedError:
        # It computes something when it is built.
        with CheapDraws(0):
            return builder(choice.name, **settings).eval().to("meta")


def shape_for(choice: Choice, model: Any) -> tuple[int, ...]:
    """Return the size of the images that a network was made for, channels first."""
    if choice.library == "timm":
        return tuple(model.pretrained_cfg.get("input_size", (3, 224, 224)))
    weights = torchvision.models.get_model_weights(choice.name)
    crops = [weight.transforms().crop_size[0] for weight in weights]
    size = getattr(model, "image_size", min(crops))
    return (3, size, size)
