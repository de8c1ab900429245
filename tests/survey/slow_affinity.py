"""The affinity score computed slowly, densely and independently: the yardstick of the tests."""

from __future__ import annotations

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf

Matrix = NDArray[np.float64]


def slow_affinity(
    x: Matrix, y: Matrix, shrinkage: str = "ledoit-wolf", ridge: str = "relative"
) -> float:
    """Evaluate 1 - sqrt(W2^2(T X, Y) / (2 tr Sy)) with c x c roots and the n x n cost matrix."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    x, y = x - x.mean(0), y - y.mean(0)
    sx, sy = covariance(x, shrinkage, ridge), covariance(y, shrinkage, ridge)
    root = power(sy, 0.5)
    transport = root @ power(root @ sx @ root, -0.5) @ root
    mapped = x @ transport
    cost = cdist(mapped, y, "sqeuclidean")
    rows, columns = linear_sum_assignment(cost)
    return float(1 - np.sqrt(cost[rows, columns].mean() / (2 * np.trace(sy))))


def covariance(x: Matrix, shrinkage: str, ridge: str) -> Matrix:
    """Return the c x c covariance of mean-free rows, shrunk and ridged as asked."""
    n, c = x.shape
    sigma = ledoit_wolf(x, assume_centered=True)[0] if shrinkage != "none" else x.T @ x / (n - 1)
    floor = 1e-6 if ridge == "absolute" else 1e-6 * (x**2).sum() / (n * c)
    return sigma + floor * np.eye(c)


def power(matrix: Matrix, exponent: float) -> Matrix:
    """Return a power of a symmetric positive definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * values**exponent) @ vectors.T


def exact_affinity(x: Matrix, y: Matrix) -> float:
    """Evaluate the unshrunk formula in 50 digits, where float64 roots of c x c would not do."""
    with mpmath.workdps(50):
        xs, ys = _centred(x), _centred(y)
        n, c = x.shape
        ridge = mpmath.mpf("1e-6") * mpmath.eye(c)
        sx, sy = xs.T * xs / (n - 1) + ridge, ys.T * ys / (n - 1) + ridge
        root = _exact_power(sy, 0.5)
        mapped = xs * (root * _exact_power(root * sx * root, -0.5) * root)
        cost = [
            [mpmath.fsum((mapped[i, k] - ys[j, k]) ** 2 for k in range(c)) for j in range(n)]
            for i in range(n)
        ]
        pairs = zip(*linear_sum_assignment(np.array(cost, dtype=float)), strict=True)
        total = mpmath.fsum(cost[i][j] for i, j in pairs) / n
        return float(1 - mpmath.sqrt(total / (2 * mpmath.fsum(sy[k, k] for k in range(c)))))


def _centred(x: Matrix) -> mpmath.matrix:
    exact = mpmath.matrix(x.tolist())
    for column in range(exact.cols):
        mean = mpmath.fsum(exact[:, column]) / exact.rows
        for row in range(exact.rows):
            exact[row, column] -= mean
    return exact


def _exact_power(matrix: mpmath.matrix, exponent: float) -> mpmath.matrix:
    values, vectors = mpmath.eigsy(matrix)
    return vectors * mpmath.diag([value**exponent for value in values]) * vectors.T
