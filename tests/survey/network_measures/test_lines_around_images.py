"""Region density, Hamming density and absolute deviation: closed forms, the tracer, and reasons."""

from __future__ import annotations

import pytest
import torch
import torchvision
from torch import nn

from survey import hamming_density, linear_regions, measure_network
from survey.network_measures import hamming_density as hamming
from survey.network_measures import region_density as regions
from survey.network_measures.base import NetworkScore
from survey.regions.closed_paths import closed_paths
from tests.survey.regions.networks import Computed, ConvNet

ALL = ("region_density", "hamming_density", "absolute_deviation")
IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def scored(net: nn.Module, *names: str, images: torch.Tensor = IMAGES) -> dict[str, NetworkScore]:
    return measure_network(net, images.shape[1:], names or ALL, [images])


def perceptron(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Flatten(), nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 32), nn.LeakyReLU(),
        nn.Linear(32, 5),
    )  # fmt: skip


def first_pixel(function: object) -> nn.Module:
    """Return a network that is a function of one sum over the image."""
    return Computed(
        lambda net, x: function(net.sum(x)), sum=nn.Sequential(nn.Flatten(), nn.Linear(192, 1))
    )


def test_they_are_what_the_tracer_finds_on_every_line() -> None:
    images = IMAGES[:2, :, :6, :6].double()
    small = nn.Sequential(nn.Flatten(), nn.Linear(108, 40), nn.ReLU(), nn.Linear(40, 3))
    for net in (small, ConvNet()):
        scores = scored(net.double(), images=images)
        paths = closed_paths(images)
        lines = [
            [
                linear_regions(net, start, end)
                for start, end in zip(path, path.roll(-1, 0), strict=True)
            ]
            for path in paths
        ]
        density = torch.tensor([[float(line.density) for line in row] for row in lines])
        of_path = density.mean(1)
        score = scores["region_density"]
        assert score.value == pytest.approx(density.mean().item())
        assert score.standard_error == pytest.approx(of_path.std().item() / 2**0.5)
        assert (score.samples, score.details["lines"], score.details["traced"]) == (2, 16, 1.0)
        assert of_path.mean() > 2
        norms = torch.tensor([[line.absolute_deviation.norm() for line in row] for row in lines])
        deviation = scores["absolute_deviation"]
        assert deviation.value == pytest.approx(norms.mean().item(), rel=0.03)
        lengths = torch.tensor([[line.distance for line in row] for row in lines])
        spread = net.eval()(images).var(0).sum().sqrt().item()
        relative = (norms / lengths).mean().item() / spread
        assert scores["absolute_deviation_relative"].value == pytest.approx(relative, rel=0.03)


