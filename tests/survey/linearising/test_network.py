"""Channel-wise slopes: which calls get them, along which axis, and what the penalty does."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey import CaptureError
from survey.linearising.network import LinearisedNetwork
from survey.linearising.relu_calls import relu_calls


class Computed(nn.Module):
    """Two convolutions with a function between them."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 6, 3)
        self.function = function
        self.last = nn.Conv2d(6, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.function(self.first(x))).flatten(1)


def discarded(x: torch.Tensor) -> torch.Tensor:
    functional.relu(x, inplace=True)
    return x


def last_axis(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def flattened(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.flatten(1)).view(x.shape)


#: Every way to call a ReLU.
CALLS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    nn.ReLU(),
    nn.ReLU(inplace=True),
    functional.relu,
    torch.relu,
    torch.relu_,
    torch.Tensor.relu,
    torch.Tensor.relu_,
    discarded,
    last_axis,
    flattened,
]


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("function", CALLS)
def test_outputs_and_gradients_are_those_of_a_parametric_relu(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    torch.manual_seed(0)
    net, images = Computed(function), drawn(5, 3, 8, 8)
    plain, sloped = net(images), LinearisedNetwork(net, images)
    assert torch.equal(sloped(images), plain)
    values = torch.tensor([0.0, 0.3, 1.0, -0.5, 0.7, 2.0])
    with torch.no_grad():
        sloped.slopes.copy_(values)
    expected = nn.PReLU(6)
    with torch.no_grad():
        expected.weight.copy_(values)
    outputs, others = sloped(images), net.last(expected(net.first(images))).flatten(1)
    assert torch.allclose(outputs, others, atol=1e-6)
    grown = torch.autograd.grad(outputs.square().sum(), [sloped.slopes, net.first.weight])
    wanted = torch.autograd.grad(others.square().sum(), [expected.weight, net.first.weight])
    for got, want in zip(grown, wanted, strict=True):
        assert torch.allclose(got, want, rtol=1e-4, atol=1e-4)


def stack(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 3))


def test_a_network_all_of_whose_slopes_are_1_is_affine() -> None:
    torch.manual_seed(0)
    net, images = stack(4, 6, 5), drawn(8, 4)
    sloped = LinearisedNetwork(net, images)
    with torch.no_grad():
        sloped.slopes.fill_(1.0)
    weight = net[4].weight @ net[2].weight @ net[0].weight
    bias = net[4].bias + net[4].weight @ (net[2].bias + net[2].weight @ net[0].bias)
    assert torch.allclose(sloped(images), images @ weight.T + bias, atol=1e-5)


def test_a_module_called_twice_has_slopes_for_each_call() -> None:
    relu = nn.ReLU()
    net = nn.Sequential(nn.Linear(4, 4), relu, nn.Linear(4, 5), relu, nn.Linear(5, 2))
    sites = relu_calls(net, drawn(2, 4)).sites
    assert [(site.name, site.channels) for site in sites] == [("1#1", 4), ("1#2", 5)]


def test_other_activations_and_calls_on_weights_are_left_alone() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = functional.linear(x, torch.relu(self.first.weight))
            return self.last(torch.relu(functional.gelu(x)))

    calls = relu_calls(Mixed(), drawn(2, 4))
    assert [call and call.name for call in calls.calls] == [None, ":relu#1"]
    assert calls.others == (":gelu#1",)


def test_the_gradient_of_the_penalty_is_that_of_its_formula() -> None:
    sloped = LinearisedNetwork(stack(4, 6), drawn(2, 4))
    values = torch.tensor([0.0, 0.5, 0.98, 1.3, -2.0, 1.0])
    with torch.no_grad():
        sloped.slopes.copy_(values)
    sloped.linear[5] = True
    penalty = sloped.penalty()
    assert penalty.item() == pytest.approx(sum(abs(1 - float(v)) ** 0.5 for v in values))
    (grown,) = torch.autograd.grad(penalty, sloped.slopes)
    formula = [-0.5 * (1 if v < 1 else -1) / abs(1 - float(v)) ** 0.5 for v in values[:5]]
    assert grown == pytest.approx(torch.tensor([*formula, 0.0]))


def test_slopes_near_1_and_those_that_passed_it_are_frozen_for_good() -> None:
    sloped = LinearisedNetwork(stack(4, 6), drawn(2, 4))
    before = torch.tensor([0.9, 0.9, 0.9, 1.2, 0.2, 1.2])
    after = torch.tensor([0.985, 0.995, 1.5, 0.7, -1.0, 1.02])
    with torch.no_grad():
        sloped.slopes.copy_(after)
    sloped.freeze(before)
    assert sloped.linear.tolist() == [False, True, True, True, False, False]
    assert sloped.slopes.tolist() == pytest.approx([0.985, 1.0, 1.0, 1.0, -1.0, 1.02])
    with torch.no_grad():
        sloped.slopes.fill_(0.5)
    sloped.freeze(torch.full((6,), 0.5))
    assert sloped.slopes.tolist() == [0.5, 1.0, 1.0, 1.0, 0.5, 0.5]


def test_the_path_length_is_the_sum_of_the_active_shares() -> None:
    sloped = LinearisedNetwork(stack(4, 6, 5), drawn(2, 4))
    sloped.linear[torch.tensor([0, 3, 5, 7])] = True
    lengths = sloped.path_lengths()
    assert lengths["path_length"].value == pytest.approx(3 / 6 + 4 / 5)
    assert lengths["path_length_normalised"].value == pytest.approx(3 / 6 + 4 / 5)
    assert {name: int(each.sum()) for name, each in sloped.active().items()} == {"1#1": 3, "3#1": 4}


@pytest.mark.parametrize("function", CALLS)
def test_linear_channels_do_not_count_whichever_axis_holds_them(
    function: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    sloped = LinearisedNetwork(Computed(function), drawn(5, 3, 8, 8))
    sloped.linear[:2] = True
    for score in sloped.path_lengths().values():
        assert score.value == pytest.approx(4 / 6)


def test_what_cannot_be_linearised_is_refused_by_name() -> None:
    images = drawn(4, 3, 8, 8)
    with pytest.raises(CaptureError, match="no ReLU"):
        relu_calls(Computed(functional.gelu), images)

    class Clamped(nn.ReLU):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clamp(min=0)

    with pytest.raises(CaptureError, match="function#1 is a ReLU that no call"):
        relu_calls(Computed(Clamped()), images)
    mixed = Computed(lambda x: torch.relu(x.flatten(0, 1)).unflatten(0, (-1, 6)))
    with pytest.raises(CaptureError, match=r"folded|unknown"):
        relu_calls(mixed, images)


def test_passes_that_make_other_calls_than_the_first_are_refused() -> None:
    class Fickle(nn.Module):
        times = 1

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.times):
                x = torch.relu(x)
            return x

    net = Fickle()
    sloped = LinearisedNetwork(net, drawn(2, 4))
    for net.times in (0, 2):
        with pytest.raises(CaptureError, match="ReLU calls"):
            sloped(drawn(2, 4))
    net.times = 1
    with pytest.raises(CaptureError, match="met"):
        sloped(drawn(2, 5))
