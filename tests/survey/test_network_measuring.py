"""Measuring a whole network: without its values where it can be, and never at their expense."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from survey import InputError, UnknownName, measure_network, network_measuring
from survey.network_measures.base import NetworkScore, SampledMeasure, Steps
from survey.network_measures.path_length import MEASURE as PATH_LENGTH
from survey.network_measures.sample import ImageSample
from survey.network_measuring import measuring_steps, without_values

SHAPE = (3, 8, 8)


class Net(nn.Module):
    """A network with a tied weight, a buffer and a plain tensor, which may compute with values."""

    def __init__(self, *, by_value: bool = False) -> None:
        super().__init__()
        self.by_value = by_value
        self.first, self.second = nn.Conv2d(3, 4, 1), nn.Conv2d(3, 4, 1)
        self.second.weight = self.first.weight
        self.register_buffer("order", torch.tensor([3, 1, 0, 2]))
        self.scale = torch.tensor(2.0)
        self.ran = 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.ran += 1
        x = functional.relu(self.first(images)) + self.second(images) * self.scale
        if self.by_value:
            x = x[:, self.order] if images.sum().item() > -1e9 else x
        return x.mean((2, 3))


def test_a_copy_without_values_has_the_structure_and_no_weights() -> None:
    net = Net()
    twin = without_values(net)
    assert [(n, t.shape) for n, t in twin.state_dict().items()] == [
        (n, t.shape) for n, t in net.state_dict().items()
    ]
    held = [*twin.parameters(), *twin.buffers(), twin.scale]
    assert all(isinstance(tensor, torch.Tensor) and tensor.is_meta for tensor in held)
    assert len(list(twin.parameters())) == len(list(net.parameters())) == 3
    assert not any(parameter.is_meta for parameter in net.parameters())


@pytest.mark.parametrize("by_value", [False, True])
def test_only_a_network_that_computes_with_values_is_run(*, by_value: bool) -> None:
    net = Net(by_value=by_value).train()
    state = torch.get_rng_state()
    scores = measure_network(net, SHAPE, ["path_length"])
    assert net.ran == int(by_value)
    assert scores["path_length_normalised"].value == 0.5
    assert all(module.training for module in net.modules())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_network_that_cannot_run_has_a_reason() -> None:
    scores = measure_network(nn.Linear(5, 2), SHAPE, ["path_length"])
    assert {score.value for score in scores.values()} == {None}
    assert all(str(score.reason).startswith("RuntimeError: ") for score in scores.values())


def test_an_unknown_measure_is_named_with_what_there_is() -> None:
    with pytest.raises(UnknownName, match="path_lenght") as caught:
        measure_network(Net(), SHAPE, ["path_lenght"])
    assert "path_length" in str(caught.value.hint)


def sampled(compute: Callable[[nn.Module, ImageSample], Steps], **limits: Any) -> SampledMeasure:
    return SampledMeasure(
        name="seen",
        version=3,
        quantities=(),
        images=5,
        passes=lambda _: 1.0,
        compute=compute,
        **limits,
    )


def count(model: nn.Module, sample: ImageSample) -> Steps:
    """Return the number of the images, their sum and their labels."""
    yield 0.5
    torch.rand(1)
    inputs = sample.inputs(torch.arange(len(sample)))
    details = {"labels": None if sample.labels is None else sample.labels.tolist()}
    return {"seen": NetworkScore(inputs.sum().item(), samples=len(sample), details=details)}


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_measuring, "MEASURES", (sampled(count),))


@pytest.mark.parametrize(("sizes", "read"), [((2, 2, 2), 5), ((3,), 3)])
def test_a_measure_reads_the_first_images_as_many_as_it_asks_for(
    sizes: tuple[int, ...], read: int, counting: None
) -> None:
    parts = torch.arange(sum(sizes)).split(list(sizes))
    batches = [(labels.view(-1, 1, 1, 1).expand(-1, *SHAPE), labels) for labels in parts]
    net, state = Net(), torch.get_rng_state()
    score = measure_network(net, SHAPE, ["seen"], batches)["seen"]
    assert (score.samples, score.version) == (read, 3)
    assert score.value == sum(range(read)) * 3 * 8 * 8
    assert score.details["labels"] == list(range(read))
    assert torch.equal(torch.get_rng_state(), state)


def test_without_images_a_measure_that_reads_some_has_a_reason() -> None:
    scores = measure_network(Net(), SHAPE, ["path_length", "nonlinearity_coefficient"])
    assert scores["path_length"].value is not None
    assert "images" in str(scores["nonlinearity_coefficient"].reason)


def test_images_of_another_shape_are_refused(counting: None) -> None:
    with pytest.raises(InputError, match=r"3, 4, 4.*3, 8, 8"):
        measure_network(Net(), SHAPE, ["seen"], [torch.zeros(2, 3, 4, 4)])


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("can't allocate memory: 1 byte"),
        RuntimeError("std::bad_alloc"),
        RuntimeError("MPS backend out of memory"),
        torch.AcceleratorError("CUDA error: unspecified launch failure"),
    ],
)
def test_a_failure_of_the_machine_is_raised_and_no_reason(error: Exception) -> None:
    def fail(*_: object) -> Steps:
        yield 0.5
        raise error

    sample = ImageSample(torch.zeros(1, *SHAPE))
    steps = measuring_steps(sampled(fail), Net(), SHAPE, sample)
    assert next(steps) == 0.5
    with pytest.raises(type(error)):
        next(steps)


@pytest.mark.parametrize("measure", ["hamming_density", "region_density"])
def test_a_failure_of_the_machine_in_a_pass_is_raised_and_no_reason(measure: str) -> None:
    class Failing(Net):
        def forward(self, _: torch.Tensor) -> torch.Tensor:
            raise torch.AcceleratorError("CUDA error: unspecified launch failure")

    with pytest.raises(torch.AcceleratorError):
        measure_network(Failing(), SHAPE, [measure], [torch.rand(16, *SHAPE)])


@pytest.mark.parametrize(
    ("enough", "value", "tried"), [(8, 7.0, [32, 16, 8]), (0, None, [32, 16, 8, 4, 2, 1])]
)
def test_too_little_memory_is_met_with_fewer_images_and_ends_as_a_reason(
    monkeypatch: pytest.MonkeyPatch, enough: int, value: float | None, tried: list[int]
) -> None:
    sizes: list[int] = []

    def scarce(_: object, sample: ImageSample) -> Steps:
        sizes.append(sample.micro_batch)
        yield 0.5
        if sample.micro_batch > enough:
            raise MemoryError("no room")
        return {"seen": NetworkScore(7.0)}

    (quantity, *_) = PATH_LENGTH.quantities
    declared = replace(sampled(scarce), quantities=(replace(quantity, name="seen"),))
    monkeypatch.setattr(network_measuring, "MEASURES", (PATH_LENGTH, declared))
    names = ["path_length", declared.name]
    scores = measure_network(Net(), SHAPE, names, [torch.zeros(40, *SHAPE)])
    assert scores["path_length"].value is not None
    assert (scores["seen"].value, sizes) == (value, tried)
    reason = scores["seen"].reason
    assert reason is None if value else "one image at once: MemoryError: no room" in str(reason)


def test_a_reason_is_one_line_that_can_be_stored() -> None:
    def fail(*_: object) -> Steps:
        yield 0.5
        raise OSError("no \udcff.pth\nat line 3")

    declared = replace(sampled(fail), quantities=PATH_LENGTH.quantities)
    scores = network_measuring._result(
        measuring_steps(declared, Net(), SHAPE, ImageSample(torch.zeros(1, *SHAPE)))
    )
    assert {score.reason for score in scores.values()} == {r"OSError: no \udcff.pth"}


def test_a_single_name_is_one_measure() -> None:
    assert measure_network(Net(), SHAPE, "path_length").keys() == {
        quantity.name for quantity in PATH_LENGTH.quantities
    }


def test_beyond_its_greatest_size_it_is_not_computed() -> None:
    measure = sampled(count, most_size=7, alternative="another")
    assert measure.refusal(7) is None
    assert "up to 7 pixels, not at 8" in str(measure.refusal(8))
