"""Pooling of a tensor of any layout to an n x c matrix, with the count of values near zero.

``survey.settings.MeasureSettings`` says what the ways of pooling are.
"""

from __future__ import annotations

import math

import torch

from survey.capture.axes import Layout
from survey.capture.near_zero import PIECE, Counter, NearZero, comparable, count_near_zero
from survey.errors import CaptureError, SettingsError
from survey.settings import Pooling

#: Columns up to which ``flatten`` is allowed: at 512 images a matrix of them takes 256 MiB.
FLATTEN_CAP = 65_536


def pool(
    tensor: torch.Tensor, layout: Layout, images: int, pooling: Pooling = "mean"
) -> torch.Tensor:
    """Return an activation's input or output as a matrix with one row an image.

    Parameters
    ----------
    tensor : torch.Tensor
        Input or output of an activation.
    layout : Layout
        Which of its axes hold the images and the channels.
    images : int
        Images B in this forward pass. An images axis of length k B (patches or windows folded
        into the batch) is pooled over each image's k parts.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        How; see ``MeasureSettings``. ``pre`` averages as ``mean`` does: it is the caller who runs
        the activation on the result.

    Returns
    -------
    torch.Tensor
        B x c, float64, in memory of its own; on an accelerator float32 where it holds means of one
        rounding, which leave it in half the time. B x (c positions) for ``flatten``, and for
        ``public_code`` whatever axis the published script keeps.

    Raises
    ------
    CaptureError
        If the images or the channels cannot be told apart any more, the tensor is not dense, or
        the published script has no meaning for it.
    SettingsError
        If ``flatten`` would give more than ``FLATTEN_CAP`` columns.
    """
    tensor = tensor.detach()
    matrix = _pooled(tensor, layout, images, pooling)
    # Where nothing is averaged, float64 values would be the network's own memory, which an
    # activation or what follows it may change in place.
    # Torch's own question: fake tensors have no addresses to compare.
    shared: bool = torch._C._is_alias_of(matrix, tensor)  # type: ignore[attr-defined]
    return matrix.clone() if shared else matrix


def pool_and_count(
    tensor: torch.Tensor, layout: Layout, images: int, pooling: Pooling = "mean"
) -> tuple[torch.Tensor, NearZero]:
    """Return the results of ``pool`` and ``count_near_zero``, from one pass where possible."""
    if pooling in ("mean", "pre") and _is_maps(tensor, layout, images):
        return _in_one_pass(tensor.detach())
    matrix = pool(tensor, layout, images, pooling)
    return matrix, count_near_zero(tensor)


