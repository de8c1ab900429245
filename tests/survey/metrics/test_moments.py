"""Shrinkage weights equal scikit-learn's; covariances are what their two weights say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.covariance import ledoit_wolf

from survey.metrics.moments import Moments, Rows
from survey.settings import Ridge, Shrinkage


def matrix(n: int, c: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    scales = torch.rand(c, generator=generator, dtype=torch.float64) + 0.1
    return torch.randn(n, c, generator=generator, dtype=torch.float64) * scales + 3


def moments_of(x: torch.Tensor, shrinkage: Shrinkage, ridge: Ridge) -> Moments:
    rows = Rows(x)
    return rows.moments(shrinkage, ridge, rows.gram_squared_norm)


def dense(moments: Moments) -> torch.Tensor:
    return moments.covariance(moments.rows.centred.T @ moments.rows.centred)


@given(n=st.integers(2, 40), c=st.integers(2, 60), seed=st.integers(0, 10**6))
def test_the_weight_equals_scikit_learns(n: int, c: int, seed: int) -> None:
    x = matrix(n, c, seed)
    _, weight = ledoit_wolf(x.numpy())
    rows = Rows(x)
    found = rows.ledoit_wolf_weight(rows.gram_squared_norm)
    assert found == pytest.approx(float(weight), abs=1e-9)


@pytest.mark.parametrize(("n", "c"), [(50, 4), (6, 30)])
def test_covariances_equal_the_dense_ones(n: int, c: int) -> None:
    x = matrix(n, c)
    eye = torch.eye(c, dtype=torch.float64)
    plain = moments_of(x, "none", "absolute")
    assert torch.allclose(dense(plain), x.T.cov() + 1e-6 * eye, atol=1e-12)
    shrunk = moments_of(x, "ledoit-wolf", "absolute")
    expected = torch.from_numpy(ledoit_wolf(x.numpy())[0]) + 1e-6 * eye
    assert torch.allclose(dense(shrunk), expected, atol=1e-12)


@pytest.mark.parametrize("shrinkage", ["ledoit-wolf", "none"])
@pytest.mark.parametrize("ridge", ["absolute", "relative"])
def test_the_trace_is_that_of_the_covariance(shrinkage: Shrinkage, ridge: Ridge) -> None:
    for n, c in ((50, 4), (6, 30)):
        shared = moments_of(matrix(n, c), shrinkage, ridge)
        assert shared.trace == pytest.approx(float(dense(shared).trace()))


def test_the_relative_ridge_follows_the_scale() -> None:
    x = matrix(50, 4)
    small, large = (moments_of(x * scale, "none", "relative") for scale in (1e-3, 1.0))
    assert small.identity_weight == pytest.approx(1e-6 * large.identity_weight)
    assert moments_of(x * 1e-3, "none", "absolute").identity_weight == 1e-6


@pytest.mark.parametrize("c", [1, 3])
def test_nothing_is_shrunk_where_variances_are_equal(c: int) -> None:
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * c).reshape(-1, c).double()
    rows = Rows(corners)
    assert rows.ledoit_wolf_weight(rows.gram_squared_norm) == 0.0


def test_float32_is_measured_in_float64() -> None:
    x = matrix(30, 4).float()
    assert torch.equal(Rows(x).centred, Rows(x.double()).centred)
    assert Rows(x).centred.dtype == torch.float64


@pytest.mark.parametrize(("n", "c"), [(50, 4), (30, 30), (6, 30)])
def test_what_is_shared_equals_its_definition(n: int, c: int) -> None:
    x = matrix(n, c)
    rows = Rows(x)
    centred = x - x.mean(0)
    assert torch.equal(rows.centred, centred)
    assert rows.gram.shape == ((n, n) if c > n else (c, c))
    assert rows.gram_squared_norm == pytest.approx(float((centred.T @ centred).square().sum()))
    assert torch.allclose(rows.row_norms, centred.square().sum(1))
    assert rows.scatter == pytest.approx(float(centred.square().sum()))
    assert rows.mean_variance == pytest.approx(float(x.var(0, unbiased=False).mean()))


@pytest.mark.parametrize(("n", "c"), [(50, 8), (30, 30), (12, 30)])
def test_the_spectrum_is_the_singular_value_decomposition(n: int, c: int) -> None:
    x = matrix(n, c)
    x[:, 1] = 3.0
    x[:, 2] = x[:, 3]
    vectors, values = Rows(x).spectrum
    left, singular, _ = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    rank = min(n - 1, c - 2)
    assert vectors.shape == (n, rank)
    assert torch.allclose(values.flip(0), singular[:rank].square(), rtol=1e-9)
    kept = left[:, :rank]
    assert torch.allclose(vectors @ vectors.T, kept @ kept.T, atol=1e-9)


def test_small_directions_are_orthogonal_too() -> None:
    x = matrix(60, 6) * torch.logspace(-3, 3, 6).double()
    vectors, values = Rows(x).spectrum
    assert torch.allclose(vectors.T @ vectors, torch.eye(6).double(), atol=1e-12)
    singular = torch.linalg.svdvals(x - x.mean(0))
    assert torch.allclose(values.flip(0), singular.square(), rtol=1e-6)


def test_a_constant_matrix_has_no_spectrum() -> None:
    vectors, values = Rows(torch.ones(5, 3)).spectrum
    assert vectors.shape == (5, 0)
    assert values.shape == (0,)


def test_constant_columns_are_told_within_rounding() -> None:
    x = torch.tensor([[1e6, 0.0, 5.0, -2.0], [1e6 + 0.125, 0.0, 5.1, -2.0]], dtype=torch.float64)
    single = Rows(x, resolution=torch.finfo(torch.float32).eps)
    assert single.constant_columns.tolist() == [True, True, False, True]
    assert Rows(x).constant_columns.tolist() == [False, True, False, True]
