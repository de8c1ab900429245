"""Linearisation: linear networks at the end, planted curves, its standard error, its edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey.network_measures.affine_channels import AffineChannels, AffineOrder
from survey.network_measures.base import NetworkScore
from survey.network_measures.channel_moments import SiteMoments
from survey.network_measures.linearisation import PERCENTAGES
from survey.network_measures.sample import ImageSample
from survey.network_measuring import measures_named, measuring_steps
from tests.survey.network_measures.test_active_fraction import Computed, drawn


def score_of(net: nn.Module, images: torch.Tensor, labels: torch.Tensor | None) -> NetworkScore:
    measure = measures_named(["linearisation"])[0]
    steps = measuring_steps(measure, net, images.shape[1:], ImageSample(images, labels, 256))
    fractions = []
    while True:
        try:
            fractions.append(next(steps))
        except StopIteration as end:
            assert fractions == sorted(fractions)
            score: NetworkScore = end.value["linearised_path_length"]
            return score


def linearised(net: nn.Module, images: torch.Tensor, percentage: float) -> AffineChannels:
    moments = SiteMoments(net.eval())
    moments.add(images.clone())
    order = AffineOrder(moments.of_sites())
    return AffineChannels(net, order, order.replaced(percentage))


def network(*activations: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)]
    for activation in activations:
        layers += [activation, nn.Conv2d(8, 8, 3, padding=1, groups=2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(288, 10)).eval()


@pytest.mark.parametrize(
    "activation",
    [
        nn.ReLU(inplace=True),
        nn.Hardswish(inplace=True),
        nn.GELU(),
        nn.PReLU(8),
        Computed(lambda _, x: torch.relu_(x)),
        Computed(lambda _, x: functional.silu(x.movedim(1, -1), inplace=True).movedim(-1, 1)),
        Computed(lambda _, x: x * torch.sigmoid(x)),
        Computed(lambda _, x: x * functional.relu6(x + 3) / 6),
        Computed(lambda _, x: torch.where(x > 0, x, 0.0)),
        Computed(lambda _, x: x.clamp_(0.0, 6.0)),
    ],
)
def test_a_network_all_of_whose_channels_are_replaced_is_affine(activation: nn.Module) -> None:
    net, images = network(activation, nn.ReLU()), drawn(32, 3, 8, 8)
    both, halfway = (images[:8] + images[8:16]) / 2, net(images)[:8]
    changed = linearised(net, images, 100)

    def outputs(x: torch.Tensor) -> torch.Tensor:
        output = changed.outputs(x.clone())
        assert isinstance(output, torch.Tensor)
        return output

    ends = (outputs(images[:8]) + outputs(images[8:16])) / 2
    assert outputs(both) == pytest.approx(ends, abs=1e-5)
    assert (net(images)[:8] == halfway).all()
    plain = (net(images[:8]) + net(images[8:16])) / 2
    assert (net(both) - plain).abs().max() > 1e-2


def test_without_replaced_channels_the_output_is_the_network_s() -> None:
    net, images = network(nn.ReLU(inplace=True)), drawn(32, 3, 8, 8)
    assert (linearised(net, images, 0).outputs(images) == net(images)).all()


def test_the_most_affine_channels_come_first() -> None:
    net = Computed(lambda _, x: torch.relu(x + torch.tensor([100.0, 0.0, 1.0, -100.0])))
    images = drawn(200, 4)
    moments = SiteMoments(net)
    moments.add(images)
    order = AffineOrder(moments.of_sites())
    (first, second, third) = (order.replaced(each)[":relu#1"].tolist() for each in (25, 50, 75))
    assert sum(first) == 1
    assert second == [True, False, False, True]
    assert third == [True, False, True, True]


def test_the_gate_s_factor_is_replaced_and_its_value_kept() -> None:
    net, images = Computed(lambda _, x: functional.glu(x, 1)), drawn(300, 8)
    outputs = linearised(net, images, 100).outputs(images)
    value, gate = images.chunk(2, 1)
    assert isinstance(outputs, torch.Tensor)
    for channel in range(4):
        design = torch.stack([gate[:, channel], torch.ones(300)], 1)
        fitted = design @ torch.linalg.lstsq(design, torch.sigmoid(gate[:, channel])).solution
        assert outputs[:, channel] == pytest.approx(value[:, channel] * fitted, abs=1e-5)


def labelled(net: nn.Module, images: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        labels: torch.Tensor = net(images).argmax(1)
        return labels


def test_an_affine_network_keeps_its_accuracy_at_no_length() -> None:
    net = network(nn.ReLU(), nn.ReLU())
    for name in ("1.bias", "3.bias"):
        net.state_dict()[name].add_(1000)
    images = drawn(200, 3, 8, 8)
    net.state_dict()["7.bias"].sub_(net(images).mean(0))
    score = score_of(net, images, labelled(net, images))
    assert score.value == 0.0
    assert {point.y for point in score.curve} == {1.0}
    lengths = [2 - k / 50 for k in PERCENTAGES]
    # Of 16 channels whole ones are replaced.
    assert [point.x for point in score.curve] == pytest.approx(lengths, abs=2 / 32)
    assert (score.samples, score.details["fitted"]) == (100, 100)


def absolute_values() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """|x| > 2/3 by two of 20 rectifiers, the others affine: no affine function tells it."""
    layers = nn.Linear(1, 20), nn.Linear(20, 2)
    (first, last) = layers
    first.weight.data = torch.cat([torch.tensor([[1.0], [-1.0]]), torch.ones(18, 1)])
    first.bias.data = torch.tensor([0.0, 0.0, *[50.0] * 18])
    last.weight.data = torch.zeros(2, 20)
    last.weight.data[1, :2] = 1.0
    last.bias.data = torch.tensor([2 / 3, 0.0])
    images = drawn(512, 1)
    return nn.Sequential(first, nn.ReLU(), last), images, (images[:, 0].abs() > 2 / 3).long()


def test_the_length_is_where_the_accuracy_falls_below_nine_tenths() -> None:
    score = score_of(*absolute_values())
    ys = [point.y or 0.0 for point in score.curve]
    assert ys[:19] == [1.0] * 19
    assert ys[20] < 0.75
    # One step replaces one channel and takes 1/20 of the length.
    i = next(i for i, y in enumerate(ys) if y < 0.9)
    between = (0.9 - ys[i]) / (ys[i - 1] - ys[i])
    assert score.value == pytest.approx((20 - i + between) / 20)
    assert score.details["accuracy"] == 1.0
    errors = [(y * (1 - y) / 256) ** 0.5 for y in ys]
    assert [point.standard_error for point in score.curve] == pytest.approx(errors)


def test_in_the_inference_mode_it_is_the_same() -> None:
    values = absolute_values()
    with torch.inference_mode():
        score = score_of(*values)
    assert score == score_of(*values)


def test_its_standard_error_is_its_spread_over_images() -> None:
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 4))
    found = []
    for _ in range(12):
        images = torch.randn(256, 4)
        found.append(score_of(net, images, labelled(net, images)))
    spread = torch.tensor([score.value for score in found]).std().item()
    mean = sum(score.standard_error or 0.0 for score in found) / len(found)
    assert 0.5 < mean / spread < 2


@pytest.mark.parametrize(
    ("compute", "labels", "reason"),
    [
        (lambda _, x: torch.relu(x), None, "images with labels"),
        (lambda _, x: torch.relu(x), torch.full((40,), -1), "labels that the network knows"),
        (lambda _, x: torch.relu(x), torch.arange(40) % 4, "not above that of its most frequent"),
        (lambda _, x: torch.relu(x), torch.full((40,), 7), "4 outputs, and a label is 7"),
        (lambda _, x: torch.relu(x)[:, None], torch.zeros(40).long(), "no row of outputs"),
        (lambda _, x: x, torch.zeros(40).long(), "no activations"),
        (lambda _, x: torch.fft.fft(torch.relu(x)).real, torch.zeros(40).long(), "fft"),
    ],
)
def test_what_is_undefined_has_a_reason(
    compute: Callable[[Any, torch.Tensor], Any], labels: torch.Tensor | None, reason: str
) -> None:
    score = score_of(Computed(compute), drawn(40, 4), labels)
    assert score.value is None
    assert reason in str(score.reason)
