"""The score agrees with a slow computation, with closed forms, and refuses what has no score."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from survey import InputError, SettingsError, UndefinedScore, affinity_score
from survey.metrics.affinity import affinity
from survey.metrics.moments import Rows
from survey.metrics.transport import CommonBasis
from survey.settings import Ridge
from tests.survey.metrics.pairs import coloured, normal
from tests.survey.slow_affinity import exact_affinity, slow_affinity

SHRINKAGES = ("ledoit-wolf", "none")
#: sigma, and rho of sigma on independent standard normal coordinates.
CLOSED_FORMS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float]] = {
    "relu": (functional.relu, 0.6211),
    "relu6": (functional.relu6, 0.6211),
    "leaky_relu": (functional.leaky_relu, 0.6271),
    "gelu": (functional.gelu, 0.6133),
    "silu": (functional.silu, 0.6738),
    "hardswish": (functional.hardswish, 0.6949),
    "tanh": (torch.tanh, 0.8119),
    "sigmoid": (torch.sigmoid, 0.9108),
}
#: rho of ReLU on N(mu, 1).
SHIFTED_RELU = {-2.0: 0.1642, -1.0: 0.3728, 1.0: 0.8291, 2.0: 0.9480, 4.0: 0.9988}


def raw(x: torch.Tensor, y: torch.Tensor, shrinkage: str, ridge: str = "relative") -> float:
    return affinity(CommonBasis.of(Rows(x), Rows(y)), shrinkage, ridge)  # type: ignore[arg-type]


def test_agrees_with_the_slow_dense_computation(subtests: pytest.Subtests) -> None:
    for n, c, shrinkage in [
        *((n, c, "ledoit-wolf") for n, c in [(200, 12), (64, 64), (40, 60), (24, 100), (2, 3)]),
        *((n, c, "none") for n, c in [(200, 12), (100, 40), (9, 1)]),
    ]:
        for ridge in ["absolute", "relative"]:
            with subtests.test(ridge=ridge, n=n, c=c, shrinkage=shrinkage):
                x = coloured(n, c)
                y = functional.gelu(x + 0.3 * normal(n, c, 9))
                slow = slow_affinity(x.numpy(), y.numpy(), shrinkage, ridge)
                assert raw(x, y, shrinkage, ridge) == pytest.approx(slow, abs=1e-9)


@pytest.mark.parametrize(("n", "c"), [(12, 12), (14, 12), (12, 20), (8, 20)])
def test_agrees_with_50_digits_where_covariances_are_singular_but_for_the_ridge(
    n: int, c: int
) -> None:
    x = coloured(n, c)
    y = functional.gelu(x + 0.3 * normal(n, c, 9))
    exact = exact_affinity(x.numpy(), y.numpy())
    assert raw(x, y, "none", "absolute") == pytest.approx(exact, abs=1e-9)


@given(
    n=st.integers(4, 40),
    c=st.integers(1, 50),
    scale=st.floats(0.05, 50),
    shift=st.floats(-2, 2),
    seed=st.integers(0, 10**6),
)
def test_agrees_for_any_shape_and_scale(
    n: int, c: int, scale: float, shift: float, seed: int
) -> None:
    x = normal(n, c, seed) * scale + shift
    y = torch.tanh(x) + 0.1 * normal(n, c, seed + 1)
    assert raw(x, y, "ledoit-wolf") == pytest.approx(slow_affinity(x.numpy(), y.numpy()), abs=1e-6)


def test_the_wide_path_agrees_with_the_slow_one_on_low_variance() -> None:
    x = coloured(20, 150) * 1e-2
    y = x.relu()
    assert raw(x, y, "ledoit-wolf") == pytest.approx(slow_affinity(x.numpy(), y.numpy()), abs=1e-9)


def test_far_more_channels_than_images_never_build_c_by_c() -> None:
    x = torch.randn(64, 20_000, generator=torch.Generator().manual_seed(0))
    largest = _largest_allocation(lambda: affinity_score(x, x.relu()))
    # A handful of 64 x 20,000 float64 matrices; 20,000 x 20,000 would be 3.2 GB.
    assert largest < 64 * 20_000 * 8 * 3


def _largest_allocation(run: Callable[[], object]) -> int:
    """Return the bytes of the largest tensor any operation returned."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    sizes = [0]

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            sizes.extend(t.nbytes for t in tree_leaves(out) if isinstance(t, torch.Tensor))
            return out

    with Watch():
        run()
    return max(sizes)


def test_closed_forms(subtests: pytest.Subtests) -> None:
    for name, (function, rho) in CLOSED_FORMS.items():
        with subtests.test(name=name):
            x = normal(1000, 20)
            assert affinity_score(x, function(x)) == pytest.approx(rho, abs=0.02)


