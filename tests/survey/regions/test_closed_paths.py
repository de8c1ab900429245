"""Closed paths: whole pixels exactly, fractions by interpolation, one circle an image."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from survey.errors import InputError, SettingsError
from survey.regions.closed_paths import closed_paths

IMAGES = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_whole_pixels_are_moved_as_they_are() -> None:
    paths = closed_paths(IMAGES, anchors=4, radius=2.0)
    edged = functional.pad(IMAGES, (2, 2, 2, 2), mode="replicate")
    right, down = edged[..., 2:14, 0:12], edged[..., 0:12, 2:14]
    left, up = edged[..., 2:14, 4:16], edged[..., 4:16, 2:14]
    expected = torch.stack([right, down, left, up], 1)
    assert torch.allclose(paths, expected, atol=1e-12)


def test_fractions_of_a_pixel_are_interpolated() -> None:
    (moved, *_), _ = closed_paths(IMAGES, anchors=2, radius=0.25)
    expected = 0.75 * IMAGES[0, :, :, 1:] + 0.25 * IMAGES[0, :, :, :-1]
    assert torch.allclose(moved[..., 1:], expected, atol=1e-12)


def test_the_radius_grows_with_the_image() -> None:
    for size, radius in ((32, 4.0), (16, 2.0)):
        images = torch.randn(1, 1, size, size, generator=torch.Generator().manual_seed(0))
        assert torch.equal(closed_paths(images), closed_paths(images, 8, radius))


def test_it_may_be_normalised_before_or_after() -> None:
    assert torch.allclose(closed_paths(3 * IMAGES - 1), 3 * closed_paths(IMAGES) - 1)


@pytest.mark.parametrize(
    ("images", "anchors", "radius"),
    [
        (IMAGES[0], 8, None),
        (torch.zeros(1, 3, 8, 8, dtype=torch.uint8), 8, None),
        (IMAGES, 1, None),
        (IMAGES, 8, 0.0),
        (IMAGES, 8, float("nan")),
    ],
)
def test_what_makes_no_path(images: torch.Tensor, anchors: int, radius: float | None) -> None:
    with pytest.raises((InputError, SettingsError)):
        closed_paths(images, anchors, radius)