def test_the_hamming_density_is_that_of_every_line_and_below_the_changes() -> None:
    net = perceptron().double()
    score = scored(net, "hamming_density", images=IMAGES.double())["hamming_density"]
    flips, halves, changes = [], [], []
    for path in closed_paths(IMAGES.double()):
        for start, end in zip(path, path.roll(-1, 0), strict=True):
            flips.append(hamming_density(net, start, end, hamming.STEPS).flips)
            halves.append(hamming_density(net, start, end, hamming.STEPS // 2).flips)
            changes.append(len(linear_regions(net, start, end).times))
    assert score.value == pytest.approx(sum(flips) / 32)
    assert score.details["with_half_the_steps"] == pytest.approx(sum(halves) / 32)
    assert score.details["missed"] == pytest.approx((sum(flips) - sum(halves)) / 32)
    assert sum(halves) <= sum(flips) <= sum(changes)
    assert score.details["units"] == 64


def test_parts_of_lines_have_the_expectation_of_whole_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    net, images = perceptron(), IMAGES[:2]
    whole = scored(net, "region_density", images=images)["region_density"]
    monkeypatch.setattr(regions, "MOST_CHANGES", 3)
    values = []
    for seed in range(12):
        monkeypatch.setattr(regions, "SEED", seed)
        part = scored(net, "region_density", images=images)["region_density"]
        assert 0.1 < float(str(part.details["traced"])) < 0.7
        values.append(part.value)
    drawn = torch.tensor(values)
    assert drawn.std() > 0
    assert drawn.mean().item() == pytest.approx(whole.value, abs=3 * drawn.std().item() / 12**0.5)


def test_a_linear_network_has_none() -> None:
    scores = scored(nn.Sequential(nn.Flatten(), nn.Linear(192, 3)))
    assert (scores["region_density"].value, scores["hamming_density"].value) == (0.0, 0.0)
    for name in ("region_density", "hamming_density"):
        assert scores[f"{name}_per_unit"].value is None
        assert "no unit" in str(scores[f"{name}_per_unit"].reason)
    assert scores["absolute_deviation"].value == pytest.approx(0.0, abs=1e-5)


def test_deviations_have_closed_forms() -> None:
    """A square of a sum s that goes from a to b deviates by length |b - a|^2 / 6."""
    net = first_pixel(torch.square)
    score = scored(net.double(), "absolute_deviation", images=IMAGES.double())["absolute_deviation"]
    expected = []
    for path in closed_paths(IMAGES.double()):
        for start, end in zip(path, path.roll(-1, 0), strict=True):
            step = (net.sum(end[None]) - net.sum(start[None])).item()
            expected.append((end - start).norm().item() * step**2 / 6)
    # The trapezoid rule on m steps has 1 - 1 / m^2 of the integral of a parabola.
    assert score.value == pytest.approx(sum(expected) / 32 * (1 - 1 / 16**2), rel=1e-9)


@pytest.mark.parametrize("factor", [0.01, 5.0])
def test_relative_ones_do_not_change_with_the_outputs(factor: float) -> None:
    net = perceptron()
    scaled = nn.Sequential(net, Computed(lambda _, y: factor * y - 3))
    one, other = scored(net, "absolute_deviation"), scored(scaled, "absolute_deviation")
    assert other["absolute_deviation"].value == pytest.approx(
        factor * (one["absolute_deviation"].value or 0.0), rel=1e-3
    )
    name = "absolute_deviation_relative"
    assert other[name].value == pytest.approx(one[name].value, rel=1e-3)
    assert other[name].standard_error == pytest.approx(one[name].standard_error, rel=1e-3)


def test_the_relative_error_is_its_spread_over_samples() -> None:
    net = perceptron()
    draw = torch.Generator().manual_seed(0)
    scores = [
        scored(net, "absolute_deviation", images=torch.randn(16, 3, 8, 8, generator=draw))
        for _ in range(12)
    ]
    each = [score["absolute_deviation_relative"] for score in scores]
    spread = torch.tensor([score.value for score in each]).std().item()
    mean = sum(score.standard_error or 0.0 for score in each) / len(each)
    assert 0.5 < mean / spread < 2


def test_what_is_not_piecewise_linear_has_a_deviation_and_reasons() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU(), nn.Flatten(), nn.Linear(144, 2))
    scores = scored(net)
    assert (scores["absolute_deviation"].value or 0.0) > 0
    for name in ("region_density", "region_density_per_unit", "hamming_density"):
        assert scores[name].value is None
        assert scores[name].reason == "gelu at 1#1 is not piecewise linear"


def test_images_too_large_to_trace() -> None:
    net = Computed(lambda net, x: net.head(torch.relu(net.conv(x)).mean((2, 3))),
                   conv=nn.Conv2d(3, 2, 3), head=nn.Linear(2, 2))  # fmt: skip
    images = torch.randn(1, 3, 65, 65)
    scores = scored(net, images=images)
    assert "up to 64 pixels, not at 65" in str(scores["region_density"].reason)
    assert regions.MEASURE.alternative == "hamming_density"
    assert (scores["hamming_density"].value or 0.0) > 100
    assert (scores["absolute_deviation"].value or 0.0) > 0


@pytest.mark.parametrize(
    ("net", "images", "name", "reason"),
    [
        (perceptron(), 0 * IMAGES, "hamming_density", "one colour"),
        (perceptron(), 0 * IMAGES, "absolute_deviation", "one colour"),
        (perceptron(), IMAGES[:1], "absolute_deviation_relative", "needs 2 images"),
        (first_pixel(lambda y: 0 * y + 7), IMAGES, "absolute_deviation_relative", "same for all"),
        (first_pixel(lambda y: y / 0), IMAGES, "absolute_deviation", "not finite"),
    ],
)
def test_what_has_none_has_a_reason(
    net: nn.Module, images: torch.Tensor, name: str, reason: str
) -> None:
    score = scored(net, name.removesuffix("_relative"), images=images)[name]
    assert score.value is None
    assert reason in str(score.reason)


def test_in_the_inference_mode_they_are_the_same() -> None:
    plain = scored(perceptron())
    with torch.inference_mode():
        assert scored(perceptron()) == plain


@pytest.mark.long
def test_units_of_a_published_network() -> None:
    torch.manual_seed(0)
    images = torch.randn(1, 3, 32, 32)
    score = scored(torchvision.models.resnet18(), "hamming_density", images=images)
    assert score["hamming_density"].details["units"] == 2_308_096 // 49
    assert 0.1 < (score["hamming_density_per_unit"].value or 0.0) < 0.6
