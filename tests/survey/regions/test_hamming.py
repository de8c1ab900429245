"""The Hamming density: a lower bound of the exact crossings that more steps raise to them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torchvision
from torch import nn

from survey import NotPiecewiseLinear, hamming_density, linear_regions
from survey.errors import SettingsError
from tests.survey.regions.networks import Computed, RandomNet, segment, tent


def test_it_rises_to_the_exact_crossings() -> None:
    net = nn.Sequential(
        nn.Linear(6, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU6(), nn.Linear(40, 3)
    )
    torch.manual_seed(0)
    for parameter in net.parameters():
        nn.init.normal_(parameter, 0.0, 0.7)
    start, end = segment(6, 0)
    exact = linear_regions(net, start, end)
    counts = [hamming_density(net.double(), start, end, 2**k) for k in range(0, 15, 2)]
    flips = [count.flips for count in counts]
    assert flips == sorted(flips)
    assert flips[-1] == len(exact.times) > flips[0]
    assert counts[0].units == 40 + 2 * 40
    assert torch.allclose(counts[-1].deviation, exact.absolute_deviation, rtol=1e-5)


def test_a_step_sees_only_its_ends() -> None:
    one, zero = torch.ones(1), torch.zeros(1)
    # Of the first map's units both are at zero and then not; all others begin and end at zero.
    assert hamming_density(tent(6), zero, one, 1).flips == 2
    assert linear_regions(tent(6), zero, one).density == 63


def test_it_is_at_most_the_exact_count_for_random_networks() -> None:
    for seed in range(20):
        net = RandomNet(seed)
        start, end = segment(net.inputs, seed)
        exact = linear_regions(net, start, end)
        assert hamming_density(net.double(), start, end, 50).flips <= len(exact.times)


def test_few_points_a_pass_give_the_same_count(monkeypatch: pytest.MonkeyPatch) -> None:
    net, (start, end) = RandomNet(3), segment(RandomNet(3).inputs, 3)
    whole = hamming_density(net, start, end)
    monkeypatch.setattr("survey.regions.line._VALUES", 10)
    parts = hamming_density(net, start, end)
    assert (parts.flips, parts.units) == (whole.flips, whole.units)
    assert torch.allclose(parts.deviation, whole.deviation)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_half_precision_counts_every_change_of_sign(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 400), nn.ReLU()).to(dtype)
    start, end = (each.to(dtype) for each in segment(6, 0))
    times = torch.linspace(0, 1, 17, dtype=dtype)[:, None]
    with torch.inference_mode():
        signs = net[0](torch.lerp(start.flatten(), end.flatten(), times)) > 0
    flips = int((signs[1:] != signs[:-1]).sum())
    assert abs(hamming_density(net, start, end, 16).flips - flips) <= 0.01 * flips


def test_units_of_a_published_network() -> None:
    torch.manual_seed(0)
    net = torchvision.models.resnet18().eval()
    hamming = hamming_density(net, *segment((3, 32, 32), 0), 8)
    assert hamming.units == 2_308_096 // 49
    assert 1_000 < hamming.flips < 20_000


def test_what_is_refused() -> None:
    with pytest.raises(NotPiecewiseLinear):
        hamming_density(Computed(lambda _, x: torch.tanh(x)), *segment(4, 0))
    with pytest.raises(SettingsError):
        hamming_density(tent(1), torch.zeros(1), torch.ones(1), 0)


def folded(network: Computed, x: torch.Tensor) -> torch.Tensor:
    """Pass an input and its mirror image at once, one behind the other."""
    both = network.get_submodule("layer")(torch.cat([x, x.flip(-1)]))
    return both[: len(x)] + both[len(x) :]


@pytest.mark.parametrize(
    "compute",
    [
        folded,
        lambda _, x: torch.relu(x - 0.5 * x.mean(0, keepdim=True)),
        lambda _, x: torch.relu(x + 0.5 * torch.randn(x.shape)),
    ],
    ids=["folded", "mean", "random"],
)
def test_units_that_depend_on_other_inputs_of_a_pass_are_refused(
    compute: Callable[..., object],
) -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(NotPiecewiseLinear, match="depend on the other inputs"):
        hamming_density(Computed(compute, layer=layer), *segment(4, 0), 16)


def test_a_result_that_is_cast_to_a_finer_type_is_no_rounding() -> None:
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    ends = segment(4, 0)
    plain = hamming_density(layer, *ends, 16)
    cast = hamming_density(Computed(lambda net, x: net.layer(x).double(), layer=layer), *ends, 16)
    assert (cast.flips, cast.units) == (plain.flips, plain.units)
    with pytest.raises(NotPiecewiseLinear, match="float16"):
        hamming_density(Computed(lambda net, x: net.layer(x).half(), layer=layer), *ends, 16)


def test_what_a_tick_raises_on_the_first_pass_is_raised() -> None:
    def tick() -> None:
        raise RuntimeError("no time is left")

    with pytest.raises(RuntimeError, match="no time is left"):
        hamming_density(tent(1), torch.zeros(1), torch.ones(1), 4, tick=tick)