def test_closed_forms_of_shifted_relu(subtests: pytest.Subtests) -> None:
    for mu, rho in SHIFTED_RELU.items():
        with subtests.test(mu=mu):
            x = normal(1000, 20) + mu
            assert affinity_score(x, x.relu()) == pytest.approx(rho, abs=0.02)


def test_the_identity_is_affine(subtests: pytest.Subtests) -> None:
    for n, c in [(200, 12), (64, 64), (70, 64), (40, 60), (16, 500)]:
        for shrinkage in SHRINKAGES:
            with subtests.test(shrinkage=shrinkage, n=n, c=c):
                x = coloured(n, c)
                assert affinity_score(x, x, shrinkage) == pytest.approx(1, abs=1e-7)  # type: ignore[arg-type]


def test_a_scalar_affine_map_is_affine(subtests: pytest.Subtests) -> None:
    for slope in [1.0, 2.5, 30.0, 1000.0]:
        for shrinkage in SHRINKAGES:
            with subtests.test(shrinkage=shrinkage, slope=slope):
                x = normal(300, 20)
                y = slope * x + 7
                assert affinity_score(x, y, shrinkage) == pytest.approx(1, abs=1e-5)  # type: ignore[arg-type]


@given(c=st.integers(1, 12), extra=st.integers(0, 60), seed=st.integers(0, 10**6))
def test_every_positive_definite_affine_map_is_affine(c: int, extra: int, seed: int) -> None:
    n = max(8 * c, 2) + extra
    x = normal(n, c, seed)
    directions = torch.linalg.qr(normal(c, c, seed + 1)).Q
    slopes = 0.2 + 5 * torch.rand(c, generator=torch.Generator().manual_seed(seed)).double()
    y = x @ (directions * slopes @ directions.T) + normal(1, c, seed + 2)
    assert affinity_score(x, y, "none") == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("c", [10, 300])
def test_the_order_of_images_does_not_matter(c: int) -> None:
    x = coloured(100, c)
    y = torch.tanh(x)
    order = torch.randperm(100, generator=torch.Generator().manual_seed(4))
    rho = affinity_score(x, y)
    assert affinity_score(x[order], y[order]) == pytest.approx(rho, abs=1e-10)
    assert affinity_score(x, y[order]) == pytest.approx(rho, abs=1e-10)


def test_a_rotation_of_channels_and_a_common_scale_do_not_matter() -> None:
    x = coloured(150, 10)
    y = functional.gelu(x)
    turn = torch.linalg.qr(normal(10, 10, 3)).Q
    rho = affinity_score(x, y)
    assert affinity_score(x @ turn, y @ turn) == pytest.approx(rho, abs=1e-9)
    assert affinity_score(x * 1e-4, y * 1e-4) == pytest.approx(rho, abs=1e-9)


@pytest.mark.parametrize("shrinkage", SHRINKAGES)
@pytest.mark.parametrize("shape", [(150, 10), (20, 40)])
def test_the_score_is_that_of_every_scale(shape: tuple[int, int], shrinkage: str) -> None:
    x = coloured(*shape)
    y = functional.gelu(x)
    rho = affinity_score(x, y, shrinkage)  # type: ignore[arg-type]
    for factor in (1e-300, 1e-200, 1e-100, 1e-61, 1e-12, 1e-6, 1e6, 1e61, 1e200, 1e300):
        scaled = affinity_score(factor * x, factor * y, shrinkage)  # type: ignore[arg-type]
        assert scaled == pytest.approx(rho, abs=1e-9), factor
    for factor in (1e-12, 1e6):
        single = affinity_score((factor * x).float(), (factor * y).float(), shrinkage)  # type: ignore[arg-type]
        assert single == pytest.approx(rho, abs=1e-6), factor


def test_the_published_ridge_decides_the_score_of_small_activations() -> None:
    x = coloured(150, 10)
    scores = [affinity_score(f * x, f * x.relu(), ridge="absolute") for f in (1, 1e-4, 1e-200)]
    assert scores[0] == pytest.approx(affinity_score(x, x.relu()), abs=1e-5)
    assert scores[1] > scores[0] + 0.05
    assert scores[2] == 1


def test_numpy_torch_float32_and_whole_numbers_are_all_taken() -> None:
    x = coloured(80, 6)
    y = x.relu()
    rho = affinity_score(x, y)
    assert affinity_score(x.numpy(), y.numpy()) == rho
    assert affinity_score(x.float(), y.float().numpy()) == pytest.approx(rho, abs=1e-5)
    assert affinity_score(x.clone().requires_grad_(), y) == rho
    whole = (10 * x).round()
    assert affinity_score(whole.long(), whole.relu().numpy().astype(np.int16)) == pytest.approx(
        affinity_score(whole, whole.relu()), abs=1e-12
    )


