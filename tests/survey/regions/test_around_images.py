"""Regions around images: means over closed paths, and segments that have no length."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from survey import InputError, linear_regions
from survey.regions.around_images import estimated_scores, exact_scores, mean_of
from survey.regions.closed_paths import closed_paths
from tests.survey.regions.networks import ConvNet

IMAGES = torch.randn(3, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def test_a_row_an_image_and_a_column_a_segment() -> None:
    images = IMAGES.clone()
    images[1] = 0.5
    net = ConvNet()
    scores = exact_scores(net, images, anchors=4)
    paths = closed_paths(images.double(), 4)
    last = linear_regions(net, paths[2, 3], paths[2, 0])
    assert scores.crossings[2, 3] == last.density
    assert scores.deviation[2, 3].item() == pytest.approx(last.absolute_deviation.norm().item())
    assert scores.distance[2, 3].item() == pytest.approx(last.distance)
    # An image of one colour does not move.
    assert scores.crossings[1].isnan().all()
    assert not scores.crossings[[0, 2]].isnan().any()
    assert mean_of(scores.crossings).paths == 2
    outputs = net.double().eval()(images.double())
    assert scores.spread == pytest.approx(outputs.var(0).sum().sqrt().item())
    assert torch.allclose(
        scores.relative_bend[0], scores.deviation[0] / scores.distance[0] / scores.spread
    )


def test_estimates_are_near_and_below() -> None:
    net = ConvNet()
    exact = exact_scores(net, IMAGES[:1], anchors=3)
    estimated = estimated_scores(net.double(), IMAGES[:1].double(), anchors=3, segments=128)
    assert estimated.units == 2 * 6 * 36 + 6 * 9
    assert torch.allclose(estimated.deviation, exact.deviation, rtol=1e-2)
    assert (estimated.crossings > 0.5 * exact.crossings).all()


def test_a_smooth_network_has_deviations_and_a_reason() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(64, 2))
    scores = estimated_scores(net, IMAGES, anchors=2, segments=16)
    assert scores.reason == "gelu at 1#1 is not piecewise linear"
    assert (scores.units, mean_of(scores.crossings).value) == (None, None)
    assert (scores.deviation > 0).all()


def test_the_standard_error_is_that_of_the_paths() -> None:
    values = torch.tensor([[1.0, 3.0], [5.0, math.nan], [math.nan, math.nan], [9.0, 7.0]])
    mean = mean_of(values)
    assert (mean.value, mean.paths) == (5.0, 3)
    assert mean.standard_error == pytest.approx(3 / math.sqrt(3))
    assert mean_of(values[:1]).standard_error is None
    assert mean_of(values[2:3]).value is None


def test_large_images_are_refused() -> None:
    with pytest.raises(InputError, match="64 x 64"):
        exact_scores(ConvNet(), torch.randn(1, 3, 65, 65))
