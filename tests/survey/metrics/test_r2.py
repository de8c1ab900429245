"""R2 equals scikit-learn's; the held-out one is what leaving out one image at a time gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneOut

from survey.metrics import r2
from survey.metrics.pair import Pair
from tests.survey.metrics.pairs import coloured, get, normal, why_not


def published(x: torch.Tensor, y: torch.Tensor) -> float:
    fit = LinearRegression().fit(x.numpy(), y.numpy())
    return float(r2_score(y.numpy(), fit.predict(x.numpy())))


def left_out(x: torch.Tensor, y: torch.Tensor, penalty: float) -> float:
    """Fit to all images but one, n times, and compare with the mean of all but one."""
    a, b = x.numpy(), y.numpy()
    errors = spread = 0.0
    for train, test in LeaveOneOut().split(a):
        fit = Ridge(penalty).fit(a[train], b[train])
        errors += ((b[test] - fit.predict(a[test])) ** 2).sum()
        spread += ((b[test] - b[train].mean(0)) ** 2).sum()
    return 1 - errors / spread


@pytest.mark.parametrize(("n", "c"), [(60, 5), (60, 40), (30, 1), (9, 6)])
def test_in_sample_it_equals_scikit_learn(n: int, c: int) -> None:
    x = coloured(n, c)
    y = torch.tanh(x) + 0.2 * normal(n, c, 9)
    assert get("r2", x, y) == pytest.approx(published(x, y), abs=1e-8)


@pytest.mark.parametrize(("n", "c"), [(60, 12), (20, 40)])
def test_dead_repeated_and_constant_channels_are_as_in_scikit_learn(n: int, c: int) -> None:
    x = coloured(n, c)
    x[:, 1] = 0.0
    x[:, 2] = x[:, 3]
    # Of the wide matrix only a few directions are left.
    x[:, 9:] = 0.0
    y = torch.tanh(x) + 0.2 * normal(n, c, 9)
    y[:, 0] = 0.0
    y[:, 4] = 1.0
    assert get("r2", x, y) == pytest.approx(published(x, y), abs=1e-8)
    assert get("r2", x, y) < 0.999


@pytest.mark.parametrize(("n", "c"), [(10, 9), (10, 10), (10, 11), (10, 100), (2, 1)])
def test_it_saturates_once_channels_reach_the_images_less_one(n: int, c: int) -> None:
    assert get("r2", coloured(n, c), normal(n, c, 9)) == 1.0
    if c == 9:
        assert get("r2", coloured(n + 1, c), normal(n + 1, c, 9)) < 1.0


@pytest.mark.parametrize("penalty", [1e-3, 0.5, 40.0])
@pytest.mark.parametrize(("n", "c"), [(20, 4), (12, 12), (12, 11), (8, 30)])
def test_held_out_it_equals_leaving_out_one_image_at_a_time(
    n: int, c: int, penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = coloured(n, c)
    y = torch.tanh(x) + 0.2 * normal(n, c, 9)
    y[:, 0] = 0.0
    monkeypatch.setattr(r2, "best_penalty", lambda *_: torch.tensor(penalty).double())
    assert get("r2_heldout", x, y) == pytest.approx(left_out(x, y, penalty), rel=1e-6)


def test_wide_inputs_of_low_rank_are_left_out_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(15, 4) @ normal(4, 40, 2)
    y = torch.tanh(x)
    monkeypatch.setattr(r2, "best_penalty", lambda *_: torch.tensor(0.7).double())
    assert get("r2_heldout", x, y) == pytest.approx(left_out(x, y, 0.7), abs=1e-8)


@pytest.mark.parametrize(("n", "c"), [(40, 6), (25, 60)])
def test_the_penalty_has_the_least_generalised_cross_validation_error(n: int, c: int) -> None:
    x = coloured(n, c)
    y = torch.tanh(x) + 0.3 * normal(n, c, 9)
    xc, yc = (x - x.mean(0)).numpy(), (y - y.mean(0)).numpy()

    def error(penalty: float) -> float:
        hat = xc @ np.linalg.solve(xc.T @ xc + penalty * np.eye(c), xc.T)
        return float(((yc - hat @ yc) ** 2).sum() / (n - 1 - np.trace(hat)) ** 2)

    pair = Pair(x, y)
    _, strengths = pair.x.spectrum
    explained = pair.once(r2.loadings).square().sum(dim=1)
    chosen = float(r2.best_penalty(n, strengths, explained, pair.y.scatter))
    tried = (torch.logspace(*r2.PENALTIES, dtype=torch.float64) * strengths.mean()).tolist()
    assert error(chosen) <= min(error(penalty) for penalty in tried if penalty > 1e-3) * (1 + 1e-9)
    assert min(tried) < chosen < max(tried)


@pytest.mark.parametrize("c", [20, 100, 300])
def test_held_out_it_is_what_new_images_give(c: int) -> None:
    mixing = normal(c, c, 1) / c**0.5
    x = normal(2200, c) @ mixing
    y = x.relu()
    n = 200
    pair = Pair(x[:n], y[:n])
    _, strengths = pair.x.spectrum
    explained = pair.once(r2.loadings).square().sum(dim=1)
    penalty = float(r2.best_penalty(n, strengths, explained, pair.y.scatter))
    fit = Ridge(penalty).fit(x[:n].numpy(), y[:n].numpy())
    fresh = r2_score(y[n:].numpy(), fit.predict(x[n:].numpy()), multioutput="variance_weighted")
    assert get("r2_heldout", x[:n], y[:n]) == pytest.approx(fresh, abs=0.04)
    assert get("r2", x[:n], y[:n]) > fresh + 0.02


def test_a_linear_map_is_explained_on_images_left_out_too() -> None:
    # The outputs follow the weakest direction of the inputs.
    x = coloured(60, 6) * torch.logspace(-0.5, 0.5, 6).double()
    y = x[:, :1].expand(-1, 6) + 3.0
    assert get("r2", x, y) == pytest.approx(1, abs=1e-9)
    assert get("r2_heldout", x, y) == pytest.approx(1, abs=1e-4)


def test_noise_is_not_explained_on_images_left_out() -> None:
    assert get("r2_heldout", normal(60, 50), normal(60, 50, 4)) == pytest.approx(0, abs=0.03)
    assert get("r2", normal(60, 50), normal(60, 50, 4)) > 0.8


def test_a_channel_that_fires_once_is_no_breakdown() -> None:
    x = normal(40, 5)
    x[:, 2] = 0.0
    x[7, 2] = 3.0
    assert 0 < get("r2_heldout", x, x.relu()) < 1


def test_a_constant_side() -> None:
    x = normal(20, 3)
    alike = torch.full_like(x, 0.1)
    for column in ("r2", "r2_heldout"):
        assert "input is the same" in why_not(column, alike, x)
        assert "output is the same" in why_not(column, x, alike)
        assert "underflows" in why_not(column, 1e-200 * x, x)
