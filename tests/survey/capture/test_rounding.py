"""The noise of rounding is what float64 shows it to be, and measuring it leaves no trace."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import timm
import torch
import torchvision
from torch import nn
from torch.nn import functional

from survey import MeasureSettings, measure
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.capture.rounding import NOISE_IMAGES, Rounding
from survey.results import SiteScore
from tests.shared_data import shared
from tests.survey.nets import NETS
from tests.survey.nets import build as make_net

SETTINGS = MeasureSettings(images_per_score=32, micro_batch=16, ridge="relative")


def images(n: int = 32) -> torch.Tensor:
    return torch.randn(n, 3, 16, 16, generator=torch.Generator().manual_seed(1))


class TokenMixing(nn.Module):
    """A mixer's first half: averaged over normalised channels, its input is zero but for rounding.

    In exact arithmetic every token's channels sum to zero, before the tokens are mixed and after.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 4, 4)
        self.norm = nn.LayerNorm(64)
        self.mix = nn.Linear(16, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = self.norm(self.stem(x).flatten(2).mT).mT
        return functional.gelu(self.mix(tokens))


class Shifted(nn.Module):
    """A convolution whose input carries a large constant, which is subtracted after it."""

    def __init__(self, constant: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.constant = constant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        large = self.conv(x) + self.constant
        return (large - self.constant).relu()


class Scaled(nn.Module):
    """Convolutions without biases, whose signal shrinks by a factor at each."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        widths = [3, 12, 12, 12]
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1, bias=False) for a, b in pairwise(widths)
        )
        for conv in self.convs:
            conv.weight.data *= factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = functional.leaky_relu(conv(x))
        return x


def build(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return make().eval()


def rows(net: nn.Module, x: torch.Tensor) -> list[SiteScore]:
    return list(measure(net, [x], SETTINGS))


def passed(net: nn.Module, x: torch.Tensor) -> list[PooledPair]:
    with torch.inference_mode():
        return Capture(net).forward(x)[1]


def size(errors: torch.Tensor) -> float:
    return float(errors.square().mean().sqrt())


@pytest.mark.parametrize(
    "make",
    [TokenMixing, lambda: Shifted(0.0), lambda: Shifted(3e3), lambda: Scaled(1.0)],
    ids=["cancelling mean", "plain", "cancelling difference", "deep"],
)
def test_the_noise_is_of_the_size_that_float64_shows(
    make: Callable[[], nn.Module],
) -> None:
    net, x = build(make), images()
    with torch.inference_mode():
        pairs = Capture(net).with_noise(x[:NOISE_IMAGES], passed(net, x))
    for pair, exact in zip(pairs, passed(net.double(), x.double()), strict=True):
        assert pair.noise is not None
        for errors, ours, theirs in [
            (pair.noise.x, pair.x, exact.x),
            (pair.noise.y, pair.y, exact.y),
        ]:
            assert ours is not None
            assert theirs is not None
            shown = ours - theirs
            assert 1 / 3 < size(errors) / size(shown - shown.mean(dim=0)) < 4


#: By how much what is not flagged may differ between types; the norm relative to itself.
LIMITS = {"affinity": 1e-4, "cka": 1e-4, "r2": 1e-4, "entropy_change": 1e-3, "norm": 1e-4}


def assert_both_types_agree(net: nn.Module, x: torch.Tensor) -> list[SiteScore]:
    """Return the rows in float32, once those of float64 are seen to have equal values."""
    settings = replace(SETTINGS, images_per_score=len(x))
    single = list(measure(net, [x], settings))
    double = list(measure(copy.deepcopy(net).double(), [x.double()], settings))
    compared = 0
    for ours, theirs in zip(single, double, strict=True):
        if (ours.status, theirs.status) != ("ok", "ok") or "rounding" in ours.flags:
            continue
        for name, limit in LIMITS.items():
            a, b = getattr(ours, name), getattr(theirs, name)
            if a is not None and b is not None:
                compared += 1
                scale = b or 1.0 if name == "norm" else 1.0
                assert abs(a - b) <= limit * scale, (ours.site_name, name, a, b)
    assert compared
    return single


def test_single_and_double_precision_agree_where_nothing_is_flagged(
    subtests: pytest.Subtests,
) -> None:
    for name in NETS:
        with subtests.test(name=name):
            net = make_net(name).eval()
            assert_both_types_agree(net, net.images(24))


#: Networks with cancelling means, gates that hardly vary, signals that vanish and weak directions.
ARCHITECTURES = ["timm mixer_s32_224", "efficientnet_b0", "googlenet", "mobilenet_v3_small"]


@pytest.mark.long
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architectures_agree_in_both_types(name: str) -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    if name.startswith("timm "):
        net = timm.create_model(name.removeprefix("timm "), pretrained=False)
        x = torch.randn(16, 3, 224, 224, generator=generator)
        constant = [row for row in assert_both_types_agree(net, x) if row.status == "constant"]
        assert len(constant) == 8
        assert all("mlp_tokens" in row.site_name for row in constant)
    else:
        quiet = {"init_weights": True} if name == "googlenet" else {}
        net = torchvision.models.get_model(name, weights=None, **quiet)
        found = assert_both_types_agree(net, torch.randn(48, 3, 64, 64, generator=generator))
        if name == "googlenet":
            # Its variances fall to 1e-26, and so does what is summed.
            assert {row.status for row in found} == {"ok"}
            assert not [row for row in found if "rounding" in row.flags]


@pytest.mark.long
@pytest.mark.real_data
def test_a_trained_network_agrees_in_both_types() -> None:
    path = shared("data/checkpoints/squeezenet1_0-imagenet-deepcompression.pth")
    net = torchvision.models.squeezenet1_0()
    net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    generator = torch.Generator().manual_seed(1)
    found = assert_both_types_agree(net, torch.randn(256, 3, 64, 64, generator=generator))
    assert {(row.status, "rounding" in row.flags) for row in found} == {("ok", False)}


def test_an_input_that_is_zero_but_for_rounding_is_constant() -> None:
    (row,) = rows(build(TokenMixing), images())
    assert (row.status, row.affinity) == ("constant", None)
    assert row.input_variance is not None
    assert 0 < row.input_variance < 1e-14
    assert "input" in str(row.reason)


def test_the_same_values_count_where_nothing_larger_was_summed() -> None:
    """Small signals are measured, however small: noise shrinks with what is summed."""
    expected = rows(build(lambda: Scaled(1.0)), images())
    for factor in (1e-6, 2.0**-30):
        small = rows(build(lambda: Scaled(factor)), images())  # noqa: B023 - called at once
        for ours, theirs in zip(small, expected, strict=True):
            assert (ours.status, "rounding" in ours.flags) == ("ok", False)
            assert ours.affinity == pytest.approx(theirs.affinity, abs=1e-6)
    assert small[-1].input_variance is not None
    assert small[-1].input_variance < 1e-50


def test_the_larger_the_values_that_cancel_the_noisier() -> None:
    found = [rows(build(lambda: Shifted(c)), images())[0] for c in (0.0, 1e4, 1e9)]  # noqa: B023
    assert [row.status for row in found] == ["ok", "ok", "constant"]
    assert ["rounding" in row.flags for row in found] == [False, True, False]


def test_what_the_network_holds_and_is_given_stays_as_it_is() -> None:
    class Tricky(nn.Module):
        """Hands out views of its parameters, writes in place, and reads arrays of its own."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(3, 16, 16))
            self.register_buffer("scale", torch.rand(3, 1, 1) + 0.5)
            self.array = torch.rand(1, 3, 16, 16).numpy()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x.mul_(0.5)
            x += self.table[:, :16].view(3, 16, 16).expand_as(x)
            x = x.transpose(2, 3) * self.scale[:].expand(3, 16, 16)
            x[:, 0] = x[:, 1].clone()
            x = x + torch.from_numpy(self.array) + torch.randn(()) * 1e-3
            x = x + torch.as_tensor(self.array) + torch.asarray(self.array)
            return functional.relu(x, inplace=True)

    net = build(Tricky)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    array = net.array.copy()  # type: ignore[union-attr,operator]
    torch.manual_seed(5)
    with torch.inference_mode():
        expected = [net(part) for part in images().split(16)]
    outputs: list[torch.Tensor] = []
    net.register_forward_hook(lambda _module, _args, output: outputs.append(output.clone()))
    torch.manual_seed(5)
    rows(net, images())
    assert torch.equal(outputs[0], expected[0])
    # Two passes of few images lie between.
    assert torch.equal(outputs[3], expected[1])
    assert all(torch.equal(value, state[name]) for name, value in net.state_dict().items())
    assert (array == net.array).all()


def test_calls_inside_of_a_vectorised_function_end_no_pass() -> None:
    class Mapped(nn.Module):
        """Maps a layer and a write over the images."""

        def __init__(self) -> None:
            super().__init__()
            self.stem, self.layer = nn.Conv2d(3, 8, 3), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            def one(values: torch.Tensor) -> torch.Tensor:
                made = self.layer(values).clone()
                made[:4].mul_(2)
                return made

            return functional.gelu(torch.vmap(one)(functional.relu(self.stem(x)).mean((2, 3))))

    relu, gelu = rows(build(Mapped), images())
    assert (relu.status, gelu.status) == ("ok", "failed")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_errors_have_the_size_of_a_rounding_and_no_mean(dtype: torch.dtype) -> None:
    x = torch.randn(40_000, generator=torch.Generator().manual_seed(2)).to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    made = x.clone()
    Rounding().disturb(torch.clone, [x], made)
    relative = ((made.to(wide) - x.to(wide)) / x.to(wide)) / torch.finfo(dtype).eps
    assert 0.4 < size(relative.abs()) < 1
    assert abs(complex(relative.mean())) < 0.02
    again = x.clone()
    Rounding().disturb(torch.clone, [x], again)
    assert torch.equal(made, again)


def test_fewer_images_than_the_noise_takes_are_enough() -> None:
    net = build(lambda: Scaled(1.0))
    settings = MeasureSettings(images_per_score=3, micro_batch=1)
    flags = {row.status for row in measure(net, [images(3)], settings)}
    assert flags == {"ok"}
    assert math.isfinite(sum(row.affinity or 0.0 for row in measure(net, [images(3)], settings)))


class ByBatch(nn.Module):
    """Normalises by its batch in eval mode too."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.conv(x)).relu()


class Drawing(nn.Module):
    """Drops values and adds noise in eval mode, as Monte Carlo dropout does."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        values = functional.dropout(self.conv(x + 0.01 * torch.randn_like(x)), 0.1, training=True)
        return values.relu().mean((2, 3)).tanh()


@pytest.mark.parametrize("network", [ByBatch, Drawing])
def test_what_a_network_draws_or_takes_from_its_batch_is_no_rounding(
    network: type[nn.Module],
) -> None:
    torch.manual_seed(0)
    rows = list(measure(network(), [images(64)], SETTINGS))
    assert {row.status for row in rows} == {"ok"}
    assert not any(row.flags for row in rows)


def test_noise_of_a_network_that_draws_is_that_of_one_that_does_not() -> None:
    class Both(nn.Module):
        def __init__(self, draws: float) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.conv, self.draws = nn.Conv2d(3, 8, 3), draws

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (self.conv(x) + self.draws * torch.randn(1)).relu()

    sizes = []
    for draws in (0.0, 0.5):
        capture, given = Capture(Both(draws)), images(16)
        with torch.inference_mode():
            (pair,) = capture.with_noise(given[:NOISE_IMAGES], capture.forward(given)[1])
        assert pair.noise is not None
        sizes.append(float(pair.noise.x.square().mean().sqrt()))
    # Of the values' size, as any rounding, not of what was drawn.
    assert sizes[0] < sizes[1] < 5 * sizes[0]


def test_a_random_network_draws_as_it_would_unmeasured_whatever_the_images_a_score() -> None:
    torch.manual_seed(3)
    network, given = Drawing(), images(64)
    scores = []
    for number in (64, "auto"):
        torch.manual_seed(4)
        settings = replace(SETTINGS, images_per_score=number, micro_batch=64)
        scores.append([row.affinity for row in measure(network, [given], settings)])
    assert scores[0] == scores[1]
