"""Small networks for 32 x 32 images, by name: CIFAR networks and the bundled zoo.

Owns the names, families and input transform. The modules are in ``catalog.models.small_nets``,
which imports torch and is imported when a network is built; the weights are in ``catalog.zoo``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from catalog.models.base import Architecture, InputTransform, Published
from survey.errors import UnknownName

if TYPE_CHECKING:
    from torch import nn

#: Depths 6n + 2 that are listed; the CIFAR networks exist at every other one too.
LISTED_DEPTHS = (8, 14, 20, 26, 32, 38, 44, 50, 56, 110)

#: Every network's input: 32 x 32 pixels, normalised with ImageNet's mean and deviation.
TRANSFORM = InputTransform(size=32, resize=32)

#: The module that has their structures.
MODULE = "small_nets"

#: Every network's number of outputs.
CLASSES = 10

_CIFAR_WIDTHS = (16, 32, 64)
_DIGITS_WIDTHS = (8, 16, 32)
_FAMILIES = {"resnet": "ResNet", "plain": "plain"}
_CIFAR_NAME = re.compile(r"cifar_(resnet|plain)([1-9][0-9]{0,4})")

#: Channels of the convolutions of the bundled VGG networks, stage by stage.
_VGG_STAGES = {
    "digits_vgg7": ((8, 8), (16, 16), (24, 24)),
    "digits_vgg9": ((8, 8), (16, 16), (24, 24, 24, 24)),
}

#: The bundled zoo: name to shape and depth of the residual networks and their plain twins.
_DIGITS_PAIRS = {
    f"digits_{shape}{depth}": (shape, depth) for shape in _FAMILIES for depth in (14, 20, 26)
}

#: The architectures that come with trained weights.
BUNDLED = tuple(sorted((*_DIGITS_PAIRS, *_VGG_STAGES)))


class SmallSource:
    """CIFAR networks of any depth 6n + 2 with their plain twins, and the bundled zoo.

    References
    ----------
    He et al. 2016, arXiv:1512.03385, Section 4.2.
    """

    name = "small"

    def names(self) -> list[str]:
        """Return the names of the bundled zoo and of the CIFAR networks of usual depth, sorted."""
        cifar = [f"cifar_{shape}{depth}" for shape in _FAMILIES for depth in LISTED_DEPTHS]
        return sorted((*cifar, *BUNDLED))

    def get(self, name: str) -> Architecture:
        """Return one architecture; CIFAR networks at any depth 6n + 2, listed or not.

        Raises
        ------
        UnknownName
            If there is no such network, or its depth is not 6n + 2 for an n of at least 1.
        """
        if name in _VGG_STAGES:
            return self._bundled(name, "Digits VGG", functools.partial(_build_vgg, name))
        if name in _DIGITS_PAIRS:
            shape, depth = _DIGITS_PAIRS[name]
            build = functools.partial(_build_cifar, shape, depth, _DIGITS_WIDTHS)
            return self._bundled(name, f"Digits {_FAMILIES[shape]}", build)
        match = _CIFAR_NAME.fullmatch(name)
        if match is None or not _is_depth(int(match[2])):
            raise UnknownName("small architecture", name, self.names())
        return Architecture(
            source=self.name,
            name=name,
            family=f"CIFAR {_FAMILIES[match[1]]}",
            classes=CLASSES,
            transform=TRANSFORM,
            module=MODULE,
            build=functools.partial(_build_cifar, match[1], int(match[2]), _CIFAR_WIDTHS),
        )

    def published(self) -> tuple[Published, ...]:
        """Return nothing: what is trained comes with this package."""
        return ()

    def _bundled(self, name: str, family: str, build: Callable[[], nn.Module]) -> Architecture:
        return Architecture(
            source=self.name,
            name=name,
            family=family,
            classes=CLASSES,
            transform=TRANSFORM,
            module=MODULE,
            bundled=True,
            build=build,
        )


def _is_depth(depth: int) -> bool:
    return depth >= 8 and depth % 6 == 2


def _build_cifar(shape: str, depth: int, widths: tuple[int, int, int]) -> nn.Module:
    from catalog.models.small_nets import CifarNet

    return CifarNet((depth - 2) // 6, widths, residual=shape == "resnet", classes=CLASSES)


def _build_vgg(name: str) -> nn.Module:
    from catalog.models.small_nets import SmallVgg

    return SmallVgg(_VGG_STAGES[name], classes=CLASSES)
