"""Scores that are computed while the next batches pass are those of one batch after another."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import survey.departures
import survey.measuring
import survey.score_queue
from survey import BatchScores, MeasureSettings, measure_batches
from survey.accuracy import Hits
from survey.capture.forward import Capture
from survey.departures import Departure
from survey.score_queue import AHEAD, Overlap
from survey.scoring import score_pair
from tests.survey.capture.test_synchronisation import Waits, moved

SETTINGS = MeasureSettings(images_per_score=24, micro_batch=10)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def overlapping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score as on an accelerator."""
    monkeypatch.setattr(survey.measuring, "overlap_of", lambda _: Overlap(2, AHEAD))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 9), nn.Tanh(), nn.Linear(9, 4))


def images(number: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    drawn = torch.randn(number, 12, generator=torch.Generator().manual_seed(1))
    return [(drawn, torch.arange(number) % 4)]


def measured(settings: MeasureSettings = SETTINGS, number: int = 250) -> list[BatchScores]:
    batches = measure_batches(network(), images(number), settings)
    return [dataclasses.replace(batch, seconds=0.0) for batch in batches]


def failing(number: int, *, scores: bool) -> Any:
    """Return a pass, or a scoring of a site, that fails in one batch."""

    def score(batch: int, *arguments: Any) -> Any:
        if batch == number:
            raise MemoryError("no scores")
        return score_pair(batch, *arguments)

    passes = iter(range(1000))

    def prepare(tensor: torch.Tensor) -> torch.Tensor:
        if next(passes) == 3 * number:
            raise MemoryError("no pass")
        return tensor

    return score if scores else prepare


def test_batches_are_the_same_to_the_last_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    precise = dataclasses.replace(SETTINGS, images_per_score=12, precision=0.012)
    one_by_one = measured(), measured(precise)
    assert [len(batches) for batches in one_by_one] == [11, 10]
    for overlap in (Overlap(1, 1), Overlap(2, AHEAD)):
        monkeypatch.setattr(survey.measuring, "overlap_of", lambda _, each=overlap: each)
        assert (measured(), measured(precise)) == one_by_one


def test_the_caller_has_one_core_while_threads_score_and_all_afterwards(overlapping: None) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        batches = measure_batches(network(), images(250), SETTINGS)
        assert [torch.get_num_threads() for _ in batches] == [1] * 11
        assert torch.get_num_threads() == 2
        both = [measure_batches(network(), images(250), SETTINGS) for _ in range(2)]
        for each in both:
            next(each)
        for each in both:
            assert torch.get_num_threads() == 1
            each.close()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_seconds_of_batches_that_overlap_are_counted_once(overlapping: None) -> None:
    began = survey.score_queue.time.perf_counter()
    batches = list(measure_batches(network(), images(250), SETTINGS))
    lasted = survey.score_queue.time.perf_counter() - began
    assert 0 < sum(batch.seconds for batch in batches) <= lasted


def test_no_more_batches_wait_than_may(overlapping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, passed = threading.Event(), []

    def score(*arguments: Any) -> Any:
        assert go_on.wait(60)
        return score_pair(*arguments)

    def note() -> None:
        passed.append(len(passed))
        if len(passed) > AHEAD:
            # Only now is the first one waited for.
            go_on.set()

    monkeypatch.setattr(survey.score_queue, "score_pair", score)
    batches = measure_batches(network(), images(250), SETTINGS, passed=note)
    assert next(batches).batch == 0
    assert passed == list(range(AHEAD + 1))
    assert [batch.batch for batch in batches] == list(range(1, 11))


@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("scores", [True, False])
def test_an_error_comes_after_the_batches_before_it(
    overlapping: None, monkeypatch: pytest.MonkeyPatch, number: int, scores: bool
) -> None:
    failure, seen = failing(number, scores=scores), []
    if scores:
        monkeypatch.setattr(survey.score_queue, "score_pair", failure)
    batches = measure_batches(network(), images(250), SETTINGS, prepare=None if scores else failure)
    with pytest.raises(MemoryError, match="no scores" if scores else "no pass"):
        seen.extend(batch.batch for batch in batches)
    assert seen == list(range(number))


def test_abandoned_scores_are_not_begun(overlapping: None, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = [], threading.Event()

    def score(batch: int, *arguments: Any) -> Any:
        begun.append(batch)
        assert batch == 0 or go_on.wait(60)
        return score_pair(batch, *arguments)

    monkeypatch.setattr(survey.score_queue, "score_pair", score)
    batches = measure_batches(network(), images(250), SETTINGS)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    go_on.set()
    # The sites that two threads had begun, of the four that waited.
    assert begun.count(1) + begun.count(2) <= 2


def test_a_pass_leaves_its_device_in_one_copy_that_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copies: list[bool] = []
    whole = torch.Tensor.to

    def to(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        if arguments[:1] == ("cpu",):
            copies.append(options["non_blocking"])
        return whole(tensor, *arguments, **options)

    monkeypatch.setattr(survey.departures, "recorded", lambda _: lambda: None)
    monkeypatch.setattr(torch.Tensor, "to", to)
    # It reads values, which fake tensors have none of.
    monkeypatch.setattr(survey.departures, "count_hits", lambda *_: Hits(0, 0, 0))
    with FakeTensorMode(), torch.inference_mode():
        model = moved(network())
        output, pairs = Capture(model).forward(torch.empty(8, 12, device="cuda"))
        with Waits() as waits:
            departure = Departure(pairs, output, torch.zeros(8, dtype=torch.int64))
        assert (copies, sum(waits.calls.values())) == ([True], 1)
        arrived, _ = departure.arrived()
    assert [pair.x is not None and pair.x.device.type for pair in arrived] == ["cpu"] * 2
    assert {pair.x.dtype for pair in pairs} | {pair.y.dtype for pair in pairs} == {torch.float32}
    assert [(pair.x.shape, pair.y.dtype) for pair in arrived] == [
        (pair.x.shape, pair.y.dtype) for pair in pairs
    ]


def test_what_is_copied_together_arrives_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(survey.departures, "recorded", lambda _: lambda: events.append("waited"))
    tensors = [
        torch.arange(3, dtype=torch.uint8), torch.randn(4, 5), torch.tensor(7),
        torch.randn(5, 3, dtype=torch.float64).T, torch.randn(7).half(), torch.randn(2, 0),
    ]  # fmt: skip
    arrived = survey.departures._copied(tensors)
    assert events == []
    copies = list(arrived())
    assert events == ["waited"]
    for tensor, copy in zip(tensors, copies, strict=True):
        assert copy.dtype == tensor.dtype
        assert torch.equal(copy, tensor)
