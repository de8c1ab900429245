"""Shrinkage weights equal scikit-learn's; covariances are what their two weights say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf

from survey.moments import ledoit_wolf_weight, moments


def matrix(n: int, c: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.rand(c, generator=generator, dtype=torch.float64) + 0.1
    return torch.randn(n, c, generator=generator, dtype=torch.float64) * scales + 3


@given(n=st.integers(2, 40), c=st.integers(2, 60), seed=st.integers(0, 10**6))
def test_the_weight_equals_scikit_learns(n: int, c: int, seed: int) -> None:
    x = matrix(n, c, seed)
    centred = x - x.mean(0)
    _, weight = ledoit_wolf(x.numpy())
    assert ledoit_wolf_weight(centred) == pytest.approx(float(weight), abs=1e-9)


@pytest.mark.parametrize(("n", "c"), [(50, 4), (6, 30)])
def test_covariances_equal_the_dense_ones(n: int, c: int) -> None:
    x = matrix(n, c)
    eye = torch.eye(c, dtype=torch.float64)
    plain = moments(x, "none")
    assert torch.allclose(plain.covariance(plain.centred), x.T.cov() + 1e-6 * eye, atol=1e-12)
    shrunk = moments(x, "ledoit-wolf")
    expected = torch.from_numpy(ledoit_wolf(x.numpy())[0]) + 1e-6 * eye
    assert torch.allclose(shrunk.covariance(shrunk.centred), expected, atol=1e-12)


@pytest.mark.parametrize("shrinkage", ["ledoit-wolf", "none"])
@pytest.mark.parametrize("ridge", ["absolute", "relative"])
def test_the_trace_is_that_of_the_covariance(shrinkage: str, ridge: str) -> None:
    for n, c in ((50, 4), (6, 30)):
        found = moments(matrix(n, c), shrinkage, ridge)  # type: ignore[arg-type]
        assert found.trace == pytest.approx(float(found.covariance(found.centred).trace()))
        assert (found.images, found.channels) == (n, c)


def test_the_relative_ridge_follows_the_scale() -> None:
    x = matrix(50, 4)
    small, large = (moments(x * scale, "none", "relative") for scale in (1e-3, 1.0))
    assert small.identity_weight == pytest.approx(1e-6 * large.identity_weight)
    assert moments(x * 1e-3, "none").identity_weight == 1e-6


@pytest.mark.parametrize("c", [1, 3])
def test_nothing_is_shrunk_where_variances_are_equal(c: int) -> None:
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * c).reshape(-1, c).double()
    assert ledoit_wolf_weight(corners - corners.mean(0)) == 0.0


def test_float32_is_measured_in_float64() -> None:
    x = matrix(30, 4).float()
    assert torch.equal(moments(x).centred, moments(x.double()).centred)
    assert moments(x).centred.dtype == torch.float64
