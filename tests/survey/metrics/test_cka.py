"""CKA equals the dense definition; the debiased one that of Song et al. on its kernels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from tests.survey.metrics.pairs import coloured, get, normal, why_not

Matrix = NDArray[np.float64]
SHAPES = [(60, 5), (40, 40), (30, 80), (4, 3), (4, 9)]


def dense(x: Matrix, y: Matrix) -> float:
    """Evaluate HSIC by centring dense n x n kernels: tr(K H L H)."""
    n = len(x)
    centring = np.eye(n) - np.ones((n, n)) / n

    def hsic(a: Matrix, b: Matrix) -> float:
        return float(np.trace(a @ a.T @ centring @ b @ b.T @ centring))

    return hsic(x, y) / np.sqrt(hsic(x, x) * hsic(y, y))


def unbiased(x: Matrix, y: Matrix) -> float:
    """Evaluate Song et al.'s equation 5 on dense kernels with zero diagonals."""
    n = len(x)
    k, one = [], np.ones(n)
    for matrix in (x, y):
        kernel = matrix @ matrix.T
        np.fill_diagonal(kernel, 0.0)
        k.append(kernel)
    total = np.trace(k[0] @ k[1]) + (one @ k[0] @ one) * (one @ k[1] @ one) / ((n - 1) * (n - 2))
    return float((total - 2 * (one @ k[0] @ k[1] @ one) / (n - 2)) / (n * (n - 3)))


def test_cka_equals_the_dense_definition(subtests: pytest.Subtests) -> None:
    for n, c in [*SHAPES, (2, 3), (3, 1)]:
        with subtests.test(n=n, c=c):
            x = coloured(n, c)
            y = torch.tanh(x) + 0.3 * normal(n, c, 9)
            assert get("cka", x, y) == pytest.approx(dense(x.numpy(), y.numpy()), abs=1e-10)


def test_debiased_cka_equals_the_dense_definition(subtests: pytest.Subtests) -> None:
    for n, c in SHAPES:
        with subtests.test(n=n, c=c):
            x = coloured(n, c)
            y = torch.tanh(x) + 0.3 * normal(n, c, 9)
            a, b = x.numpy(), y.numpy()
            expected = unbiased(a, b) / np.sqrt(unbiased(a, a) * unbiased(b, b))
            assert get("cka_debiased", x, y) == pytest.approx(expected, abs=1e-9)


def test_only_the_debiased_one_sees_that_matrices_have_nothing_in_common() -> None:
    x, y = normal(60, 300), normal(60, 300, 5)
    assert get("cka", x, y) > 0.7
    assert abs(get("cka_debiased", x, y)) < 0.1


def test_a_constant_side_has_no_alignment() -> None:
    x = normal(20, 3)
    for column in ("cka", "cka_debiased"):
        assert "output is the same" in why_not(column, x, torch.full_like(x, 0.1))
        assert "input is the same" in why_not(column, torch.full_like(x, 0.1), x)


def test_a_single_image_that_differs_has_no_debiased_alignment() -> None:
    x, lone = normal(20, 3), torch.zeros(20, 3)
    lone[4] = 1.0
    assert "norm of the output vanishes" in why_not("cka_debiased", x, lone)
    assert "norm of the input vanishes" in why_not("cka_debiased", lone, x)
    assert 0 < get("cka", x, lone) < 1
