"""What is known in closed form of activations on independent normal coordinates.

With r the correlation of z and sigma(z): rho = 1 - sqrt(1 - r) and R2 = CKA = r^2. The shrunk
affinity's are in ``tests/survey/metrics/test_affinity.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tests.survey.metrics.pairs import get, normal

N, D = 2000, 12

#: sigma, r, rho and r^2 for z ~ N(0, 1).
ACTIVATIONS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float, float]] = {
    "relu": (functional.relu, 0.856429, 0.6211, 0.7335),
    "relu6": (functional.relu6, 0.856429, 0.6211, 0.7335),
    "leaky_relu": (functional.leaky_relu, 0.860940, 0.6271, 0.7412),
    "gelu": (functional.gelu, 0.850463, 0.6133, 0.7233),
    "silu": (functional.silu, 0.893594, 0.6738, 0.7985),
    "hardswish": (functional.hardswish, 0.906936, 0.6949, 0.8225),
    "tanh": (torch.tanh, 0.964609, 0.8119, 0.9305),
    "sigmoid": (torch.sigmoid, 0.992052, 0.9108, 0.9842),
}
#: rho of ReLU on N(mu, 1).
SHIFTED_RELU = {-2.0: 0.1642, -1.0: 0.3728, 1.0: 0.8291, 2.0: 0.9480, 4.0: 0.9988}


def test_the_scores_of_activations(subtests: pytest.Subtests) -> None:
    for name, (function, r, rho, squared) in ACTIVATIONS.items():
        with subtests.test(name=name):
            assert rho == pytest.approx(1 - math.sqrt(1 - r), abs=1e-4)
            assert squared == pytest.approx(r**2, abs=1e-4)
            x = normal(N, D, 3)
            y = function(x)
            assert get("affinity_plain", x[:1000], y[:1000]) == pytest.approx(rho, abs=0.02)
            for column in ("cka", "cka_debiased", "r2", "r2_heldout"):
                assert get(column, x, y) == pytest.approx(squared, abs=0.015), column


def test_shifted_relu(subtests: pytest.Subtests) -> None:
    for mu, rho in SHIFTED_RELU.items():
        with subtests.test(mu=mu):
            x = normal(N, D, 3) + mu
            few = x[:1000]
            assert get("affinity_plain", few, few.relu()) == pytest.approx(rho, abs=0.02)
            # The correlation of z and max(z, 0), from the moments of the rectified normal.
            density = math.exp(-(mu**2) / 2) / math.sqrt(2 * math.pi)
            above = 0.5 * math.erfc(-mu / math.sqrt(2))
            mean = mu * above + density
            variance = (mu**2 + 1) * above + mu * density - mean**2
            squared = above**2 / variance
            assert 1 - math.sqrt(1 - math.sqrt(squared)) == pytest.approx(rho, abs=1e-4)
            for column in ("cka", "cka_debiased", "r2", "r2_heldout"):
                assert get(column, x, x.relu()) == pytest.approx(squared, abs=0.02), column


def test_the_norm_of_relu_is_the_root_of_half_the_elements() -> None:
    x = normal(N, 10 * D)
    assert get("norm", x, x.relu()) == pytest.approx(math.sqrt(10 * N * D / 2), rel=0.01)
    assert get("norm_per_element", x, x.relu()) == pytest.approx(math.sqrt(0.5), rel=0.01)
    assert get("norm_relative", x, x.relu()) == pytest.approx(math.sqrt(0.5), rel=0.01)


def test_the_sparsity_of_relu_goes_from_a_thousandth_to_a_half() -> None:
    x = normal(N, 10 * D)
    near = math.erf(1e-3 / math.sqrt(2))
    assert near == pytest.approx(0.0008, abs=1e-5)
    assert get("sparsity_before", x, x.relu()) == pytest.approx(near, abs=3e-4)
    assert get("sparsity_after", x, x.relu()) == pytest.approx(0.5 + near / 2, abs=0.005)
    assert get("sparsity_change", x, x.relu()) == pytest.approx(0.5 - near / 2, abs=0.005)


@pytest.mark.parametrize("d", [2, 7, 300])
def test_the_entropy_of_constant_even_and_single_values(d: int) -> None:
    # Images differ in scale, which no entropy sees.
    scales = torch.tensor([[1.0], [2.0], [3.0]], dtype=torch.float64)
    constant = 0.7 * scales.expand(3, d)
    even = torch.linspace(-1, 4, d, dtype=torch.float64) * scales
    single = torch.eye(d, dtype=torch.float64)[:3].repeat(2, 1)[:3]
    share = 1 / d
    two_bins = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert get("entropy_before", constant, even) == pytest.approx(math.log(d), abs=1e-12)
    assert get("entropy_after", constant, even) == pytest.approx(2 * math.log(d), abs=1e-12)
    assert get("entropy_change", constant, even) == pytest.approx(math.log(d), abs=1e-12)
    assert get("entropy_before", single, even[: len(single)]) == pytest.approx(
        two_bins + math.log(d), abs=1e-12
    )
