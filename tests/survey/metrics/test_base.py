"""A quantity outside its declaration is no value, and takes no other with it."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from survey.metrics import QUANTITIES
from survey.metrics.base import NoValue, Quantity, value, values
from survey.metrics.pair import Pair
from tests.survey.metrics.pairs import BY_NAME, normal


def returning(given: float | NoValue | Exception) -> Quantity:
    def compute(_pair: Pair) -> float | NoValue:
        if isinstance(given, Exception):
            raise given
        return given

    return dataclasses.replace(BY_NAME["cka"], compute=compute)


@pytest.fixture
def pair() -> Pair:
    x = normal(10, 3)
    return Pair(x, x.relu())


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (math.nan, "no number"),
        (math.inf, "no number"),
        (1.001, "1.001, outside its range"),
        (-0.2, "outside its range"),
        (torch.linalg.LinAlgError("singular"), "cannot be evaluated: singular"),
        (ZeroDivisionError("division by zero"), "cannot be evaluated"),
        (NoValue("there is none"), "there is none"),
    ],
)
def test_what_is_no_value_says_why(pair: Pair, given: float | Exception, reason: str) -> None:
    outcome = value(returning(given), pair)
    assert isinstance(outcome, NoValue)
    assert reason in outcome.reason


def test_rounding_over_the_end_of_the_range_is_cut_off(pair: Pair) -> None:
    assert value(returning(1 + 1e-12), pair) == 1.0
    assert value(returning(-1e-12), pair) == 0.0


def test_one_broken_quantity_loses_no_other(pair: Pair) -> None:
    broken = dataclasses.replace(returning(math.nan), name="broken")
    numbers, notes = values([QUANTITIES[0], broken, *QUANTITIES[1:]], pair)
    assert [name for name, number in numbers.items() if number is not None] == [
        quantity.name for quantity in QUANTITIES
    ]
    assert numbers["broken"] is None
    assert [note.split(":")[0] for note in notes] == ["broken"]


def test_a_mistake_in_the_code_is_not_taken_for_a_missing_value(pair: Pair) -> None:
    with pytest.raises(TypeError):
        value(returning(TypeError("no")), pair)


def test_what_is_shared_is_computed_once(pair: Pair) -> None:
    calls: list[Pair] = []

    def shared(given: Pair) -> int:
        calls.append(given)
        return 5

    assert pair.once(shared) == pair.once(shared) == 5
    assert len(calls) == 1
