"""The classification networks of torchvision and their weights, by their names there.

Owns how the installed package describes each: how it is built, the transform of its images, the
address, accuracy and recipe of its weights. Nothing is downloaded here.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, cast

from catalog.models.base import (
    Architecture,
    InputTransform,
    Published,
    RemoteFile,
    Reported,
)
from catalog.models.family_facts import family_of
from catalog.models.library_source import LibrarySource

if TYPE_CHECKING:
    from torch import nn

#: Every architecture is built for ImageNet-1k.
CLASSES = 1000

#: Published names to what a reader should know before using them.
_NOTES = {
    "vgg16/IMAGENET1K_FEATURES": (
        "Only the convolutions have weights: those of the classifier are NaN, so its activations"
        " have no score and accuracy means nothing."
    ),
}

_LINK = re.compile(r"`+([^`<]*?)\s*(?:<[^>]*>)?`+_*")


class TorchvisionSource(LibrarySource):
    """The classification architectures of ``torchvision.models``."""

    name = "torchvision"

    def read(self) -> tuple[Iterator[Architecture], Iterator[Published]]:
        """Return every architecture, as its first published weights want it, and all weights."""
        from torchvision import models

        names = models.list_models(module=models)
        return (
            map(_architecture, names),
            (_one(name, weights) for name in names for weights in _weights(name)),
        )

    @staticmethod
    def build_network(name: str, size: int, classes: int = CLASSES) -> nn.Module:
        """Build a network for images of one size."""
        from torchvision import models

        module = _module(name)
        options: dict[str, Any] = {"num_classes": classes}
        if module == "vision_transformer":
            # Such a network takes images of one size alone: its positions are weights.
            options |= {"image_size": size}
        if module in {"googlenet", "inception"}:
            # Torchvision itself adds these along with its weights. transform_input undoes
            # ImageNet's normalisation: the published weights need it, and no key of a state dict
            # would tell.
            # Auxiliary heads are idle in eval mode, but in the files.
            options |= {"aux_logits": True, "transform_input": True, "init_weights": True}
        return cast("nn.Module", models.get_model(name, weights=None, **options))


def _architecture(name: str) -> Architecture:
    first = _weights(name)[0]
    module = _module(name)
    transform = _transform(first)
    return Architecture(
        source=TorchvisionSource.name,
        name=name,
        family=family_of(TorchvisionSource.name, module, name).family,
        classes=CLASSES,
        transform=transform,
        module=module,
        published_parameters=first.meta["num_params"],
        published_gflops=first.meta["_ops"],
        build=functools.partial(TorchvisionSource.build_network, name, transform.size),
    )


@functools.cache
def _weights(name: str) -> tuple[Any, ...]:
    """Return all members of an architecture's enumeration of weights, in its order."""
    from torchvision import models

    return tuple(models.get_model_weights(name))


def _one(name: str, weights: Any) -> Published:
    transform = _transform(weights)
    return Published(
        source=TorchvisionSource.name,
        name=f"{name}/{weights.name}",
        architecture=f"{TorchvisionSource.name}:{name}",
        tag=weights.name,
        transform=transform,
        file=RemoteFile.at(
            weights.url,
            # Given in mebibytes, to three decimals.
            about_bytes=round(weights.meta["_file_size"] * 2**20),
            licence=weights.meta.get("license"),
        ),
        reported=_reported(weights, transform.size),
        default=weights is type(weights).DEFAULT,
        recipe=_plain(weights.meta["_docs"]),
        recipe_url=weights.meta.get("recipe"),
        evidence=f"metadata of the installed package, {_version()}",
        notes=_NOTES.get(f"{name}/{weights.name}", ""),
        build=functools.partial(TorchvisionSource.build_network, name, transform.size),
    )


def _transform(weights: Any) -> InputTransform:
    preset = weights.transforms()
    return InputTransform(
        size=preset.crop_size[0],
        resize=preset.resize_size[0],
        interpolation=cast(Literal["bilinear", "bicubic"], preset.interpolation.value),
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )


def _reported(weights: Any, size: int) -> tuple[Reported, ...]:
    values = weights.meta["_metrics"].get("ImageNet-1K")
    # Weights without a usable classifier have NaN here.
    if values is None or math.isnan(values["acc@1"]):
        return ()
    return (
        Reported(
            top1=round(values["acc@1"] / 100, 6),
            top5=round(values["acc@5"] / 100, 6),
            dataset="imagenet",
            image_size=size,
            source=_version(),
        ),
    )


def _plain(text: str) -> str:
    """Return reStructuredText on one line, without its links and quotes."""
    return _LINK.sub(r"\1", " ".join(text.split()))


@functools.cache
def _version() -> str:
    import torchvision

    return f"torchvision {torchvision.__version__.partition('+')[0]}"


def _module(name: str) -> str:
    from torchvision import models

    return cast("str", models.get_model_builder(name).__module__).rpartition(".")[2]
