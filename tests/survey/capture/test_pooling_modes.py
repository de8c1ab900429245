"""What each way of pooling means, shown by the relations between them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from survey import CaptureError, MeasureSettings, SettingsError, measure
from survey.capture import pooled_pair
from survey.capture.axes import Layout
from survey.capture.forward import Capture
from survey.capture.pooled_pair import PooledPair
from survey.capture.pooling import FLATTEN_CAP, pool, spread
from survey.metrics.affinity import affinity_score
from survey.settings import Pooling
from tests.survey.nets import NETS, build

MODES: tuple[Pooling, ...] = ("mean", "pre", "sum", "flatten", "public_code")

#: Shapes for 2 images, with their layouts: maps, tokens, rows and columns before channels,
#: volumes, sequence first, channels over two axes, folded batches, vectors.
LAYOUTS = {
    (2, 3, 4, 5): Layout(0, (1,)),
    (2, 7, 3): Layout(0, (2,)),
    (2, 4, 5, 3): Layout(0, (3,)),
    (2, 3, 2, 4, 5): Layout(0, (1,)),
    (7, 2, 3): Layout(1, (2,)),
    (2, 4, 5, 6): Layout(0, (1, 3)),
    (8, 5, 3): Layout(0, (2,)),
    (5, 6, 3): Layout(1, (2,)),
    (2, 6): Layout(0, (1,)),
}


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def channels(shape: tuple[int, ...], layout: Layout) -> int:
    return int(torch.tensor([shape[axis] for axis in layout.channels]).prod())


@pytest.mark.parametrize("shape", LAYOUTS)
@given(seed=st.integers(0, 9))
def test_a_mean_is_the_sum_over_the_positions(shape: tuple[int, ...], seed: int) -> None:
    tensor, layout = random(*shape, seed=seed), LAYOUTS[shape]
    mean = pool(tensor, layout, 2, "mean")
    positions = tensor.numel() // mean.numel()
    assert mean.shape == (2, channels(shape, layout))
    torch.testing.assert_close(pool(tensor, layout, 2, "sum") / positions, mean, rtol=1e-15, atol=0)
    assert torch.equal(pool(tensor, layout, 2, "pre"), mean)


def test_the_sum_is_a_sum() -> None:
    tensor = random(4, 3, 6, 5)
    expected = tensor.double().reshape(2, 2, 3, 30).sum((1, 3))
    torch.testing.assert_close(pool(tensor, Layout(0, (1,)), 2, "sum"), expected, rtol=0, atol=1e-5)


def test_flattening_keeps_every_value_of_an_image(subtests: pytest.Subtests) -> None:
    for shape, layout in LAYOUTS.items():
        with subtests.test(shape=shape):
            rows = layout.images or 0
            # Each value says which image it belongs to and which value of it it is.
            numbers = torch.arange(2.0 * torch.tensor(shape).prod() / 2)
            tensor = numbers.reshape(shape[rows], -1).reshape(
                shape[rows], *(size for axis, size in enumerate(shape) if axis != rows)
            )
            matrix = pool(tensor.movedim(0, rows), layout, 2, "flatten")
            assert matrix.shape == (2, tensor.numel() // 2)
            assert torch.equal(matrix.flatten(), numbers.double())


def test_a_single_position_flattened_is_its_own_mean() -> None:
    for shape, layout in (
        ((2, 6, 1, 1), Layout(0, (1,))),
        ((2, 1, 6), Layout(0, (2,))),
        ((2, 2, 1, 3), Layout(0, (1, 3))),
        ((1, 2, 6), Layout(1, (2,))),
        ((2, 6), Layout(0, (1,))),
    ):
        tensor = random(*shape)
        flat = pool(tensor, layout, 2, "flatten")
        assert torch.equal(flat, pool(tensor, layout, 2, "mean"))
        assert torch.equal(flat, pool(tensor, layout, 2, "sum"))


def test_the_published_axes(subtests: pytest.Subtests) -> None:
    for shape, layout, axes in [
        ((2, 3, 4, 5), Layout(0, (1,)), (2, 3)),
        # Channels averaged, tokens or rows kept: what the script does, whatever it means.
        ((2, 7, 3), Layout(0, (2,)), (2,)),
        ((2, 4, 5, 3), Layout(0, (3,)), (2, 3)),
        # Nor does it need to know where the channels are.
        ((2, 7, 3), Layout(0, ()), (2,)),
    ]:
        with subtests.test(shape=shape, layout=layout, axes=axes):
            tensor = random(*shape)
            expected = tensor.double().mean(axes)
            torch.testing.assert_close(
                pool(tensor, layout, 2, "public_code"), expected, rtol=0, atol=1e-6
            )


def test_the_published_axes_of_vectors_and_maps_are_ours() -> None:
    for shape in ((2, 6), (2, 6, 4, 5)):
        tensor = random(*shape)
        published = pool(tensor, Layout(0, (1,)), 2, "public_code")
        assert torch.equal(published, pool(tensor, Layout(0, (1,)), 2, "mean"))


def test_what_the_published_script_has_no_meaning_for(subtests: pytest.Subtests) -> None:
    for shape, layout in [
        ((2, 3, 2, 4, 5), Layout(0, (1,))),
        ((2,), Layout(0, (0,))),
        ((8, 5, 3), Layout(0, (2,))),
        ((7, 2, 3), Layout(1, (2,))),
        ((2, 7, 3), Layout(None, (2,))),
    ]:
        with (
            subtests.test(shape=shape, layout=layout),
            pytest.raises(CaptureError, match="the published script"),
        ):
            pool(random(*shape), layout, 2, "public_code")


def test_complex_values_are_refused(subtests: pytest.Subtests) -> None:
    for pooling in MODES:
        with subtests.test(pooling=pooling), pytest.raises(CaptureError, match="complex"):
            pool(torch.zeros(2, 3, dtype=torch.complex64), Layout(0, (1,)), 2, pooling)


def test_lost_images_are_told_whatever_the_pooling(subtests: pytest.Subtests) -> None:
    for pooling in ["mean", "pre", "sum", "flatten"]:
        with (
            subtests.test(pooling=pooling),
            pytest.raises(CaptureError, match="holds the 2 images"),
        ):
            pool(torch.zeros(2, 3), Layout(None, (1,)), 2, pooling)


def test_what_is_spread_pools_to_itself(subtests: pytest.Subtests) -> None:
    for shape, layout in LAYOUTS.items():
        with subtests.test(shape=shape):
            matrix = pool(random(*shape), layout, 2)
            whole = spread(matrix, layout, shape)
            kept = (layout.images, *layout.channels)
            assert whole.ndim == len(shape)
            assert all(
                size == (2 if axis == layout.images else shape[axis] if axis in kept else 1)
                for axis, size in enumerate(whole.shape)
            )
            assert torch.equal(pool(whole, layout, 2), matrix)


def test_a_channel_is_spread_to_where_it_came_from() -> None:
    tensor = random(3, 4, 5, 2)
    for layout in (Layout(0, (1, 3)), Layout(2, (0, 3)), Layout(1, (2,)), Layout(3, (0, 1))):
        images = tensor.shape[layout.images or 0]
        rest = [a for a in range(4) if a != layout.images and a not in layout.channels]
        whole = spread(pool(tensor.double(), layout, images), layout, tuple(tensor.shape))
        torch.testing.assert_close(whole, tensor.double().mean(rest, keepdim=True))


def test_nothing_is_spread_to_lost_images() -> None:
    with pytest.raises(CaptureError, match="holds the images"):
        spread(torch.zeros(2, 3), Layout(None, (1,)), (2, 3))


def test_above_the_cap_flattening_is_an_error_that_names_setting_site_and_size() -> None:
    net = nn.Sequential(nn.Conv2d(1, 65, 1), nn.ReLU())
    images = random(4, 1, 32, 32)
    settings = MeasureSettings(images_per_score=4, micro_batch=2, pooling="flatten")
    with pytest.raises(SettingsError, match=r"1#1: pooling is 'flatten'.*66560.*65536") as caught:
        list(measure(net, [images], settings))
    assert "mean" in str(caught.value.hint)
    assert not net[1]._forward_hooks
    assert pool(torch.zeros(2, 64, 32, 32), Layout(0, (1,)), 2, "flatten").shape == (2, FLATTEN_CAP)


# The modes inside a network.


def pairs(net: nn.Module, images: torch.Tensor, pooling: Pooling) -> list[PooledPair]:
    with torch.inference_mode():
        return Capture(net.eval(), pooling).forward(images.clone())[1]


def matrices(pair: PooledPair) -> tuple[torch.Tensor, torch.Tensor]:
    assert pair.x is not None, pair.reason
    assert pair.y is not None, pair.reason
    return pair.x, pair.y


class Calls(nn.Module):
    """Some activations after a convolution, and the mean over space of what they give."""

    def __init__(self, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.activation = activation

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.activation(self.conv(images)).mean((2, 3))


ACTIVATIONS: dict[str, Callable[[], Callable[[torch.Tensor], torch.Tensor]]] = {
    "relu": nn.ReLU,
    "prelu": lambda: nn.PReLU(6),
    "silu in place": lambda: nn.SiLU(inplace=True),
    "hardswish in place": lambda: nn.Hardswish(inplace=True),
    "leaky relu in place": lambda: nn.LeakyReLU(0.3, inplace=True),
    "functional in place": lambda: lambda x: functional.elu(x, 0.7, inplace=True),
    "method in place": lambda: lambda x: x.sigmoid_(),
    "keyword": lambda: lambda x: functional.gelu(input=x, approximate="tanh"),
    "out": lambda: lambda x: torch.tanh(x, out=torch.empty_like(x)),
    "glu": lambda: nn.GLU(dim=1),
}


def activate(activation: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    """Return what the activation makes of values; of a gated half, its gate."""
    return torch.sigmoid(x) if isinstance(activation, nn.GLU) else activation(x.clone())


def test_pre_runs_the_very_activation_on_the_average(subtests: pytest.Subtests) -> None:
    for name, activation in ACTIVATIONS.items():
        with subtests.test(name=name):
            torch.manual_seed(0)
            net = Calls(activation())
            if isinstance(net.activation, nn.PReLU):
                nn.init.uniform_(net.activation.weight)
            images = random(4, 3, 8, 8)
            (pair,) = pairs(net, images, "pre")
            x, y = matrices(pair)
            with torch.inference_mode():
                before = net.conv(images)
                half = before[:, 3:] if isinstance(net.activation, nn.GLU) else before
                average = half.mean((2, 3), keepdim=True)
                expected = activate(net.activation, average).flatten(1).double()
            assert torch.equal(x, average.flatten(1).double())
            torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-7)
            assert float((y - matrices(*pairs(net, images, "mean"))[1]).abs().max()) > 1e-4


def test_where_positions_agree_pre_is_the_mean(subtests: pytest.Subtests) -> None:
    for name, activation in ACTIVATIONS.items():
        with subtests.test(name=name):
            torch.manual_seed(0)
            net = Calls(activation())
            images = random(4, 3, 1, 1).expand(4, 3, 8, 8)
            (mean,), (pre,) = pairs(net, images, "mean"), pairs(net, images, "pre")
            for ours, theirs in zip(matrices(pre), matrices(mean), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, zero: torch.maximum(zero, x),
        lambda x, zero: torch.maximum(input=zero, other=x),
        lambda x, zero: torch.maximum(x, zero) * 0.5,
        lambda x, zero: torch.maximum(zero, x).div_(3),
        lambda x, _: functional.relu6(x + 3) * 0.25,
    ],
)
def test_pre_finds_the_input_among_the_arguments_and_scales_like_the_network(
    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> None:
    class Written(nn.Module):
        """An activation of vectors that is written by hand."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 6)
            self.register_buffer("zero", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(self.linear(x), self.zero)  # type: ignore[arg-type]

    torch.manual_seed(0)
    net = Written()
    (mean,), (pre,) = (pairs(net, random(9, 3), mode) for mode in ("mean", "pre"))  # type: ignore[arg-type]
    for ours, theirs in zip(matrices(pre), matrices(mean), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-7)


def test_pre_runs_on_folded_batches_with_one_row_an_image() -> None:
    net = build("Folded")
    images = net.images(4)
    for pair in pairs(net, images, "pre"):
        x, y = matrices(pair)
        expected = functional.silu(x) if pair.site.activation == "silu" else x.relu()
        assert x.shape == (4, 5)
        torch.testing.assert_close(y, expected, rtol=1e-6, atol=1e-6)


def test_an_activation_with_a_parameter_a_token_has_no_value_on_their_average() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.prelu = nn.Linear(6, 6), nn.PReLU(4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.prelu(self.linear(x))).mean(1)

    settings = MeasureSettings(images_per_score=8, micro_batch=4, pooling="pre")
    prelu, tanh = measure(Tokens(), [random(8, 4, 6)], settings)
    assert (prelu.status, tanh.status) == ("failed", "ok")
    assert "does not run on an average over space" in str(prelu.reason)


def test_a_failure_of_the_machine_on_an_average_over_space_is_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> torch.Tensor:
        raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(pooled_pair, "pool", fail)
    settings = MeasureSettings(images_per_score=4, micro_batch=4, pooling="pre")
    with pytest.raises(torch.AcceleratorError):
        list(measure(nn.Sequential(nn.Tanh()), [random(4, 3, 8, 8)], settings))


def test_an_activation_made_of_others_stays_one_site() -> None:
    class Outer(nn.SiLU):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sigmoid()

        def forward(self, x: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return x * self.inner(x) + functional.relu(x) * 0

    net = Calls(Outer())
    counted = [[p.site.site_name for p in pairs(net, random(4, 3, 8, 8), m)] for m in MODES]
    assert counted == [["activation#1"]] * len(MODES)


@pytest.mark.parametrize("pooling", MODES)
def test_no_pooling_moves_an_output_by_a_bit(pooling: Pooling) -> None:
    cases: list[tuple[nn.Module, torch.Tensor]] = [
        (build(name), build(name).images(4)) for name in NETS
    ]
    cases += [(Calls(make()), random(4, 3, 8, 8)) for make in ACTIVATIONS.values()]
    for net, images in cases:
        net.eval()
        with torch.inference_mode():
            unwatched = net(images.clone())
            watched, result = Capture(net, pooling).forward(images.clone())
        assert torch.equal(watched, unwatched)
        sites = [pair.site for pair in pairs(net, images, "mean")]
        assert [pair.site for pair in result] == sites


def test_the_modes_of_a_network_are_those_of_its_own_tensors(subtests: pytest.Subtests) -> None:
    for name in NETS:
        with subtests.test(name=name):
            net = build(name).double()
            images = net.images(4).double()
            with torch.inference_mode():
                expected = net.pairs(images)
            means, sums, pres = (pairs(net, images, mode) for mode in ("mean", "sum", "pre"))
            flats = pairs(net, images, "flatten")
            for (x, y), *result in zip(expected, means, sums, pres, flats, strict=True):
                mean, total, pre, flat = (matrices(pair) for pair in result)
                torch.testing.assert_close(mean[0], x.flatten(1))
                torch.testing.assert_close(mean[1], y.flatten(1))
                torch.testing.assert_close(pre[0], mean[0])
                positions = flat[0].shape[1] // x.flatten(1).shape[1]
                torch.testing.assert_close(total[1] / positions, mean[1])
                # The values that were averaged are all there, and no others.
                torch.testing.assert_close(flat[1].sum(1), total[1].sum(1))


# Figures of the study of how order and pooling change the score.


@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize(
    ("count", "mean", "pre", "lone", "tolerance"),
    [(1, 0.940, 0.598, 0.633, 0.033), (20, 0.623, 0.618, 0.626, 0.011)],
)
def test_the_order_matters_where_positions_are_independent(
    count: int, mean: float, pre: float, lone: float, tolerance: float
) -> None:
    """ReLU at n = 1000 on 49 independent positions; ``lone`` is a single one of them.

    The figures are one draw's. Draws scatter by 0.009 with one channel and 0.003 with twenty: the
    tolerance is three times the scatter of the difference between one draw and a mean of two.
    """
    layout, result = Layout(0, (1,)), []
    for seed in range(2):
        maps = random(1000, count, 7, 7, seed=seed)
        x, y = pool(maps, layout, 1000), pool(maps.relu(), layout, 1000)
        on_average = pool(spread(x, layout, tuple(maps.shape)).relu(), layout, 1000, "pre")
        corner = maps[:, :, 0, 0]
        matrices = ((x, y), (x, on_average), (corner, corner.relu()))
        result.append([affinity_score(*pair, "none") for pair in matrices])
    assert torch.tensor(result).mean(0).tolist() == pytest.approx([mean, pre, lone], abs=tolerance)
