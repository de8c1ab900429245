"""Small networks for 32 x 32 images, by name: CIFAR networks and the bundled zoo.

Owns the names, families and input transform. The modules are in ``catalog.models.cifar_nets``,
which imports torch and is imported when a network is built; the weights are in ``catalog.zoo``.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from catalog.models.base import Architecture, InputTransform, ModelSource

if TYPE_CHECKING:
    from torch import nn

#: Depths 6n + 2 that are listed; the CIFAR networks exist at every other one too.
LISTED_DEPTHS = (8, 14, 20, 26, 32, 38, 44, 50, 56, 110)

#: Every network's input: 32 x 32 pixels, normalised with ImageNet's mean and deviation.
TRANSFORM = InputTransform(size=32, resize=32)

#: The module that has their structures.
MODULE = "cifar_nets"

#: Every network's number of outputs.
CLASSES = 10

#: The images a network is for: what its family is called, and the channels of its stages.
_IMAGES = {"cifar": ("CIFAR", (16, 32, 64)), "digits": ("Digits", (8, 16, 32))}
_SHAPES = {"resnet": "ResNet", "plain": "plain"}
_RESIDUAL_NAME = re.compile(r"(cifar|digits)_(resnet|plain)([1-9][0-9]{0,4})")

#: Channels of the convolutions of the bundled VGG networks, stage by stage.
_VGG_STAGES = {
    "digits_vgg7": ((8, 8), (16, 16), (24, 24)),
    "digits_vgg9": ((8, 8), (16, 16), (24, 24, 24, 24)),
}

#: The architectures that come with trained weights.
BUNDLED = tuple(
    sorted({f"digits_{shape}{n}" for shape in _SHAPES for n in (14, 20, 26)} | set(_VGG_STAGES))
)


class CifarSource(ModelSource):
    """CIFAR networks of any depth 6n + 2 with their plain twins, and the bundled zoo.

    References
    ----------
    He et al. 2016, arXiv:1512.03385, Section 4.2.
    """

    name = "small"

    def names(self) -> list[str]:
        """Return the names of the bundled zoo and of the CIFAR networks of usual depth, sorted."""
        cifar = [f"cifar_{shape}{depth}" for shape in _SHAPES for depth in LISTED_DEPTHS]
        return sorted((*cifar, *BUNDLED))

    def get(self, name: str) -> Architecture:
        """Return one architecture; CIFAR networks at any depth 6n + 2, listed or not."""
        match = _RESIDUAL_NAME.fullmatch(name)
        if name in _VGG_STAGES:
            family, build = "Digits VGG", functools.partial(_build_vgg, name)
        elif match and (name in BUNDLED or (match[1] == "cifar" and _is_depth(int(match[3])))):
            images, widths = _IMAGES[match[1]]
            family = f"{images} {_SHAPES[match[2]]}"
            build = functools.partial(_build_residual, match[2], int(match[3]), widths)
        else:
            return super().get(name)
        return Architecture(
            source=self.name,
            name=name,
            family=family,
            classes=CLASSES,
            transform=TRANSFORM,
            module=MODULE,
            bundled=name in BUNDLED,
            build=build,
            build_with=build,
        )


def _is_depth(depth: int) -> bool:
    return depth >= 8 and depth % 6 == 2


def _build_residual(
    shape: str, depth: int, widths: tuple[int, int, int], classes: int = CLASSES
) -> nn.Module:
    from catalog.models.cifar_nets import CifarNet

    return CifarNet((depth - 2) // 6, widths, residual=shape == "resnet", classes=classes)


def _build_vgg(name: str, classes: int = CLASSES) -> nn.Module:
    from catalog.models.cifar_nets import SmallVgg

    return SmallVgg(_VGG_STAGES[name], classes=classes)
