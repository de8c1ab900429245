"""The map in the common basis is the dense one, and the best pairing is that of the solver."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment

from survey.metrics.moments import Rows
from survey.metrics.transport import (
    CommonBasis,
    assignment_cost,
    reduced,
    transported,
)
from tests.survey.metrics.pairs import coloured, normal


@pytest.mark.parametrize(("n", "c"), [(60, 7), (30, 30), (20, 30), (12, 50)])
def test_inputs_are_mapped_as_by_the_dense_matrices(n: int, c: int) -> None:
    x, y = Rows(coloured(n, c)), Rows(coloured(n, c).relu() + 0.1 * normal(n, c, 3))
    basis = CommonBasis(x, y)
    before, after = (rows.moments("ledoit-wolf", "relative") for rows in (x, y))
    sx, sy = (m.covariance(m.rows.centred.T @ m.rows.centred).numpy() for m in (before, after))
    root = sqrtm(sx)
    inverse = np.linalg.inv(root)
    mapped = x.centred.numpy() @ inverse @ sqrtm(root @ sy @ root) @ inverse
    # Bases differ by a rotation, which inner products with the outputs do not see.
    found = transported(basis, before, after) @ basis.outputs.T
    assert np.allclose(found.numpy(), mapped @ y.centred.numpy().T, atol=1e-9)
    assert torch.allclose(basis.outputs @ basis.outputs.T, y.centred @ y.centred.T, atol=1e-12)


def test_the_best_pairing_may_not_be_the_given_one() -> None:
    x = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64)
    assert assignment_cost(x, x.flip(0)) == 0
    assert assignment_cost(x, x + 0.5) == pytest.approx(0.25, abs=1e-15)


@given(
    n=st.integers(1, 30),
    c=st.integers(1, 4),
    noise=st.floats(0, 1),
    seed=st.integers(0, 10**6),
)
def test_the_cost_is_the_solvers(n: int, c: int, noise: float, seed: int) -> None:
    # Whole numbers have ties; noise decides how often another pairing is better.
    x = normal(n, c, seed).mul(3).round()
    y = x + (4 * noise * normal(n, c, seed + 1)).round()
    costs = torch.cdist(x, y).square().numpy()
    rows, partners = linear_sum_assignment(costs)
    least = float(costs[rows, partners].sum())
    assert assignment_cost(x, y) == pytest.approx(least / n, abs=1e-9)


def test_reduced_costs_leave_pairings_the_same_distance_apart() -> None:
    x = normal(20, 5)
    costs = -(x @ x.relu().T)
    left = reduced(costs.clone())
    assert bool((left >= 0).all())
    assert bool((left.amin(dim=0) == 0).all())
    one, other = (torch.randperm(20, generator=torch.Generator().manual_seed(k)) for k in (0, 1))
    i = torch.arange(20)
    difference = costs[i, one].sum() - costs[i, other].sum()
    assert float(left[i, one].sum() - left[i, other].sum()) == pytest.approx(float(difference))


def test_a_monotone_map_leaves_no_cost_of_the_given_pairing() -> None:
    x = normal(300, 50)
    assert bool((reduced(-(x @ x.relu().T)).diagonal() == 0).all())
    assert bool((reduced(-(x @ x.flip(0).T)).diagonal() > 0).any())
