"""An activation written by hand has the pair of its formula; what is none has a reason."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey.capture.calls import Call
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair

Function = Callable[[torch.Tensor], torch.Tensor]


class Calls(nn.Module):
    """A function as a network, behind a value that nothing else holds."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.function(images + 0.1)


IMAGES = torch.randn(3, 4, 5, 6, generator=torch.Generator().manual_seed(0))


def run(function: Function) -> tuple[list[PooledPair], list[Call]]:
    capture = Capture(Calls(function).eval())
    with torch.inference_mode():
        return capture.forward(IMAGES)[1], capture.calls(IMAGES)


#: Ways to write an activation, each with torch's own.
BY_HAND: dict[str, tuple[Function, Function]] = {
    "swish": (lambda x: x * torch.sigmoid(x), functional.silu),
    "swish in place": (lambda x: x.mul_(x.sigmoid()), functional.silu),
    "swish into memory": (
        lambda x: torch.mul(torch.sigmoid(x), x, out=torch.empty_like(x)),
        functional.silu,
    ),
    "swish of exponentials": (lambda x: x * (1 / (1 + torch.exp(-x))), functional.silu),
    "swish by a quotient": (lambda x: x / (1 + (-x).exp()), functional.silu),
    "mish": (lambda x: x * torch.tanh(functional.softplus(x)), functional.mish),
    "GELU by erf": (lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)), functional.gelu),
    "GELU by tanh": (
        lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
        lambda x: functional.gelu(x, approximate="tanh"),
    ),
    "hard swish by clamp": (lambda x: x * ((x + 3).clamp(0, 6) / 6), functional.hardswish),
    "hard swish by ReLU6": (lambda x: x * functional.relu6(x + 3) / 6, functional.hardswish),
    "hard swish by modules": (lambda x: (x * nn.ReLU6()(x + 3)).div_(6), functional.hardswish),
    "ReLU by where": (lambda x: torch.where(x > 0, x, 0.0), functional.relu),
    "leaky ReLU by where": (
        lambda x: torch.where(x > 0, x, 0.1 * x),
        lambda x: functional.leaky_relu(x, 0.1),
    ),
    "ELU by where": (lambda x: torch.where(x > 0, x, x.exp() - 1), functional.elu),
    "ReLU by maximum": (lambda x: torch.maximum(x, torch.zeros_like(x)), functional.relu),
    "leaky ReLU by maximum": (
        lambda x: torch.max(x, 0.1 * x),
        lambda x: functional.leaky_relu(x, 0.1),
    ),
    "ReLU by clamp": (lambda x: x.clamp(min=0), functional.relu),
    "ReLU by its sign": (lambda x: x * (x > 0), functional.relu),
    "ReLU by masking": (lambda x: x.masked_fill(x < 0, 0.0), functional.relu),
    "sigmoid of an exponential": (lambda x: 1 / (1 + torch.exp(-x)), torch.sigmoid),
    "sigmoid by a quotient of exponentials": (lambda x: (e := x.exp()) / (1 + e), torch.sigmoid),
    "tanh by a quotient of exponentials": (
        lambda x: ((e := x.exp()) - 1 / e) / (e + 1 / e),
        torch.tanh,
    ),
    "softsign": (lambda x: x / (1 + x.abs()), functional.softsign),
}


def test_an_activation_written_by_hand_is_one_site_with_its_formulas_pair(
    subtests: pytest.Subtests,
) -> None:
    for name, (by_hand, same) in BY_HAND.items():
        with subtests.test(name=name):
            (pair,), _ = run(by_hand)
            (expected,), _ = run(lambda x, same=same: same(x))
            assert pair.reason is None
            assert pair.x is not None
            assert pair.y is not None
            assert torch.equal(pair.x, expected.x)
            assert torch.allclose(pair.y, expected.y, rtol=0, atol=1e-6)
            assert pair.site.graph_depth == expected.site.graph_depth
            assert (pair.site.role, pair.site.layout) == ("main", "N,C,*,*")


@pytest.mark.parametrize(
    "inner",
    [torch.abs, torch.round, lambda x: torch.rsqrt(x.abs() + 1), lambda x: torch.log1p(x.abs())],
)
def test_the_latest_value_is_the_input_whatever_made_it(inner: Function) -> None:
    (pair,), _ = run(lambda x: (a := inner(x)) * torch.sigmoid(a))
    (expected,), _ = run(lambda x: functional.silu(inner(x)))
    assert pair.x is not None
    assert torch.equal(pair.x, expected.x)
    assert torch.allclose(pair.y, expected.y, rtol=0, atol=1e-6)


