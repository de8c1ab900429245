"""Path lengths: closed forms, the paper's figure, enumerated graphs, and published networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional

from survey import measure_network
from survey.network_measures.base import NetworkScore
from survey.network_measures.path_length import path_length
from tests.survey.network_measures.enumerated import RandomGraph

#: Normalised and plain path length with every activation active, at the size in pixels.
PUBLISHED = {
    "alexnet": (7, 7), "vgg11": (10, 10), "vgg13": (12, 12), "vgg16": (15, 15), "vgg19": (18, 18),
    "resnet18": (13, 16.986), "resnet34": (25, 32.985), "resnet50": (33, 48.999),
    "resnet101": (67, 99.999), "resnet152": (101, 150.999), "vit_b_16": (6, 12),
    "vit_l_16": (12, 24), "vit_l_32": (12, 24), "swin_t": (6, 12), "swin_s": (12, 24),
    "swin_b": (12, 24), "densenet121": (14.067, 120.97), "densenet161": (14.792, 160.98),
    "densenet169": (15.0325, 168.96), "densenet201": (15.323, 200.95),
    "googlenet": (17.156, 20.935), "inception_v3": (27.003, 46.977), "mnasnet0_5": (25, 34.992),
    "mnasnet1_0": (25, 34.997), "efficientnet_b1": (45.5, 91.94), "efficientnet_b4": (59, 127.97),
    "convnext_tiny": (9, 18), "convnext_small": (18, 36),
}  # fmt: skip
QUICK = ("alexnet", "vgg11", "resnet18", "googlenet", "mnasnet0_5", "swin_t", "vit_b_16")


#: What a network computes with its layers.
Compute = Callable[[Any, torch.Tensor], Any]


class Computed(nn.Module):
    """A network that is one function, with layers it may use."""

    def __init__(self, compute: Compute, **layers: nn.Module) -> None:
        super().__init__()
        self.compute = compute
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, images: torch.Tensor) -> object:
        return self.compute(self, images)


def both(
    net: nn.Module, images: torch.Tensor, active: Mapping[str, torch.Tensor] | None = None
) -> tuple[float, float]:
    scores = path_length(net.eval(), images, active)
    plain, normalised = scores["path_length"], scores["path_length_normalised"]
    assert plain.value is not None, plain.reason
    assert normalised.value is not None
    return plain.value, normalised.value


def unknown(net: nn.Module, images: torch.Tensor) -> str:
    scores = path_length(net.eval(), images)
    assert all(score.value is None for score in scores.values())
    reasons = {str(score.reason) for score in scores.values()}
    assert len(reasons) == 1
    return reasons.pop()


def vectors(width: int = 4) -> torch.Tensor:
    return torch.randn(2, width)


def maps(width: int = 4) -> torch.Tensor:
    return torch.randn(2, width, 6, 6)


def perceptron(layers: int, width: int = 4) -> nn.Sequential:
    pairs = [(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)]
    return nn.Sequential(*(layer for pair in pairs for layer in pair))


@pytest.mark.parametrize("layers", [0, 1, 5])
def test_a_perceptron_has_its_number_of_layers(layers: int) -> None:
    net = nn.Sequential(*perceptron(layers), nn.Linear(4, 3))
    assert both(net, vectors()) == pytest.approx((layers, layers))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_a_network_of_another_type_has_the_same(dtype: torch.dtype) -> None:
    net = nn.Sequential(*perceptron(2), nn.Linear(4, 3)).to(dtype)
    scores = measure_network(net, (4,), ["path_length"])
    assert {score.value for score in scores.values()} == {2}


@pytest.mark.parametrize("layer", [nn.Dropout(), nn.AlphaDropout(), nn.FeatureAlphaDropout()])
def test_a_dropout_is_no_end_of_a_sum(layer: nn.Module) -> None:
    def sums(net: Any, x: torch.Tensor) -> Any:
        return x + net.drop(x + net.inner(x))

    alone, dropped = (
        both(Computed(sums, inner=perceptron(2), drop=each), vectors())
        for each in (nn.Identity(), layer)
    )
    assert dropped == alone


def test_a_network_that_returns_its_input_has_none() -> None:
    assert both(nn.Identity(), vectors()) == (0, 0)


def test_fractions_of_active_channels_add_up() -> None:
    fractions = (0.25, 0.5, 1.0)
    active = {
        f"{2 * place + 1}#1": (torch.arange(4) < 4 * fraction).double()[None]
        for place, fraction in enumerate(fractions)
    }
    net = nn.Sequential(*perceptron(3), nn.Linear(4, 3))
    assert both(net, vectors(), active) == pytest.approx((1.75, 1.75))
    linear = {site: torch.zeros(1, 4) for site in active}
    assert both(net, vectors(), linear) == (0, 0)


@pytest.mark.parametrize("channels_last", [False, True])
def test_a_channel_that_counts_as_linear_counts_nowhere(channels_last: bool) -> None:
    def last(net: Any, x: torch.Tensor) -> Any:
        return net.relu(x.permute(0, 2, 3, 1))[..., 1:3].flatten(1)

    def first(net: Any, x: torch.Tensor) -> Any:
        return net.relu(x)[:, 1:3].flatten(1)

    net = Computed(last if channels_last else first, relu=nn.ReLU())
    active = {"relu#1": torch.tensor([[1.0, 1.0, 0.0, 0.0]])}
    assert both(net, maps(), active) == pytest.approx((0.5, 0.5))


def test_the_paper_s_figure() -> None:
    net = Computed(lambda net, x: x + net.inner(x), inner=perceptron(4))
    scores = path_length(net.eval(), vectors())
    assert scores["path_length"].value == pytest.approx(1024 / 257)
    assert scores["path_length_normalised"].value == 2.0
    for score in scores.values():
        paths = score.details["log10_paths"]
        assert isinstance(paths, float)
        assert 10**paths == pytest.approx(257)


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs_agree_with_their_enumerated_paths(seed: int) -> None:
    net = RandomGraph(seed)
    plain, normalised, paths = net.enumerated()
    scores = path_length(net.eval(), maps())
    assert scores["path_length"].value == pytest.approx(plain, abs=1e-12)
    assert scores["path_length_normalised"].value == pytest.approx(normalised, abs=1e-12)
    outputs = len(net(maps())[0])
    assert scores["path_length"].details["log10_paths"] == pytest.approx(
        math.log10(paths / outputs)
    )


def _silu_by_hand(net: Any, x: torch.Tensor) -> Any:
    return x * torch.sigmoid(x)


def _gelu_by_hand(net: Any, x: torch.Tensor) -> Any:
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _clamped(net: Any, x: torch.Tensor) -> Any:
    return torch.clamp(x, min=0) / 6


def _in_place(net: Any, x: torch.Tensor) -> Any:
    return functional.relu_(x.clone())


@pytest.mark.parametrize("activation", [_silu_by_hand, _gelu_by_hand, _clamped, _in_place])
def test_what_the_capture_calls_a_site_is_one_activation(
    activation: Compute,
) -> None:
    net = nn.Sequential(nn.Linear(4, 4), Computed(activation), nn.Linear(4, 2))
    assert both(net, vectors()) == (1, 1)


def _block_in_place(net: Any, x: torch.Tensor) -> Any:
    y = net.relu(net.first(x))
    y = net.second(y)
    y += x
    return net.relu(y)


def test_a_module_that_is_called_twice_counts_twice() -> None:
    layers = {"first": nn.Conv2d(4, 4, 1), "second": nn.Conv2d(4, 4, 1)}
    net = Computed(_block_in_place, relu=nn.ReLU(inplace=True), **layers)
    plain, normalised = both(net, maps())
    assert normalised == 1.5
    assert plain == pytest.approx(1 + 16 / 17)


def test_weights_that_are_shared_are_walked_through_each_time() -> None:
    layer = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    assert both(nn.Sequential(layer, layer, layer), vectors()) == (3, 3)


def test_a_sum_of_several_branches_is_one_choice_among_them() -> None:
    def at_once(net: Any, x: torch.Tensor) -> Any:
        return x + net.one(x) + net.two(x)

    def one_by_one(net: Any, x: torch.Tensor) -> Any:
        y = x + net.one(x)
        # Its sum is read here: a walk that comes to it decides anew.
        return y + net.two(y)

    layers = {"one": perceptron(1), "two": perceptron(2)}
    assert both(Computed(at_once, **layers), vectors()) == pytest.approx((36 / 21, 1.0))
    assert both(Computed(one_by_one, **layers), vectors())[1] == pytest.approx(0.5 + 0.5 * 2)


@pytest.mark.parametrize(
    "activation", [lambda net, y: functional.relu(y), lambda net, y: net.relu(y)]
)
def test_a_sum_that_an_activation_reads_is_one_way_on(activation: Compute) -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        y = x + net.one(x)
        return y + net.two(activation(net, y))

    net = Computed(forward, one=perceptron(1), two=perceptron(1), relu=nn.ReLU())
    assert both(net, vectors())[1] == pytest.approx((0.5 + (0.5 + 2)) / 2)


def test_weights_that_join_stacked_values_add_the_paths_of_each() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        return torch.einsum("kbc,k->bc", torch.stack([x, net.two(x)]), torch.ones(2))

    assert both(Computed(forward, two=perceptron(2)), vectors()) == pytest.approx((32 / 17, 1))


def _less_its_mean(net: Any, x: torch.Tensor) -> Any:
    y = net.two(x)
    return x + (y - y.mean(-1, keepdim=True))


def _plus_a_number(net: Any, x: torch.Tensor) -> Any:
    return x + net.linear(x) + 1.0 + net.two(x)


@pytest.mark.parametrize(("forward", "walk"), [(_less_its_mean, 1.0), (_plus_a_number, 2 / 3)])
def test_what_only_shifts_a_sum_is_no_term_of_it(forward: Compute, walk: float) -> None:
    net = Computed(forward, two=perceptron(2), linear=nn.Linear(4, 4))
    assert both(net, vectors())[1] == pytest.approx(walk)


@pytest.mark.parametrize(
    "between",
    [
        lambda net, y: 0.5 * y,
        lambda net, y: y / 2,
        lambda net, y: y * net.scale,
        lambda net, y: y.mul_(2.0),
        lambda net, y: functional.dropout(y, 0.1, net.training),
        lambda net, y: y.reshape(2, 2, 2).flatten(1),
        lambda net, y: y.transpose(0, 1).contiguous().mT,
        lambda net, y: -(y - 1.0) + 3,
        lambda net, y: y[:, [3, 2, 1, 0]],
        lambda net, y: torch.cat([y], 1) if net.training else y.clone(),
        lambda net, y: y / torch.sqrt(torch.tensor(64.0)),
        lambda net, y: y * torch.tensor(0.5).to(y.device),
    ],
)
def test_a_sum_that_is_scaled_or_moved_before_the_next_one_is_one_with_it(between: Compute) -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        return between(net, x + net.linear(x)) + net.two(x)

    net = Computed(forward, two=perceptron(2), linear=nn.Linear(4, 4))
    net.scale = nn.Parameter(torch.ones(4))
    # Of 1 + 4 + 16 paths the last have two activations.
    assert both(net, vectors()) == pytest.approx((32 / 21, 2 / 3))


@pytest.mark.parametrize(
    "between",
    [
        lambda y: 0.5 * y,
        lambda y: y.reshape(2, 2, 2).flatten(1),
        lambda y: functional.dropout(2.0 * y, 0.1, training=False),
    ],
)
def test_a_sum_that_a_branch_reads_too_is_one_way_on(
    between: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        y = x + net.one(x)
        shortcut = between(y)
        return shortcut + net.two(y)

    net = Computed(forward, one=perceptron(1), two=perceptron(2))
    assert both(net, vectors())[1] == pytest.approx((0.5 + 2.5) / 2)


def test_parts_of_a_sum_have_its_terms_each() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        first, second = (x + net.linear(x)).chunk(2, 1)
        return torch.cat([first, second], 1) if net.training else first + net.two(x) + second

    net = Computed(forward, linear=nn.Linear(4, 4))
    net.two = nn.Sequential(perceptron(2), nn.Linear(4, 2))
    assert both(net, vectors())[1] == pytest.approx(2 / 5)


def test_a_layer_between_two_sums_keeps_them_apart() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        return net.norm(x + net.linear(x)) + net.two(x)

    layers = {"two": perceptron(2), "linear": nn.Linear(4, 4), "norm": nn.LayerNorm(4)}
    assert both(Computed(forward, **layers), vectors())[1] == 1.0


@pytest.mark.parametrize(
    "joined",
    [
        lambda x, y: torch.stack([x, y]).sum(0),
        lambda x, y: torch.stack([x, y], 1).mean(1),
        lambda x, y: (torch.stack([x, y], -1) * torch.arange(1.0, 3.0)).sum(-1),
        lambda x, y: torch.stack([0.5 * x, y]).sum((0,), keepdim=True)[0],
    ],
)
def test_values_that_are_stacked_and_summed_are_the_terms_of_a_sum(
    joined: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        return joined(x, net.linear(x)) + net.two(x)

    net = Computed(forward, two=perceptron(2), linear=nn.Linear(4, 4))
    assert both(net, vectors()) == pytest.approx((32 / 21, 2 / 3))


@pytest.mark.parametrize(
    "reduced",
    [
        lambda x: x.mean((2, 3)),
        lambda x: x.sum((2, 3)),
        lambda x: x.sum(3).sum(2, keepdim=True).squeeze(2),
        lambda x: torch.einsum("bchw->bc", x),
        lambda x: torch.einsum("bchw,hw->bc", x, torch.ones(6, 6)),
        lambda x: x.flatten(2).mT.sum(1),
        lambda x: torch.ones(36) @ x.flatten(2).mT,
        lambda x: functional.adaptive_avg_pool2d(x, 1).flatten(1),
    ],
)
def test_positions_are_no_branches(reduced: Callable[[torch.Tensor], torch.Tensor]) -> None:
    net = Computed(lambda net, x: reduced(x) + net.one(x.mean((2, 3))), one=perceptron(1))
    # A channel has one path without an activation, whatever its positions, and four with one.
    assert both(net, maps()) == pytest.approx((4 / 5, 1 / 2))


@pytest.mark.parametrize(
    "reduced",
    [
        lambda x: x.sum((1, 2, 3)),
        lambda x: x.flatten(1).sum(1),
        lambda x: torch.einsum("bchw,c->b", x, torch.ones(4)),
        lambda x: x.mean((2, 3)) @ torch.ones(4),
    ],
)
def test_channels_are_branches(reduced: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        return reduced(x)[:, None] + net.two(x.mean((2, 3)))

    two = nn.Sequential(*perceptron(2), nn.Linear(4, 1))
    # Four paths without an activation, and 64 with two.
    assert both(Computed(forward, two=two), maps())[0] == pytest.approx(128 / 68)


def test_branches_that_lead_nowhere_do_not_count() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        net.dead(x)
        return net.head(torch.cat([net.alive(x), torch.zeros(2, 4)], 1))

    net = Computed(forward, dead=perceptron(9), alive=perceptron(2), head=nn.Linear(8, 3))
    assert both(net, vectors()) == pytest.approx((2, 2))


def test_padded_channels_and_written_ones_have_no_paths() -> None:
    def padded(net: Any, x: torch.Tensor) -> Any:
        return net.relu(x) + functional.pad(x[:, :2], (0, 0, 0, 0, 1, 1))

    def written(net: Any, x: torch.Tensor) -> Any:
        shortcut = torch.zeros_like(x)
        shortcut[:, 1:3] = x[:, :2]
        return net.relu(x) + shortcut

    for forward in (padded, written):
        # Two channels of four have a choice between 1 and 0.
        assert both(Computed(forward, relu=nn.ReLU()), maps()) == pytest.approx((4 / 6, 0.75))


def test_values_that_are_shifted_along_an_axis_leave_a_place_without_paths() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        return net.conv(x) + net.relu(functional.pad(net.conv(x), (1, -1)))

    net = Computed(forward, conv=nn.Conv2d(4, 4, 1), relu=nn.ReLU())
    # Of the 6 places of a row all but the first have a choice between 0 and 1.
    assert both(net, maps()) == pytest.approx((5 / 11, 5 / 12))


def _selected(net: Any, x: torch.Tensor) -> Any:
    return net.relu(net.conv(x).index_select(1, net.order))


def _repeated(net: Any, x: torch.Tensor) -> Any:
    return net.relu(net.conv(x).repeat_interleave(2))


@pytest.mark.parametrize("forward", [_selected, _repeated])
def test_channels_that_are_alike_stay_alike_in_another_order(forward: Compute) -> None:
    net = Computed(forward, conv=nn.Conv2d(4, 4, 1), relu=nn.ReLU())
    net.register_buffer("order", torch.tensor([3, 1, 0, 2]))
    assert both(net, maps()) == pytest.approx((1, 1))


def test_a_gate_and_its_value_are_the_terms_of_a_sum() -> None:
    def excite(net: Any, x: torch.Tensor) -> Any:
        squeezed = functional.adaptive_avg_pool2d(net.relu(x), 1)
        return net.relu(x) * net.gate(squeezed)

    gate = nn.Sequential(nn.Conv2d(4, 2, 1), nn.SiLU(), nn.Conv2d(2, 4, 1), nn.Sigmoid())
    net = Computed(excite, relu=nn.ReLU(), gate=gate)
    plain, normalised = both(net, maps())
    assert normalised == 2.0
    assert plain == pytest.approx((1 + 8 * 3) / 9)
    halves = nn.Sequential(nn.Linear(4, 8), nn.GLU())
    assert both(halves, vectors()) == (0.5, 0.5)
    for each, images in ((net, maps()), (halves, vectors())):
        assert "gate" in str(path_length(each, images)["path_length"].details["conventions"])


def _attention(kind: str) -> Compute:
    def forward(net: Any, x: torch.Tensor) -> Any:
        tokens = torch.cat([net.token.expand(2, 1, 4), net.embed(x)], 1)
        if kind == "layer":
            return net.layer(tokens, tokens, tokens)[0][:, 0]
        q, k, v = net.project(tokens).reshape(2, 6, 3, 4).unbind(2)
        if kind == "kernel":
            mixed = functional.scaled_dot_product_attention(q, k, v)
        elif kind == "einsum":
            weights = torch.einsum("bqd,bkd->bqk", q, k).softmax(-1)
            mixed = torch.einsum("bqk, bkd -> bqd", weights, v)
        else:
            weights = functional.softmax(0.5 * q @ k.transpose(-2, -1) + torch.ones(6, 6), -1)
            mixed = functional.dropout(weights, 0.1, net.training) @ v
        return net.out(mixed)[:, 0]

    return forward


@pytest.mark.parametrize("kind", ["layer", "kernel", "einsum", "products"])
def test_attention_follows_the_values_and_leaves_out_what_has_no_paths(kind: str) -> None:
    layers = {
        "embed": perceptron(3), "project": nn.Linear(4, 12), "out": nn.Linear(4, 4),
        "layer": nn.MultiheadAttention(4, 2, batch_first=True),
    }  # fmt: skip
    net = Computed(_attention(kind), **layers)
    net.token = nn.Parameter(torch.zeros(1, 1, 4))
    score = path_length(net.eval(), torch.randn(2, 5, 4))["path_length_normalised"]
    assert score.value == pytest.approx(3), score.reason
    assert "attention" in str(score.details["conventions"])


def test_weights_of_a_softmax_that_values_are_multiplied_with_are_attention() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        both_ways = torch.stack([x, net.two(x)])
        return (torch.softmax(both_ways, 0) * both_ways).sum(0)

    score = path_length(Computed(forward, two=perceptron(2)), vectors())["path_length_normalised"]
    assert score.value == 1.0
    assert list(score.details["conventions"]) == ["attention"]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("named", "placed"),
    [
        (lambda x, w: torch.matmul(input=x, other=w), torch.matmul),
        (lambda x, w: torch.matmul(other=x.mT, input=w), lambda x, w: torch.matmul(w, x.mT)),
        (lambda x, w: x.matmul(other=w), lambda x, w: x.matmul(w)),
        (lambda x, w: torch.mm(input=w, mat2=x.mT), lambda x, w: torch.mm(w, x.mT)),
        (lambda x, w: torch.mv(input=x, vec=w[0]), lambda x, w: torch.mv(x, w[0])),
        (
            lambda x, w: torch.addmm(mat2=w, input=w[0], mat1=x),
            lambda x, w: torch.addmm(w[0], x, w),
        ),
        (lambda x, w: torch.addmm(w[0], x, mat2=w), lambda x, w: torch.addmm(w[0], x, w)),
        (
            lambda x, w: torch.bmm(input=x[None], mat2=w[None])[0],
            lambda x, w: torch.bmm(x[None], w[None])[0],
        ),
        (
            lambda x, w: torch.baddbmm(w[None, :2], batch1=x[None], batch2=w[None])[0],
            lambda x, w: torch.baddbmm(w[None, :2], x[None], w[None])[0],
        ),
    ],
)
def test_factors_may_be_given_by_name(named: Compute, placed: Compute) -> None:
    def forward(product: Compute) -> Compute:
        return lambda net, x: product(x + net.inner(x), net.weights)

    lengths = []
    for product in (named, placed):
        net = Computed(forward(product), inner=perceptron(2))
        net.weights = nn.Parameter(torch.ones(4, 4))
        lengths.append(both(net, vectors()))
    assert lengths[0] == lengths[1]


def test_normalisations_are_no_branches() -> None:
    def by_hand(net: Any, x: torch.Tensor) -> Any:
        y = net.inner(x)
        y = y - y.mean(-1, keepdim=True)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x + y

    by_layer = Computed(lambda net, x: x + net.norm(net.inner(x)), inner=perceptron(2))
    by_layer.norm = nn.LayerNorm(4)
    one = both(Computed(by_hand, inner=perceptron(2)), vectors())
    assert one == pytest.approx(both(by_layer, vectors()))
    assert one == pytest.approx((32 / 17, 1.0))


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda net, x: torch.fft.rfft(x).abs(), "fft_rfft"),
        (lambda net, x: torch.view_as_real(torch.fft.rfft(x)), "fft_rfft"),
        (lambda net, x: torch.relu(x).data, "call of data"),
        (lambda net, x: x @ (x.mT @ x), "neither is a softmax's weights"),
        (lambda net, x: torch.exp(net.inner(x)), "exp by itself"),
        (lambda net, x: net.rnn(x)[0], "gru"),
        (lambda net, x: functional.linear(x, x.mT @ torch.ones(2, 4)), "made from the input"),
        (lambda net, x: torch.from_numpy(x.numpy()) + 1, "not seen"),
        (lambda net, x: torch.ones(2, 3), "does not depend"),
        (lambda net, x: torch.relu(x)[x > 0], "takes depends on values"),
    ],
)
def test_what_cannot_be_followed_has_a_reason(forward: Compute, reason: str) -> None:
    net = Computed(forward, inner=perceptron(1), rnn=nn.GRU(4, 4))
    assert reason in unknown(net, vectors())


def test_a_value_that_was_changed_through_a_view_is_not_guessed() -> None:
    def forward(net: Any, x: torch.Tensor) -> Any:
        y = net.inner(x)
        torch.relu_(y[:, :2])
        return y

    assert "through a view" in unknown(Computed(forward, inner=perceptron(1)), vectors())


def test_the_network_and_its_input_stay_as_they_are() -> None:
    net, images = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4)), vectors()
    given, before = images.clone(), {name: set(vars(m)) for name, m in net.named_modules()}
    path_length(net.eval(), given)
    assert {name: set(vars(m)) for name, m in net.named_modules()} == before
    assert vars(given) == {}


def _published(name: str) -> dict[str, NetworkScore]:
    arguments = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    size = 299 if name == "inception_v3" else 224
    with torch.device("meta"):
        net = getattr(torchvision.models, name)(**arguments).eval()
    return path_length(net, torch.empty(2, 3, size, size, device="meta"))


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in PUBLISHED],
)
def test_published_networks(name: str) -> None:
    scores, (normalised, plain) = _published(name), PUBLISHED[name]
    assert scores["path_length_normalised"].value == pytest.approx(normalised, abs=5e-4)
    assert scores["path_length"].value == pytest.approx(plain, abs=6e-3)
