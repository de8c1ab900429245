"""Closed paths around images: each through copies of one image, moved along a circle.

Copy k of K is the image moved by (r cos a, r sin a) with a = 2 pi k / K, between whole pixels by
bilinear interpolation, with the values at its edge going on outside of it. Segments lead from
each copy to the next and from the last to the first.

References
----------
Gamba et al. 2022, "Are All Linear Regions Created Equal?", arXiv:2202.11749.
"""

from __future__ import annotations

import torch
from torch.nn import functional

from survey.errors import InputError, SettingsError

#: The published radius, in pixels of an image of so many.
_RADIUS, _PIXELS = 4.0, 32


def closed_paths(
    images: torch.Tensor, anchors: int = 8, radius: float | None = None
) -> torch.Tensor:
    """Return the anchors of a closed path around each image.

    Parameters
    ----------
    images : torch.Tensor
        n x c x h x w, normalised or not: an affine map of each channel may come before or after.
    anchors : int
        K, at least 2.
    radius : float, optional
        In pixels; by default 4 for images of 32 pixels, and for others in proportion to the shorter
        side.

    Returns
    -------
    torch.Tensor
        n x K x c x h x w; segment k leads from anchor k to anchor (k + 1) mod K.

    Raises
    ------
    InputError
        If there are no images of floats.
    SettingsError
        If there are fewer than two anchors, or the radius is not positive.
    """
    if images.ndim != 4 or not images.is_floating_point():
        shape = tuple(images.shape)
        raise InputError(f"images are n x c x h x w floats, not {images.dtype} of shape {shape}")
    if anchors < 2:
        raise SettingsError(f"anchors is {anchors}, and must be at least 2")
    radius = _RADIUS * min(images.shape[-2:]) / _PIXELS if radius is None else radius
    if not radius > 0:
        raise SettingsError(f"radius is {radius}, and must be above 0 pixels")
    angles = 2 * torch.pi * torch.arange(anchors, dtype=torch.float64) / anchors
    moved = [
        _moved(images, radius * angle.cos().item(), radius * angle.sin().item()) for angle in angles
    ]
    return torch.stack(moved, 1)


def _moved(images: torch.Tensor, right: float, down: float) -> torch.Tensor:
    height, width = images.shape[-2:]
    # Coordinates run from -1 to 1 over the pixels, from edge to edge.
    exact = torch.float64
    rows = (2 * (torch.arange(height, dtype=exact) - down) + 1) / height - 1
    columns = (2 * (torch.arange(width, dtype=exact) - right) + 1) / width - 1
    # Half precision would move them by an eighth of a pixel.
    working = torch.promote_types(images.dtype, torch.float32)
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).to(images.device, working)
    every = grid.expand(len(images), -1, -1, -1)
    pixels = images.to(working)
    moved = functional.grid_sample(pixels, every, padding_mode="border", align_corners=False)
    return moved.to(images.dtype)
