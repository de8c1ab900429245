"""Linear regions: closed forms, dense grids of networks written twice, and what is refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torchvision
from torch import nn
from torch.nn import functional

from survey import InputError, NotPiecewiseLinear, hamming_density, linear_regions
from survey.capture.arguments import tensors_in
from survey.capture.axis_origins import named
from survey.capture.elementwise import DROPOUTS
from survey.errors import CaptureError, SurveyError
from survey.network_measuring import without_values
from survey.regions import crossings as tracing
from survey.regions.crossings import Crossings
from survey.regions.deviation import trapezoid_deviation
from tests.survey.regions.networks import Computed, ConvNet, RandomNet, on_a_grid, segment, tent

ONE, ZERO = torch.ones(1), torch.zeros(1)


@pytest.mark.parametrize("times", [1, 2, 3, 6, 10])
def test_the_composed_tent_map(times: int) -> None:
    traced = linear_regions(tent(times), ZERO, ONE)
    assert traced.regions == 2**times
    expected = torch.arange(2**times + 1, dtype=torch.float64) / 2**times
    assert (traced.knots - expected).abs().max() < 1e-12
    assert traced.absolute_deviation.item() == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize(
    ("compute", "regions", "deviation"),
    [
        (lambda _, x: x.abs(), 2, 1.0),
        (lambda _, x: functional.relu(x), 2, 0.5),
        (lambda _, x: torch.maximum(x, -x), 2, 1.0),
        (lambda _, x: x * torch.sign(x), 2, 1.0),
        (lambda _, x: 3 * x - 1, 1, 0.0),
        # Equal units, one after another, bend at one time.
        (lambda _, x: functional.relu(functional.relu(x)), 2, 0.5),
        # Two breakpoints, and one unit that is constant on the way.
        (lambda _, x: functional.hardtanh(2 * x) + functional.relu(0 * x), 3, 0.5),
    ],
)
def test_closed_forms(compute: Any, regions: int, deviation: float) -> None:
    traced = linear_regions(Computed(compute), -ONE, ONE)
    assert (traced.regions, traced.density) == (regions, regions - 1)
    assert traced.absolute_deviation.item() == pytest.approx(deviation, abs=1e-12)
    assert traced.distance == 2.0


def test_a_hidden_layer_bends_once_for_each_unit() -> None:
    net = nn.Sequential(nn.Linear(1, 9), nn.ReLU(), nn.Linear(9, 2))
    with torch.no_grad():
        net[0].weight.fill_(1.0)
        net[0].bias.copy_(-torch.arange(1, 10) / 10)
    traced = linear_regions(net, ZERO, ONE)
    assert traced.regions == 10
    assert traced.times.tolist() == pytest.approx([i / 10 for i in range(1, 10)], abs=1e-7)
    assert traced.units.tolist() == list(range(9))
    assert set(traced.sites) == {"1#1"}


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.long)])
def test_random_networks_on_a_dense_grid(count: int) -> None:
    steps, same = 3000, 0
    for seed in range(count):
        net = RandomNet(seed)
        start, end = segment(net.inputs, seed)
        traced = linear_regions(net, 3 * start, 3 * end)
        changed, _ = on_a_grid(net, 3 * start, 3 * end, steps)
        check_inside(net, 3 * start, 3 * end, traced)
        same += check_against(traced, changed, steps)
    # In the others a region is thinner than the grid.
    assert same > 0.75 * count


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_convolutional_network_on_a_dense_grid(seed: int) -> None:
    net, steps = ConvNet(seed), 4000
    start, end = segment((3, 9, 9), seed)
    traced = linear_regions(net, start, end)
    changed, outputs = on_a_grid(net, start, end, steps)
    check_against(traced, changed, steps)
    check_inside(net, start, end, traced)
    assert traced.regions > 100
    assert {"six#1", "pool:max_pool2d#1", "relu#1"} <= set(traced.sites)
    times = torch.arange(steps + 1, dtype=torch.float64) / steps
    dense = trapezoid_deviation(times, outputs, traced.distance)
    assert torch.allclose(traced.absolute_deviation, dense, rtol=1e-3)


def test_a_point_at_which_nothing_changes_ends_no_region(monkeypatch: pytest.MonkeyPatch) -> None:
    points = tracing._points

    def more(line: Any) -> torch.Tensor:
        return torch.cat([points(line), line.times([0.3])]).sort().values

    monkeypatch.setattr(tracing, "_points", more)
    traced = linear_regions(tent(2), ZERO, ONE)
    assert traced.knots.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert set(traced.times.tolist()) == {0.25, 0.5, 0.75}


def test_few_points_a_pass_give_the_same_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    net, (start, end) = ConvNet(), segment((3, 5, 5), 0)
    whole = linear_regions(net, start, end)
    monkeypatch.setattr("survey.regions.line._VALUES", 4_000)
    parts = linear_regions(net, start, end)
    assert parts.regions == whole.regions
    assert torch.allclose(parts.knots, whole.knots, rtol=0, atol=1e-12)
    assert parts.sites == whole.sites
    assert parts.units.tolist() == whole.units.tolist()


def check_against(traced: Crossings, changed: torch.Tensor, steps: int) -> bool:
    """Check that a grid sees what its steps can see; return whether it sees every region."""
    places = (traced.knots[1:-1] * steps).floor().long()
    held, count = places.unique(return_counts=True)
    # A unit that changes and changes back within a step is not seen.
    assert set(held[count == 1].tolist()) <= set(changed.tolist()) <= set(held.tolist())
    return len(changed) == traced.density


def check_inside(net: nn.Module, start: torch.Tensor, end: torch.Tensor, traced: Crossings) -> None:
    """Check that outputs are affine inside of each region, and that neighbours differ."""
    twin = net.double().eval()
    view = (-1, *[1] * start.ndim)
    width = traced.knots.diff()

    def at(share: float) -> torch.Tensor:
        times = (traced.knots[:-1] + share * width).view(view)
        return start.double() + times * (end.double() - start.double())

    with torch.no_grad():
        low, middle, high = (twin(at(share)) for share in (0.25, 0.5, 0.75))
        pieces = twin.pieces(at(0.5))
    assert (low - 2 * middle + high).abs().max() < 1e-11
    assert (pieces[1:] != pieces[:-1]).any(1).all()


def test_the_network_and_the_random_numbers_stay_as_they_are() -> None:
    net = ConvNet().train()
    before = copy.deepcopy(net.state_dict())
    state, start = torch.get_rng_state(), segment((3, 5, 5), 0)
    linear_regions(net, *start)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(module.training and not module._forward_hooks for module in net.modules())
    assert torch.get_default_dtype() is torch.float32


def test_a_network_that_changes_its_input_in_place_is_traced() -> None:
    layers = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    ends = segment(4, 0)
    kept = [end.clone() for end in ends]
    in_place = Computed(lambda self, x: self.layers(x.sub_(0.5).div_(0.2)), layers=layers)
    plain = Computed(lambda self, x: self.layers(x.sub(0.5).div(0.2)), layers=layers)
    for network in (in_place.double(), in_place.float()):
        traced, wanted = (linear_regions(each, *ends) for each in (network, plain))
        assert traced.regions == wanted.regions > 1
        assert torch.equal(traced.knots, wanted.knots)
        flips = (hamming_density(each, *ends, segments=16).flips for each in (network, plain))
        assert len(set(flips)) == 1
        ends = tuple(end.double() for end in ends)
    assert all(map(torch.equal, map(torch.Tensor.float, ends), kept))


@pytest.mark.parametrize(
    "blank",
    [
        torch.zeros_like,
        lambda x: torch.ones_like(input=x),
        lambda x: torch.full_like(x, 2.0),
        lambda x: x.new_zeros(x.shape),
        lambda x: x.new_ones(x.shape),
        lambda x: x.new_full(x.shape, 3.0),
        lambda x: x.new_tensor([1.0, 0.0, 2.0, 0.0]),
    ],
)
def test_a_tensor_that_takes_a_shape_or_a_type_alone_is_constant(blank: Any) -> None:
    head, ends = nn.Linear(8, 2), segment(4, 0)

    def joined(network: Any, x: torch.Tensor, constant: torch.Tensor) -> torch.Tensor:
        return network.head(torch.cat([functional.relu(x), constant.expand_as(x) * x], 1))

    constant = blank(torch.ones(2, 4, dtype=torch.float64))[:1]
    made = Computed(lambda self, x: joined(self, x, blank(x)), head=head)
    given = Computed(lambda self, x: joined(self, x, constant), head=head)
    traced, wanted = (linear_regions(each, *ends) for each in (made, given))
    assert torch.equal(traced.knots, wanted.knots)
    assert traced.regions > 1


@pytest.mark.parametrize("name", DROPOUTS)
def test_a_dropout_of_eval_mode_bends_nothing(name: str) -> None:
    shape = {"dropout1d": (3, 4), "dropout3d": (3, 2, 2, 2)}.get(name, (3, 4, 4))
    for function in named(name):
        net = Computed(lambda _, x, drop=function: drop(functional.relu(x), 0.5, False))
        assert linear_regions(net, *segment(shape, 0)).regions > 1
        drawn = Computed(lambda _, x, drop=function: drop(functional.relu(x), 0.5, True))
        with pytest.raises(NotPiecewiseLinear, match="draws random numbers"):
            linear_regions(drawn, *segment(shape, 0))


@pytest.mark.parametrize(
    "held",
    [
        lambda kernel: [kernel],
        lambda kernel: {"kernels": (kernel, [torch.ones(2)])},
        lambda kernel: (nn.Parameter(kernel),),
    ],
)
def test_tensors_in_containers_of_a_module_are_copied_as_its_own(held: Any) -> None:
    kernel = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    own = Computed(lambda self, x: functional.relu(x @ self.kernel.T))
    own.register_buffer("kernel", kernel)
    held_by = Computed(lambda self, x: functional.relu(x @ tensors_in(self.held)[0].T))
    held_by.held = held(kernel)
    traced, wanted = (linear_regions(net, *segment(4, 0)) for net in (held_by, own))
    assert torch.equal(traced.knots, wanted.knots)
    assert traced.regions > 1
    assert {each.device.type for each in tensors_in(without_values(held_by).held)} == {"meta"}
    assert torch.equal(tensors_in(held_by.held)[0], kernel)


def test_a_container_of_a_module_may_hold_itself() -> None:
    def forward(self: Computed, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x @ self.held[0].T)

    kernel = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    plain, around = Computed(forward), Computed(forward)
    plain.held, around.held = [kernel], [kernel]
    around.held.append(around.held)
    traced, wanted = (linear_regions(net, *segment(4, 0)) for net in (around, plain))
    assert torch.equal(traced.knots, wanted.knots)


def test_casts_are_left_out() -> None:
    net = Computed(lambda self, x: self.l(functional.relu(x.float() / 3).half().float()))
    net.l = nn.Linear(4, 3)
    assert linear_regions(net, *segment(4, 0)).regions > 1


def test_an_empty_segment_is_one_region() -> None:
    traced = linear_regions(tent(3), ONE / 3, ONE / 3)
    assert (traced.regions, traced.distance) == (1, 0.0)
    assert traced.absolute_deviation.item() == 0.0


@pytest.mark.parametrize(
    ("compute", "named"),
    [
        (lambda _, x: functional.gelu(x), "gelu at :gelu#1 is not piecewise linear"),
        (lambda _, x: x * torch.sigmoid(x), ":sigmoid#1"),
        (lambda _, x: functional.log_softmax(functional.relu(x), 1), ":log_softmax#1"),
        (lambda _, x: functional.layer_norm(x, (4,)), ":layer_norm#1"),
        (lambda _, x: functional.batch_norm(x, None, None, training=True), ":batch_norm#1"),
        (lambda _, x: functional.dropout(x), ":dropout#1"),
        (lambda _, x: functional.threshold(x, 0.1, 0.0), ":threshold#1"),
        (lambda _, x: x * x, ":mul#1"),
        (lambda _, x: 1 / (2 + x), ":div#1"),
        (lambda _, x: x if x.sum() > 0 else -x, ":gt#1"),
        (lambda _, x: x * x.amax(1).tolist()[0], ":tolist#1"),
        (lambda _, x: x.double().float().to(torch.int64) + 0.5 * x, ":to#1"),
        (lambda self, x: self.hidden(x), "hidden:hardswish#1"),
        # What is not seen is noticed in the outputs.
        (lambda _, x: torch.from_numpy(x.detach().sin().numpy()), ":sin#1"),
        (lambda _, x: x - x.mean(0, keepdim=True) ** 1, ":pow#1"),
        (lambda _, x: functional.relu(x - x.mean(0, keepdim=True)), "depend on the other inputs"),
        (lambda _, x: x + 1.0 * (x > 0), "differ from affine"),
        (lambda _, x: x + torch.randn(x.shape), "differ from affine"),
        (lambda _, x: x + torch.randn_like(x), "differ from affine"),
        (lambda _, x: functional.relu(x + torch.rand_like(x)), "random numbers"),
        (lambda _, x: x + torch.full_like(x, x.sum().sin()), ":sin#1"),
        (lambda _, x: x + x.new_full((4,), x.sum()), ":new_full#1"),
    ],
)
def test_what_is_not_piecewise_linear_is_refused(compute: Any, named: str) -> None:
    hidden = nn.Sequential()
    hidden.forward = functional.hardswish  # type: ignore[method-assign]
    with pytest.raises(NotPiecewiseLinear) as refusal:
        linear_regions(Computed(compute, hidden=hidden), *segment(4, 0))
    assert named in refusal.value.message
    assert refusal.value.hint


@pytest.mark.parametrize(
    "net",
    [
        nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4)),
        nn.Sequential(nn.Linear(4, 4), nn.Softmax(1)),
        nn.Sequential(nn.Linear(4, 4), nn.CELU()),
    ],
)
def test_modules_that_are_refused(net: nn.Module) -> None:
    with pytest.raises(NotPiecewiseLinear):
        linear_regions(net, *segment(4, 0))


@pytest.mark.filterwarnings("ignore:.*jit.script:FutureWarning")
def test_what_hides_its_calls_is_refused() -> None:
    net = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    with pytest.raises(CaptureError, match="TorchScript"):
        linear_regions(net, *segment(4, 0))


def test_attention_and_recurrent_layers_are_refused() -> None:
    attention, recurrent = nn.MultiheadAttention(4, 2, batch_first=True), nn.LSTM(4, 4)
    for compute in (lambda s, x: s.a(x, x, x)[0], lambda s, x: s.r(x)[0]):
        with pytest.raises(NotPiecewiseLinear):
            linear_regions(Computed(compute, a=attention, r=recurrent), *segment((3, 4), 0))


def test_large_images_are_refused_before_anything_runs() -> None:
    net = torchvision.models.resnet18()
    images = torch.zeros(2, 3, 224, 224)
    with pytest.raises(InputError, match="64 x 64") as refusal:
        linear_regions(net, *images)
    assert "hamming_density" in (refusal.value.hint or "")


def test_too_many_regions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_REGIONS", 100)
    with pytest.raises(InputError, match="more than 100 linear regions"):
        linear_regions(tent(12), ZERO, ONE)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (torch.zeros(4), torch.zeros(5)),
        (torch.zeros(4), torch.full((4,), torch.inf)),
        (torch.zeros(4, dtype=torch.long), torch.zeros(4)),
        ([0.0] * 4, torch.zeros(4)),
        (torch.zeros(7), torch.zeros(7)),
    ],
)
def test_ends_that_are_no_segment(start: Any, end: Any) -> None:
    with pytest.raises(SurveyError) as refusal:
        linear_regions(nn.Linear(4, 2), start, end)
    assert isinstance(refusal.value, InputError)


def test_outputs_that_are_no_rows_or_not_finite() -> None:
    for compute in (lambda _, x: x.sum(), lambda _, x: x * torch.inf, lambda _, x: None):
        with pytest.raises(InputError):
            linear_regions(Computed(compute), *segment(4, 0))


def test_a_tick_can_end_a_trace() -> None:
    class Late(Exception):
        pass

    def tick() -> None:
        raise Late

    with pytest.raises(Late):
        linear_regions(tent(2), ZERO, ONE, tick=tick)