def test_a_number_that_another_module_scales_by_is_no_part_of_the_activation() -> None:
    class Swish(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.sigmoid(x)

    class Gained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = Swish()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.act(x) * 1.7

    with torch.inference_mode():
        (pair,) = Capture(Gained().eval()).forward(IMAGES)[1]
    assert pair.y is not None
    assert torch.allclose(pair.y, functional.silu(IMAGES).mean((2, 3)).double(), atol=1e-6)


def _swish_of_what_was_overwritten(x: torch.Tensor) -> torch.Tensor:
    x = x.flip(3)
    gate = torch.exp(x)
    x += 1
    return x * gate


def _layer_norm(x: torch.Tensor) -> torch.Tensor:
    mean = x.mean(1, keepdim=True)
    variance = ((x * x).mean(1, keepdim=True) - mean**2).clamp(0)
    return (x - mean) / (variance + 1e-6).sqrt()


#: Non-linear calls that are no activation of one value.
NONE: dict[str, Function] = {
    "a square": lambda x: x * x,
    "a cube": lambda x: x**3 - x * x * x,
    "a product of two values": lambda x: x[:, :2] * x[:, 2:].exp(),
    "a gate over space": lambda x: x * x.mean(1, keepdim=True).exp(),
    "a turned factor": lambda x: x[..., :5] * x[..., :5].mT.exp(),
    "root mean square": lambda x: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6),
    "layer norm": _layer_norm,
    "softmax": lambda x: torch.exp(x - x.amax(1, keepdim=True)) / torch.exp(x).sum(1, True),
    "a fixed mask": lambda x: torch.where(torch.ones(5, 6, dtype=torch.bool), x, -x),
    "a number type's range": lambda x: x.clamp(-65504, 65504),
    "the larger of two values": lambda x: torch.maximum(x[:, :2], x[:, 2:]),
    "the largest": lambda x: x.max(1).values,
    "an overwritten value": _swish_of_what_was_overwritten,
    "scaled by weights": lambda x: x * torch.ones(4, 1, 1) / torch.full((1,), 2.0),
}


def test_what_is_no_activation_of_one_value_has_a_reason_and_no_site(
    subtests: pytest.Subtests,
) -> None:
    for name, function in NONE.items():
        with subtests.test(name=name):
            pairs, calls = run(function)
            assert not pairs
            assert all(call.reason and call.site is None for call in calls)


def test_every_call_is_listed_and_the_sites_are_those_that_are_measured() -> None:
    def network(x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(x)
        x = x * torch.sigmoid(x)
        attention = torch.cdist(x.flatten(2), x.flatten(2)).sigmoid()
        table = torch.tanh(torch.ones(1, 4, 1, 1))
        return (x + table).abs() * attention.mean()

    pairs, calls = run(network)
    assert [(call.function, call.site) for call in calls] == [
        ("relu", ":relu#1"),
        ("sigmoid", None),
        ("mul", ":mul#1"),
        ("sigmoid", ":sigmoid#2"),
        ("tanh", None),
        ("abs", None),
        ("mul", None),
    ]
    assert [call.site for call in calls if call.site] == [pair.site.site_name for pair in pairs]
    assert ":mul#1" in (calls[1].reason or "")
    assert calls[3].reason == pairs[-1].reason is not None
    assert [call.shape for call in calls[:4]] == [(3, 4, 5, 6)] * 3 + [(3, 4, 4)]


def test_on_the_meta_device_the_calls_are_those_of_a_real_pass() -> None:
    def network(x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x).flatten(1) * torch.tanh(x.flatten(1))

    capture = Capture(Calls(network).eval())
    with torch.inference_mode():
        assert capture.calls(IMAGES.to("meta")) == capture.calls(IMAGES)


def test_a_value_is_not_kept_alive_by_what_follows_from_it() -> None:
    kept: list[weakref.ref[torch.Tensor]] = []

    def network(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        kept.append(weakref.ref(y))
        z = y.exp()
        del y
        assert kept[-1]() is None
        return z

    run(network)