def spread(matrix: torch.Tensor, layout: Layout, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a pooled matrix as a tensor of the layout it came from, with spatial sizes 1.

    Parameters
    ----------
    matrix : torch.Tensor
        B x c.
    layout : Layout
        Which axes hold the images and the channels.
    shape : tuple of int
        The tensor's shape before it was pooled.

    Returns
    -------
    torch.Tensor
        As many axes as ``shape``; B along the images' axis, the channels along theirs.

    Raises
    ------
    CaptureError
        If no axis holds the images.
    """
    if layout.images is None:
        raise CaptureError(f"which axis of {shape} holds the images cannot be told")
    sizes = [shape[axis] for axis in layout.channels]
    whole = matrix.reshape(len(matrix), *sizes)
    kept = sorted((layout.images, *layout.channels))
    whole = whole.movedim(0, kept.index(layout.images))
    for axis in range(len(shape)):
        if axis not in kept:
            whole = whole.unsqueeze(axis)
    return whole


def _pooled(tensor: torch.Tensor, layout: Layout, images: int, pooling: Pooling) -> torch.Tensor:
    if tensor.layout is not torch.strided:
        raise CaptureError(f"the activation is kept as {tensor.layout}, and only dense ones pooled")
    if tensor.is_quantized:
        raise CaptureError("the activation is quantized, and only plain numbers are pooled")
    if not tensor.numel():
        raise CaptureError("the activation holds no value")
    if tensor.is_complex():
        raise CaptureError("the activation is complex, and the score is defined for real values")
    if pooling == "public_code":
        return _as_published(tensor, layout, images)
    rows, columns = _axes(tensor, layout, images)
    if pooling == "flatten":
        return _flattened(tensor, rows, images)
    channels = math.prod(tensor.shape[axis] for axis in columns)
    rest = [axis for axis in range(tensor.ndim) if axis != rows and axis not in columns]
    values = _mean(tensor, rest).movedim(rows, 0)
    if pooling != "sum" and len(values) == images and values.device.type != "cpu":
        return values.reshape(images, channels)
    values = values.to(torch.float64)
    matrix = values.reshape(images, -1, channels).mean(dim=1)
    if pooling == "sum":
        # Not summed in float32, whose rounding would grow with the sum.
        return matrix * (tensor.numel() / matrix.numel())
    return matrix


def _mean(tensor: torch.Tensor, axes: list[int]) -> torch.Tensor:
    """Return the mean over axes, kept with size 1, in float32 or float64."""
    values = tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)
    if axes:
        # A float64 mean of float32 values is 14 to 50 times slower on a CPU. torch sums pairwise,
        # so the float32 mean is off by some 2e-7 of the mean of |x|: what the forward pass's own
        # arithmetic loses too, and what moves scores of trained networks by less than 1e-7.
        values = values.mean(dim=axes, keepdim=True)
    return values


def _flattened(tensor: torch.Tensor, rows: int, images: int) -> torch.Tensor:
    columns = tensor.numel() // images
    if columns > FLATTEN_CAP:
        raise SettingsError(
            f"pooling is 'flatten', but an activation of shape {tuple(tensor.shape)} has {columns} "
            f"values an image, and at most {FLATTEN_CAP} can be columns",
            hint="choose another pooling (mean, pre or sum), or smaller images",
        )
    return tensor.movedim(rows, 0).reshape(images, -1).to(torch.float64)


def _as_published(tensor: torch.Tensor, layout: Layout, images: int) -> torch.Tensor:
    if layout.images != 0 or tensor.shape[0] != images or not 2 <= tensor.ndim <= 4:
        raise CaptureError(
            f"the published script has no meaning for a tensor of shape {tuple(tensor.shape)} "
            f"whose axis {layout.images} holds the {images} images"
        )
    # These hold space behind a convolution, but the channels of a token model, and the channels and
    # one axis of space where channels come last.
    averaged = {2: [], 3: [2], 4: [2, 3]}[tensor.ndim]
    return _mean(tensor, averaged).to(torch.float64).reshape(images, -1)


def _axes(tensor: torch.Tensor, layout: Layout, images: int) -> tuple[int, tuple[int, ...]]:
    rows, columns = layout.images, layout.channels
    shape = tuple(tensor.shape)
    if rows is None or shape[rows] % images:
        raise CaptureError(f"which axis of {shape} holds the {images} images cannot be told")
    if not columns or rows in columns:
        raise CaptureError(f"which axis of {shape} holds the channels cannot be told")
    return rows, columns


def _is_maps(tensor: torch.Tensor, layout: Layout, images: int) -> bool:
    """Return whether a tensor is N x C x space in this order in a processor's memory."""
    return (
        tensor.device.type == "cpu"
        and tensor.dtype == torch.float32
        and tensor.ndim > 2
        and tensor.numel() > PIECE
        and (layout.images, tuple(layout.channels)) == (0, (1,))
        and tensor.shape[0] == images
        and tensor.is_contiguous()
        and math.prod(tensor.shape[2:]) <= PIECE
    )


def _in_one_pass(tensor: torch.Tensor) -> tuple[torch.Tensor, NearZero]:
    """Return the means of channel maps and their count near zero, one piece at a time."""
    images, channels = tensor.shape[:2]
    size = math.prod(tensor.shape[2:])
    counter = Counter(torch.float32)
    means = []
    # Pieces of like size: torch shares a sum out among threads only where there is but one, and
    # its bits then depend on how many there are. No piece may be a single map.
    pieces = math.ceil(images * channels / max(PIECE // size, 4))
    values, start = comparable(tensor.view(-1)), 0
    for maps in tensor.view(images * channels, size).tensor_split(pieces):
        means.append(maps.mean(dim=1))
        counter.add(values[start : start + maps.numel()])
        start += maps.numel()
    matrix = torch.cat(means).view(images, channels).to(torch.float64)
    return matrix, counter.counted(tensor.numel())
