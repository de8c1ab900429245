"""What a model source offers, and what is known of one architecture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from torch import nn

#: ImageNet's channel means and deviations, on pixels scaled to [0, 1].
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True, slots=True)
class InputTransform:
    """How an image file becomes a network's input. Pixels stay uint8 until the device."""

    #: Side of the square the network sees, in pixels.
    size: int
    #: Length the shorter side is resized to before the centre crop, in pixels.
    resize: int
    #: How resizing interpolates.
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    #: Per-channel mean subtracted from pixels in [0, 1].
    mean: tuple[float, float, float] = IMAGENET_MEAN
    #: Per-channel deviation divided by.
    std: tuple[float, float, float] = IMAGENET_STD


@dataclass(frozen=True, slots=True)
class Architecture:
    """One network structure by name."""

    #: The source that knows it, such as ``torchvision``.
    source: str
    #: Its name within the source, such as ``resnet50``.
    name: str
    #: The family it belongs to, such as ``ResNet``.
    family: str
    #: Number of outputs.
    classes: int
    #: How images are prepared for it.
    transform: InputTransform
    #: Whether weights come with this package (checkpoint ``bundled``).
    bundled: bool = False
    #: Transform that the bundled weights expect, where it differs.
    bundled_transform: InputTransform | None = None
    #: Builds the network with its ordinary random initialisation.
    build: Callable[[], nn.Module] = field(repr=False, compare=False, kw_only=True)

    @property
    def full_name(self) -> str:
        """Source and name, such as ``torchvision:resnet50``."""
        return f"{self.source}:{self.name}"


class ModelSource(Protocol):
    """A place architectures come from. One module a source; listed in ``catalog.models``."""

    #: The prefix of its names.
    name: str

    def names(self) -> list[str]:
        """Return every architecture's name, sorted, without importing torch where possible."""

    def get(self, name: str) -> Architecture:
        """Return one architecture; raise UnknownName for a name not in the source."""