def test_the_arguments_are_left_as_they_were() -> None:
    x = coloured(30, 4)
    before = x.clone()
    affinity_score(x, x)
    assert torch.equal(x, before)


def test_wrong_shapes_are_named(subtests: pytest.Subtests) -> None:
    for x, y, message in [
        (torch.randn(4, 3), torch.randn(4, 2), r"\(4, 3\).*\(4, 2\)"),
        (torch.randn(4, 3), torch.randn(5, 3), "one shape"),
        (torch.randn(1, 3), torch.randn(1, 3), "at least 2 images"),
        (torch.randn(0, 3), torch.randn(0, 3), "at least 2 images"),
        (torch.randn(4, 0), torch.randn(4, 0), "1 channel"),
        (torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2), "n x c"),
        (torch.randn(4), torch.randn(4), "n x c"),
        (torch.randn(4, 3, dtype=torch.complex64), torch.randn(4, 3), "real"),
    ]:
        with subtests.test(x=x, y=y, message=message), pytest.raises(InputError, match=message):
            affinity_score(x, y)


def test_values_that_are_not_finite_have_no_score(subtests: pytest.Subtests) -> None:
    for where in ["x", "y"]:
        for value in [math.nan, math.inf, -math.inf]:
            with subtests.test(value=value, where=where):
                x, y = normal(20, 3), normal(20, 3)
                (x if where == "x" else y)[3, 1] = value
                with pytest.raises(UndefinedScore) as caught:
                    affinity_score(x, y)
                assert caught.value.status == "nonfinite"


def test_a_constant_output_has_no_score(subtests: pytest.Subtests) -> None:
    for dtype in [torch.float32, torch.float64]:
        for value in [0.0, 0.1, -1e6]:
            with subtests.test(value=value, dtype=dtype):
                with pytest.raises(UndefinedScore) as caught:
                    affinity_score(normal(20, 3), torch.full((20, 3), value, dtype=dtype))
                assert caught.value.status == "constant"


def test_a_small_variance_on_a_large_mean_is_not_constant() -> None:
    x = normal(200, 3)
    assert affinity_score(x, 1e3 + 1e-2 * x.relu()) < 0.8


def test_a_value_outside_the_range_is_an_error_with_the_raw_value() -> None:
    # One outlier makes Ledoit and Wolf shrink the input's only direction far below its empirical
    # variance; the output's, of two equal heaps, is not shrunk at all.
    x, y = torch.zeros(8, 20, dtype=torch.float64), torch.zeros(8, 20, dtype=torch.float64)
    x[0, 0], y[:4, 0], y[4:, 0] = 1, 1, -1
    value = slow_affinity(x.numpy(), y.numpy())
    assert value < -0.1
    with pytest.raises(UndefinedScore, match=r"n=8, c=20") as caught:
        affinity_score(x, y)
    assert caught.value.status == "out_of_range"
    assert caught.value.raw == pytest.approx(value, abs=1e-9)
    assert caught.value.hint


@given(n=st.integers(2, 12), c=st.integers(1, 40), seed=st.integers(0, 10**6))
def test_unshrunk_the_formula_never_leaves_the_range(n: int, c: int, seed: int) -> None:
    # T Sx T = Sy and the empirical covariances lie below Sx and Sy, so that even pairing at
    # random costs at most 2 tr Sy.
    x = normal(n, c, seed)
    y = -(x**3).relu() + 1e-3 * normal(n, c, seed + 1)
    assert -1e-9 <= raw(x, y, "none") <= 1


def test_overflow_is_told(subtests: pytest.Subtests) -> None:
    for shrinkage in SHRINKAGES:
        for scale in [1e160, 1e200]:
            with subtests.test(scale=scale, shrinkage=shrinkage):
                x = normal(50, 5) * scale
                with pytest.raises(UndefinedScore) as caught:
                    affinity_score(x, x.relu(), shrinkage, ridge="absolute")  # type: ignore[arg-type]
                assert caught.value.status in ("failed", "out_of_range")


@pytest.mark.parametrize("ridge", ["absolute", "relative"])
def test_a_constant_input_has_no_score(ridge: Ridge) -> None:
    with pytest.raises(UndefinedScore, match="input is the same") as caught:
        affinity_score(torch.ones(50, 5), normal(50, 5), ridge=ridge)
    assert caught.value.status == "constant"


def test_unknown_settings_are_named() -> None:
    x = normal(10, 2)
    with pytest.raises(SettingsError, match=r"'lw'.*ledoit-wolf"):
        affinity_score(x, x, "lw")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"'big'.*relative"):
        affinity_score(x, x, ridge="big")  # type: ignore[arg-type]
