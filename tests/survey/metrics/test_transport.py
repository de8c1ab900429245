"""The map in the common basis is the dense one, and the best pairing is that of the solver."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.optimize import linear_sum_assignment

from survey.metrics.moments import Moments, Rows
from survey.metrics.transport import (
    CommonBasis,
    assignment_cost,
    reduced,
    transported,
)
from tests.survey.metrics.pairs import coloured, normal


def dense(before: Moments, after: Moments) -> np.ndarray:
    """Return the inner products of the mapped inputs with the outputs, from c x c matrices."""
    sx, sy = (m.covariance(m.rows.centred.T @ m.rows.centred).numpy() for m in (before, after))
    root = sqrtm(sx)
    inverse = np.linalg.inv(root)
    mapped = before.rows.centred.numpy() @ inverse @ sqrtm(root @ sy @ root) @ inverse
    inner: np.ndarray = mapped @ after.rows.centred.numpy().T
    return inner


def shrunk(rows: Rows) -> Moments:
    return rows.moments("ledoit-wolf", "relative", rows.gram_squared_norm)


@pytest.mark.parametrize(("n", "c"), [(60, 7), (30, 30), (20, 30), (12, 50)])
def test_inputs_are_mapped_as_by_the_dense_matrices(n: int, c: int) -> None:
    x, y = Rows(coloured(n, c)), Rows(coloured(n, c).relu() + 0.1 * normal(n, c, 3))
    basis = CommonBasis.of(x, y)
    before, after = (shrunk(rows) for rows in (x, y))
    # Bases differ by a rotation, which inner products with the outputs do not see.
    found = transported(basis, before, after) @ basis.outputs.T
    assert np.allclose(found.numpy(), dense(before, after), atol=1e-9)
    assert torch.allclose(basis.outputs @ basis.outputs.T, y.centred @ y.centred.T, atol=1e-12)
    norms = [float(values.square().sum()) for values in (basis.scatters, basis.output_gram)]
    assert norms == pytest.approx([x.gram_squared_norm, y.gram_squared_norm])
    assert basis.condensed(before) is basis


def score(basis: CommonBasis) -> float:
    before, after = shrunk(basis.x), shrunk(basis.y)
    cost = assignment_cost(transported(basis, before, after), basis.outputs)
    return float(1 - (cost / (2 * after.trace)) ** 0.5)


@pytest.mark.parametrize("c", [80, 81, 300])
def test_inner_products_give_the_score_of_a_triangle(
    c: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    n = 40
    x = coloured(n, c)
    for y in (x.relu(), x.relu() + normal(n, c, 3), 2 * x + 0.1 * normal(n, c, 4)):
        inputs, outputs = Rows(x), Rows(y)
        short = CommonBasis.of(inputs, outputs)
        assert short.outputs.shape[1] == 2 * n - 2
        with monkeypatch.context() as patched:
            patched.setattr("survey.metrics.transport._EMPTY", 2.0)
            whole = CommonBasis.of(inputs, outputs)
        assert whole.outputs.shape[1] == 2 * n
        assert score(short) == pytest.approx(score(whole), abs=1e-12)


def test_inner_products_do_not_hold_what_is_small() -> None:
    x, slight = coloured(40, 120), 1e-5 * coloured(40, 120, 3)
    narrow = normal(40, 5) @ normal(5, 120, 1)
    pairs = [(x, 2 * x), (x, 2 * x + slight), (narrow, x), (narrow + slight, x)]
    for before, after in pairs:
        assert CommonBasis.of(Rows(before), Rows(after)).outputs.shape[1] == 80


@pytest.mark.parametrize("affine", [False, True])
def test_a_narrow_layer_before_a_site_leaves_a_small_basis(affine: bool) -> None:
    n, c, narrow = 40, 120, 5
    wide = normal(n, narrow) @ normal(narrow, c, 1)
    x = (wide + 1e-7 * wide.std() * normal(n, c, 2)).float().double()
    inputs, outputs = Rows(x), Rows(2 * x if affine else x.relu())
    before, after = (shrunk(rows) for rows in (inputs, outputs))
    basis = CommonBasis.of(inputs, outputs)
    small = basis.condensed(before)
    assert (basis.outputs.shape, small.outputs.shape) == ((n, 2 * n), (n, narrow + n + 1))
    mapped = transported(small, before, after)
    assert np.allclose((mapped @ small.outputs.T).numpy(), dense(before, after), atol=1e-8)
    assert float(small.output_gram.square().sum()) == pytest.approx(outputs.gram_squared_norm)
    assert score(small) == pytest.approx(score(basis), abs=1e-9)


def test_inputs_off_the_span_of_the_outputs_keep_their_length() -> None:
    x = normal(20, 35, 246235)
    inputs, outputs = Rows(x), Rows(torch.tanh(x) + 0.1 * normal(20, 35, 246236))
    before, after = (shrunk(rows) for rows in (inputs, outputs))
    # Shrunk to the identity: all directions are weak, and none is small.
    assert before.gram_weight == 0
    basis = CommonBasis.of(inputs, outputs)
    small = basis.condensed(before)
    assert small.outputs.shape[1] < basis.outputs.shape[1]
    costs = [assignment_cost(transported(b, before, after), b.outputs) for b in (basis, small)]
    assert costs[1] == pytest.approx(costs[0], rel=1e-12)


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
