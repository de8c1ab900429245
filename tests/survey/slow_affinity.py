"""The affinity score computed slowly, densely and independently: the yardstick of the tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.covariance import ledoit_wolf

Matrix = NDArray[np.float64]


def slow_affinity(
    x: Matrix, y: Matrix, shrinkage: str = "ledoit-wolf", ridge: str = "absolute"
) -> float:
    """Evaluate 1 - sqrt(W2^2(T X, Y) / (2 tr Sy)) with c x c roots and the n x n cost matrix."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    x, y = x - x.mean(0), y - y.mean(0)
    sx, sy = covariance(x, shrinkage, ridge), covariance(y, shrinkage, ridge)
    root = power(sy, 0.5)
    transport = root @ power(root @ sx @ root, -0.5) @ root
    mapped = x @ transport
    cost = ((mapped[:, None, :] - y[None, :, :]) ** 2).sum(-1)
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
