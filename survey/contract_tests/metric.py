"""The contract of a metric: its quantities' declarations hold on random data.

Every declared invariance must hold, and every other one of the standard invariances must be broken
by some data, so that the declarations are complete. A metric's test class inherits the contract::

    from survey.contract_tests.metric import MetricContract

    class TestSpread(MetricContract):
        metric = spread.METRIC
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from survey.capture.near_zero import NearZero
from survey.metrics.base import INVARIANCES, Metric, NoValue, Quantity, value
from survey.metrics.pair import Pair

Change = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]

#: Images and channels: many images, as many as channels, fewer, and the smallest.
SHAPES = [(120, 6), (30, 29), (24, 24), (16, 40), (8, 3), (2, 5), (9, 1)]


def normal(n: int, c: int, seed: int) -> torch.Tensor:
    """Return a matrix, n x c, of standard normal numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, c, generator=generator, dtype=torch.float64)


def sample(n: int, c: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return correlated inputs of unequal scale and mean, and a noisy activation of them."""
    mixing = normal(c, c, seed + 1) / math.sqrt(c)
    x = normal(n, c, seed) @ mixing * torch.logspace(-0.5, 0.5, c).double()
    x += 0.5 * normal(1, c, seed + 2)
    y = (x + 0.2 * normal(n, c, seed + 4)).relu()
    # Zeros, and values that count as zero until they are scaled, in unequal shares.
    for matrix, threshold in ((x, 1.2), (y, 0.9)):
        chosen = normal(n, c, seed + 3)
        matrix[chosen > threshold] = 5e-4
        matrix[chosen > 1.5] = 0.0
    return x, y


def pair(x: torch.Tensor, y: torch.Tensor) -> Pair:
    """Return a pair with the relative ridge, since the absolute one breaks scale invariance."""
    return Pair(x, y, ridge="relative")


def turn(c: int, seed: int) -> torch.Tensor:
    """Return an orthogonal matrix, c x c."""
    orthogonal: torch.Tensor = torch.linalg.qr(normal(c, c, seed)).Q
    return orthogonal


def order(length: int, seed: int) -> torch.Tensor:
    """Return a permutation."""
    return torch.randperm(length, generator=torch.Generator().manual_seed(seed))


def shift(x: torch.Tensor) -> torch.Tensor:
    """Return a random vector to add to every row of x."""
    return 2 * normal(1, x.shape[1], 11)


CHANGES: dict[str, Change] = {
    "images": lambda x, y: (x[order(len(x), 5)], y[order(len(x), 5)]),
    "pairing": lambda x, y: (x, y[order(len(x), 5)]),
    "channels": lambda x, y: (x[:, order(x.shape[1], 6)], y[:, order(x.shape[1], 6)]),
    "channels_output": lambda x, y: (x, y[:, order(x.shape[1], 6)]),
    "rotation": lambda x, y: (x @ turn(x.shape[1], 7), y @ turn(x.shape[1], 7)),
    "rotation_input": lambda x, y: (x @ turn(x.shape[1], 7), y),
    "rotation_output": lambda x, y: (x, y @ turn(x.shape[1], 7)),
    "scale": lambda x, y: (3.7 * x, 3.7 * y),
    "scale_input": lambda x, y: (3.7 * x, y),
    "scale_output": lambda x, y: (x, 3.7 * y),
    "shift": lambda x, y: (x + shift(x), y + shift(x)),
    "shift_input": lambda x, y: (x + shift(x), y),
    "shift_output": lambda x, y: (x, y + shift(x)),
    "swap": lambda x, y: (y, x),
}


def defined(quantity: Quantity, x: torch.Tensor, y: torch.Tensor) -> float:
    """Return a quantity's value; fail if it has none."""
    result = value(quantity, pair(x, y))
    assert not isinstance(result, NoValue), result
    return result


class MetricContract:
    """The tests of one metric: inherit them, and set ``metric``."""

    metric: Metric

    def shapes(self, quantity: Quantity) -> list[tuple[int, int]]:
        """Return the shapes for which a quantity is defined."""
        return [(n, c) for n, c in SHAPES if n >= quantity.minimum_images(c)]

    def test_every_quantity_has_a_formula_a_source_and_a_unit(self) -> None:
        for quantity in self.metric.quantities:
            assert quantity.formula
            assert quantity.source
            assert quantity.unit in ("1", "nat", "of X")

    def test_values_are_numbers_in_the_range_and_repeat(self) -> None:
        for quantity in self.metric.quantities:
            for n, c in self.shapes(quantity):
                for seed in range(4):
                    x, y = sample(n, c, 20 * seed)
                    result = defined(quantity, x, y)
                    assert type(result) is float
                    assert math.isfinite(result)
                    assert quantity.low <= result <= quantity.high, (quantity.name, n, c)
                    assert defined(quantity, x, y) == result

    def test_the_formula_itself_keeps_the_range_but_for_rounding(self) -> None:
        for quantity in self.metric.quantities:
            for n, c in self.shapes(quantity):
                raw = quantity.compute(pair(*sample(n, c, 3)))
                assert isinstance(raw, float)
                assert quantity.low - 1e-12 <= raw <= quantity.high + 1e-12

    @pytest.mark.parametrize("invariance", INVARIANCES)
    def test_exactly_the_declared_invariances_hold(self, invariance: str) -> None:
        for quantity in self.metric.quantities:
            moves = []
            for n, c in [(120, 6), (24, 24), (16, 40)]:
                if n < quantity.minimum_images(c):
                    continue
                x, y = sample(n, c)
                x_changed, y_changed = CHANGES[invariance](x, y)
                moves.append(abs(defined(quantity, x_changed, y_changed) - defined(quantity, x, y)))
            if invariance in quantity.invariances:
                assert max(moves) < 1e-7, (quantity.name, moves)
            else:
                assert max(moves) > 1e-4, (quantity.name, moves)

    def test_it_is_defined_from_the_declared_number_of_images_on(self) -> None:
        for quantity in self.metric.quantities:
            for c in (1, 3, 7):
                least = quantity.minimum_images(c)
                x = normal(least, c, 8)
                assert math.isfinite(defined(quantity, x, torch.tanh(x) + 0.1 * x.flip(0)))
                if least > 2:
                    result = value(quantity, pair(x[1:], torch.tanh(x[1:])))
                    assert isinstance(result, NoValue)
                    assert f"needs {least} images" in result.reason

    def test_the_identity_lies_at_the_linear_end(self) -> None:
        for quantity in self.metric.quantities:
            x, y = sample(120, 6)
            same = defined(quantity, x, x)
            if quantity.direction == "higher":
                assert same == pytest.approx(quantity.high, abs=1e-6)
                assert defined(quantity, x, y) < same - 0.01
            elif quantity.direction == "lower":
                assert same == quantity.low
                assert defined(quantity, x, y) > same + 0.01

    def test_an_unusual_pair_gives_a_number_or_a_reason(self) -> None:
        x, y = sample(30, 5)
        dead, alike = torch.zeros_like(x), torch.full_like(x, 0.3)
        lone = torch.zeros_like(x)
        lone[0, 0] = 1.0
        pairs = [
            (x, dead), (x, alike), (dead, y), (alike, y), (dead, dead), (x, lone), (lone, y),
            (1e180 * x, 1e180 * y), (1e-180 * x, 1e-180 * y), (1e-310 * x, 1e-310 * y),
            (x[:, :1].expand(-1, 5), y), (x, -y), (x + 1e9, y + 1e9),
        ]  # fmt: skip
        for quantity in self.metric.quantities:
            for before, after in pairs:
                result = value(quantity, pair(before, after))
                if isinstance(result, NoValue):
                    assert result.reason
                else:
                    assert quantity.low <= result <= quantity.high

    def test_single_precision_is_computed_in_double(self) -> None:
        for quantity in self.metric.quantities:
            x, y = (matrix.float() for matrix in sample(60, 5))
            before, after = NearZero(3, 10), NearZero(5, 10)
            single = Pair(x, y, ridge="relative", before=before, after=after)
            double = Pair(x.double(), y.double(), ridge="relative", before=before, after=after)
            assert value(quantity, single) == value(quantity, double)

    def test_the_arguments_are_left_as_they_were(self) -> None:
        for quantity in self.metric.quantities:
            x, y = sample(40, 5)
            kept = x.clone(), y.clone()
            value(quantity, pair(x, y))
            assert torch.equal(x, kept[0])
            assert torch.equal(y, kept[1])
