"""The axes of convolutions, linear layers and normalisations, which make features along one axis.

The features of an image may come from its own values and from weights alone. Weights that are
made from the images, as those of conditional convolutions, must be those of the same image: each
image is a group of channels of its own then, of the weights too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from survey.capture.arguments import argument
from survey.capture.axes import Axes, Part, lost
from survey.capture.axis_origins import TensorFunction, named


def feature_axes(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    moving: list[tuple[torch.Tensor, Axes]],
    shape: tuple[int, ...],
) -> Axes:
    """Return the axes after a call that makes features along axis 1, or along the last one.

    Parameters
    ----------
    function : callable
        One of ``AXIS_ONE`` or ``AXIS_LAST``.
    args, kwargs
        Its arguments.
    moving : list of tuple
        Those of its tensors that depend on the images, each with its axes.
    shape : tuple of int
        Of the result.
    """
    values: Any = args[0] if args else kwargs.get("input")
    axes = next((axes for tensor, axes in moving if tensor is values), None)
    place = len(shape) - 1 if function in AXIS_LAST else 1
    if axes is None or not axes.fits(values.shape) or not place < len(shape) == len(axes.each):
        return lost(shape)
    weights = [held for tensor, held in moving if tensor is not values]
    if place in axes.holding("images"):
        alone = function not in AXIS_LAST
        return _grouped(function, args, kwargs, axes, weights, shape) if alone else lost(shape)
    if function not in _OF_TWO and any(not held.same_for_all_images() for held in weights):
        return lost(shape)
    held = axes.holding("channels")
    # A filter that runs along the channels, as efficient channel attention's does.
    lone = place == 1 and axes.fits(shape) and shape[1] == 1 and held and 1 not in held
    return axes if lone else axes.with_channels(place, shape)


def _grouped(
    function: TensorFunction,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    axes: Axes,
    weights: list[Axes],
    shape: tuple[int, ...],
) -> Axes:
    """Return the axes after a call along axis 1 where it runs over images, as groups or not."""
    first, *others = axes.each[1]
    if any(not _follow_images(held, first) for held in weights):
        return lost(shape)
    if function in _NORMS and axes.fits(shape):
        return axes
    groups = argument(args, kwargs, 6, "groups", 1)
    alike = isinstance(groups, int) and groups % first.size == 0 and shape[1] % first.size == 0
    if function not in _CONVOLUTIONS or first.role != "images" or not others or not alike:
        return lost(shape)
    made = axes.with_channels(1, shape).each
    return Axes((made[0], (first, Part("channels", shape[1] // first.size)), *made[2:]))


def _follow_images(weights: Axes, images: Part) -> bool:
    """Return whether the weights of each image are made from that image, or from none."""
    if weights.same_for_all_images():
        return True
    rest = Axes((weights.each[0][1:], *weights.each[1:]))
    return weights.each[0][:1] == (images,) and rest.same_for_all_images()


_NORMS = named("batch_norm", "group_norm", "instance_norm")
_CONVOLUTIONS = named(
    "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
)  # fmt: skip
_SHUFFLES = named("pixel_shuffle", "pixel_unshuffle", "channel_shuffle")
AXIS_ONE = _CONVOLUTIONS | _SHUFFLES | _NORMS
AXIS_LAST = named("linear", "bilinear", "layer_norm", "rms_norm")
#: Calls whose second argument is a value as the first one.
_OF_TWO = named("bilinear")
