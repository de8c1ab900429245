"""The published measures, computed from their definitions in float64 and with nothing of ours.

Plain hooks see the activation modules, tensors are averaged by their number of axes as the
published script averages them, and each measure is written as the paper defines it: dense
matrices, symmetric square roots, a pseudo-inverse. Slow, and meant to be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.covariance import ledoit_wolf
from sklearn.linear_model import LinearRegression
from torch import nn

Matrix = NDArray[np.float64]

#: Axes averaged, by the number of axes.
AXES: dict[int, tuple[int, ...]] = {2: (), 3: (2,), 4: (2, 3)}


@dataclass
class Side:
    """All that one end of an activation, its input or its output, has shown."""

    exact: list[torch.Tensor] = field(default_factory=list)
    single: list[torch.Tensor] = field(default_factory=list)
    near: int = 0
    values: int = 0

    def add(self, tensor: torch.Tensor) -> None:
        axes = AXES[tensor.ndim]
        kept = tensor.clone()
        self.exact.append(kept.double().mean(axes) if axes else kept.double())
        # As a histogram tells two values on either side of a bin's edge apart, however close,
        # its rows must be the very numbers that a float32 average gives.
        self.single.append((kept.mean(axes) if axes else kept).double())
        self.near += int((kept.abs() <= 1e-3).sum())
        self.values += kept.numel()

    @property
    def matrix(self) -> Matrix:
        """Averages taken in float64, n x d."""
        return torch.cat(self.exact).numpy()

    @property
    def rounded(self) -> Matrix:
        """Averages taken in float32, n x d."""
        return torch.cat(self.single).numpy()

    @property
    def sparsity(self) -> float:
        """Share of unpooled values within 1e-3 of zero."""
        return self.near / self.values


@dataclass
class Call:
    """One call of one activation module, over all batches."""

    before: Side = field(default_factory=Side)
    after: Side = field(default_factory=Side)


def watch(
    model: nn.Module, batches: Iterable[torch.Tensor], kinds: tuple[type[nn.Module], ...]
) -> dict[str, Call]:
    """Return what each call of each activation module shows, in execution order."""
    calls: dict[str, Call] = {}
    numbers: dict[str, int] = {}
    handles = []

    def entered(name: str, tensor: torch.Tensor) -> None:
        numbers[name] = numbers.get(name, 0) + 1
        calls.setdefault(f"{name}#{numbers[name]}", Call()).before.add(tensor)

    def left(name: str, tensor: torch.Tensor) -> None:
        calls[f"{name}#{numbers[name]}"].after.add(tensor)

    for name, module in model.named_modules():
        if isinstance(module, kinds):
            handles += [
                module.register_forward_pre_hook(lambda _m, args, n=name: entered(n, args[0])),
                module.register_forward_hook(lambda _m, _args, out, n=name: left(n, out)),
            ]
    with torch.inference_mode():
        for batch in batches:
            numbers.clear()
            model(batch)
    for handle in handles:
        handle.remove()
    return calls


def published(call: Call) -> dict[str, float]:
    """Return every measure of one call but R2, by the name of its column."""
    x, y = call.before.matrix, call.after.matrix
    return {
        "affinity": affinity(x, y),
        "cka": cka(x, y),
        "norm": float(np.linalg.norm(x - y)),
        "sparsity_before": call.before.sparsity,
        "sparsity_after": call.after.sparsity,
        "entropy_before": entropy(call.before.rounded),
        "entropy_after": entropy(call.after.rounded),
    }


def affinity(x: Matrix, y: Matrix) -> float:
    """Evaluate 1 - W2(T X, Y) / sqrt(2 tr Sy), T = Sy^1/2 ((Sy^1/2 Sx Sy^1/2)^1/2)^+ Sy^1/2."""
    sx, sy = shrunk(x), shrunk(y)
    root = square_root(sy)
    transport = root @ np.linalg.pinv(square_root(root @ sx @ root), hermitian=True) @ root
    mapped = (x - x.mean(0)) @ transport + y.mean(0)
    cost = cdist(mapped, y, "sqeuclidean")
    distance = np.sqrt(cost[linear_sum_assignment(cost)].mean())
    return float(1 - distance / np.sqrt(2 * np.trace(sy)))


def shrunk(x: Matrix) -> Matrix:
    """Return scikit-learn's Ledoit-Wolf covariance with the published ridge."""
    covariance, _ = ledoit_wolf(x)
    return covariance + 1e-6 * np.eye(x.shape[1])


def square_root(matrix: Matrix) -> Matrix:
    """Return the symmetric square root of a symmetric positive semidefinite matrix."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.sqrt(values.clip(min=0))) @ vectors.T


def cka(x: Matrix, y: Matrix) -> float:
    """Evaluate <HKH, HLH> / (|HKH| |HLH|) with the n x n kernels K = XX' and L = YY'."""
    n = len(x)
    centring = np.eye(n) - np.ones((n, n)) / n
    k, l_ = centring @ (x @ x.T) @ centring, centring @ (y @ y.T) @ centring
    return float((k * l_).sum() / (np.linalg.norm(k) * np.linalg.norm(l_)))


def entropy(rows: Matrix) -> float:
    """Return the mean over rows of H(histogram in d bins over the row's range) + log d."""
    d = rows.shape[1]
    result = []
    for row in rows:
        shares = np.histogram(row, bins=d)[0] / d
        taken = shares[shares > 0]
        result.append(-(taken * np.log(taken)).sum() + np.log(d))
    return float(np.mean(result))


def r2(x: Matrix, y: Matrix) -> float:
    """Return the R2 of least squares on its own rows.

    The script takes scikit-learn's ``LinearRegression``, which leaves out directions of the input
    below 1e-6 of the strongest one: what they hold is the rounding of the forward pass.
    """
    return float(LinearRegression().fit(x, y).score(x, y))
