"""The classification networks of torchvision, by their names there.

Owns the families, the input transform of each name and how each is built. Weights are files of
the user's own; nothing is downloaded.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, cast

from catalog.models.base import Architecture, InputTransform, Published
from survey.errors import UnknownName

if TYPE_CHECKING:
    from torch import nn

#: Module of ``torchvision.models`` to the family's name.
FAMILIES = {
    "alexnet": "AlexNet",
    "convnext": "ConvNeXt",
    "densenet": "DenseNet",
    "efficientnet": "EfficientNet",
    "googlenet": "Inception",
    "inception": "Inception",
    "maxvit": "MaxViT",
    "mnasnet": "MNASNet",
    "mobilenetv2": "MobileNet",
    "mobilenetv3": "MobileNet",
    "regnet": "RegNet",
    "resnet": "ResNet",
    "shufflenetv2": "ShuffleNet",
    "squeezenet": "SqueezeNet",
    "swin_transformer": "Swin",
    "vgg": "VGG",
    "vision_transformer": "ViT",
}

#: Every architecture is built for ImageNet-1k.
CLASSES = 1000


class TorchvisionSource:
    """The classification architectures of ``torchvision.models``."""

    name = "torchvision"

    def names(self) -> list[str]:
        """Return every architecture's name, sorted; imports torchvision."""
        return sorted(_names())

    def get(self, name: str) -> Architecture:
        """Return one architecture.

        Raises
        ------
        UnknownName
            If torchvision has no classification network of that name.
        """
        if name not in _names():
            raise UnknownName("torchvision architecture", name, _names())
        family, transform = _facts(name)
        return Architecture(
            source=self.name,
            name=name,
            family=family,
            classes=CLASSES,
            transform=transform,
            build=functools.partial(_build, name),
        )

    def published(self) -> tuple[Published, ...]:
        """Return every set of float weights that torchvision publishes; imports torchvision."""
        return ()


@functools.cache
def _names() -> frozenset[str]:
    from torchvision import models

    return frozenset(models.list_models(module=models))


@functools.cache
def _facts(name: str) -> tuple[str, InputTransform]:
    """Return the family and the transform of the first weights published for a name."""
    from torchvision import models

    module = models.get_model_builder(name).__module__.rpartition(".")[2]
    preset = next(iter(models.get_model_weights(name))).transforms()
    transform = InputTransform(
        size=preset.crop_size[0],
        resize=preset.resize_size[0],
        interpolation=cast(Literal["bilinear", "bicubic"], preset.interpolation.value),
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )
    return FAMILIES.get(module, module), transform


def _build(name: str) -> nn.Module:
    from torchvision import models

    return cast("nn.Module", models.get_model(name, weights=None, **_options(name)))


def _options(name: str) -> dict[str, Any]:
    """Return the arguments that torchvision itself would add along with its weights."""
    family, transform = _facts(name)
    if family == "ViT":
        return {"image_size": transform.size}
    if family == "Inception":
        # transform_input undoes ImageNet's normalisation: the published weights need it, and no
        # key of a state dict would tell. Auxiliary heads are idle in eval mode, but in the files.
        return {"aux_logits": True, "transform_input": True, "init_weights": True}
    return {}
