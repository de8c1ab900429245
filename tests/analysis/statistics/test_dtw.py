"""Dynamic time warping: tslearn's numbers, the plain recursion's, and what must not change it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tslearn.metrics import cdist_dtw
from tslearn.metrics import dtw as tslearn_dtw
from tslearn.utils import to_time_series_dataset

from analysis.statistics import dtw as module
from analysis.statistics import dtw_kernel
from analysis.statistics.dtw import aligned_mean, dtw, dtw_path, squared_sums
from survey.errors import SettingsError

Floats = NDArray[np.float64]

CURVES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def plain(x: Sequence[float], y: Sequence[float], band: int | None = None) -> float:
    """The recursion, written down from its definition."""
    short, long = sorted((list(x), list(y)), key=len)
    n, m = len(short), len(long)
    cost = np.full((n + 1, m + 1), np.inf)
    cost[0, 0] = 0.0
    for i in range(n):
        for j in range(m):
            if band is None or i - band <= j <= i + m - n + band:
                step = min(cost[i, j + 1], cost[i + 1, j], cost[i, j])
                cost[i + 1, j + 1] = (short[i] - long[j]) ** 2 + step
    return float(np.sqrt(cost[n, m]))


@given(CURVES, CURVES, st.none() | st.integers(0, 14))
@settings(deadline=None)
def test_it_is_the_plain_recursion(x: list[float], y: list[float], band: int | None) -> None:
    assert dtw(x, y, band) == pytest.approx(plain(x, y, band), rel=1e-12, abs=1e-15)


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("band", [None, 0, 1, 2, 5, 40, 10**12])
def test_a_matrix_is_that_of_tslearn(band: int | None) -> None:
    """Unequal lengths, with and without tslearn's band, to 1e-9 and in fact to the last bit."""
    rng = np.random.default_rng(3)
    curves = [rng.random(size) for size in (1, 1, 2, 3, 7, 7, 16, 33, 90, 150)]
    theirs = cdist_dtw(to_time_series_dataset(curves), sakoe_chiba_radius=band)
    pairs = np.argwhere(np.ones((len(curves), len(curves)), dtype=bool))
    ours = np.sqrt(squared_sums(curves, pairs, band)).reshape(theirs.shape)
    assert np.abs(ours - theirs).max() <= 1e-9


@pytest.mark.slow(seconds=4)
def test_long_curves_are_those_of_tslearn() -> None:
    rng = np.random.default_rng(4)
    for n, m in ((500, 500), (50, 500), (499, 257)):
        x, y = rng.normal(size=n).cumsum(), rng.normal(size=m).cumsum()
        assert dtw(x, y) == pytest.approx(tslearn_dtw(x, y), abs=1e-9)
        assert dtw(x, y, 9) == pytest.approx(tslearn_dtw(x, y, sakoe_chiba_radius=9), abs=1e-9)


def test_of_constant_curves_it_is_known(subtests: pytest.Subtests) -> None:
    """Every path has at least max(n, m) cells, each of the same cost."""
    for n, m in [(1, 1), (1, 9), (4, 4), (3, 10)]:
        with subtests.test(n=n, m=m):
            assert dtw([0.9] * n, [0.4] * m) == pytest.approx(0.5 * max(n, m) ** 0.5)


@given(CURVES, st.lists(st.integers(1, 4), min_size=12, max_size=12))
@settings(deadline=None)
def test_a_curve_that_lingers_is_no_other(x: list[float], times: list[int]) -> None:
    assert dtw(x, np.repeat(x, times[: len(x)])) == 0.0


@given(CURVES, CURVES, st.none() | st.integers(0, 5))
@settings(deadline=None)
def test_it_knows_no_first_and_no_direction(
    x: list[float], y: list[float], band: int | None
) -> None:
    assert dtw(x, y, band) == dtw(y, x, band)
    assert dtw(x[::-1], y[::-1], band) == pytest.approx(dtw(x, y, band), abs=1e-12)


@given(CURVES, CURVES)
@settings(deadline=None)
def test_a_narrower_band_never_brings_curves_nearer(x: list[float], y: list[float]) -> None:
    distances = [dtw(x, y, band) for band in (0, 1, 3, 12)]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] == dtw(x, y)


def test_a_band_of_nothing_is_the_euclidean_distance() -> None:
    x, y = np.random.default_rng(0).random((2, 20))
    assert dtw(x, y, 0) == pytest.approx(np.linalg.norm(x - y))


def test_threads_and_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    curves = [rng.random(size) for size in rng.integers(1, 60, 40)]
    pairs = np.argwhere(np.tri(40, k=-1, dtype=bool))
    alone = squared_sums(curves, pairs)
    monkeypatch.setattr(module, "CELLS_ALONE", 0)
    for threads in (1, 2, 7):
        monkeypatch.setattr(module, "local_cores", lambda threads=threads: threads)
        assert (squared_sums(curves, pairs) == alone).all()


@pytest.mark.parametrize("band", [None, 0, 3])
def test_pairs_beside_each_other_do_not_touch(band: int | None) -> None:
    """Curves of many and few lengths, each pair as if it were alone, to the last bit."""
    rng = np.random.default_rng(2)
    curves = [rng.random(size) for size in (*rng.integers(1, 30, 25), *[9] * 10)]
    pairs = np.argwhere(np.ones((len(curves),) * 2, dtype=bool))
    alone = [squared_sums(curves, [pair], band)[0] for pair in pairs]
    assert squared_sums(curves, pairs, band).tolist() == alone


@pytest.mark.parametrize("band", [None, 3])
def test_single_precision_has_seven_digits(band: int | None) -> None:
    rng = np.random.default_rng(6)
    curves = [rng.random(size) for size in rng.integers(1, 60, 40)]
    pairs = np.argwhere(np.triu(np.ones((40, 40)), 1))
    exact = squared_sums(curves, pairs, band)
    single = squared_sums(curves, pairs, band, np.float32)
    np.testing.assert_allclose(single, exact, rtol=1e-5)
    assert (single != exact).any()


@pytest.mark.parametrize(("dtype", "size"), [(np.float64, 1e130), (np.float32, 1e15)])
def test_large_values_beside_small_ones_are_warped_too(dtype: type, size: float) -> None:
    rng = np.random.default_rng(7)
    curves = [rng.random(30) * scale for scale in (size, 1.0, 1 / size) for _ in range(3)]
    pairs = np.argwhere(np.triu(np.ones((9, 9)), 1))
    sums = squared_sums([curve[: 3 * k + 1] for k, curve in enumerate(curves)], pairs, dtype=dtype)
    for (i, j), sum_ in zip(pairs, sums, strict=True):
        wanted = plain(curves[i][: 3 * i + 1], curves[j][: 3 * j + 1])
        assert np.sqrt(sum_) == pytest.approx(wanted, rel=1e-5, abs=1e-12)


def test_without_pairs_nothing_is_computed() -> None:
    assert squared_sums([], np.empty((0, 2))).shape == (0,)


def test_what_cannot_be_is_refused(subtests: pytest.Subtests) -> None:
    for x, band, message in [
        ([], None, r"the shape \(0,\)"),
        ([[0.5, 0.5]], None, r"the shape \(1, 2\)"),
        ([0.5, np.nan], None, "not finite"),
        ([np.inf], None, "not finite"),
        ([0.5], -1, "band is -1"),
    ]:
        with (
            subtests.test(x=x, band=band, message=message),
            pytest.raises(SettingsError, match=message),
        ):
            dtw(x, [0.5], band)


def test_where_machine_code_cannot_be_kept_it_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = numba.njit

    def refuse(*functions: object, **options: object) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return made(*functions, **options)

    with monkeypatch.context() as patched:
        patched.setattr(numba, "njit", refuse)
        importlib.reload(dtw_kernel)
    assert dtw([0.0, 1.0], [0.5]) == pytest.approx(0.5**0.5)
    importlib.reload(dtw_kernel)


def test_who_needs_no_distance_pays_for_no_compiler() -> None:
    """Importing the modules brings in none of the heavy libraries."""
    heavy = ("numba", "tslearn", "sklearn", "scipy.cluster", "torch")
    names = ("signature_curve", "distances", "clusters", "stability", "neighbours")
    code = (
        f"import sys; {'; '.join(f'import analysis.similarity.{name}' for name in names)};"
        f" print([name for name in {heavy} if name in sys.modules])"
    )
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert ended.stdout.strip() == "[]"


def test_a_mean_is_taken_along_the_paths() -> None:
    """The paths are those of the other implementation, in plain Python."""
    rng = np.random.default_rng(6)
    curves, centre = [rng.random(size) for size in (1, 5, 9, 20, 20)], rng.random(20)
    on_point: list[list[float]] = [[] for _ in centre]
    for curve in curves:
        for place, point in dtw_path(curve, centre):
            on_point[point].append(curve[place])
    expected = [np.mean(values) for values in on_point]
    assert aligned_mean(curves, centre) == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("band", [None, 0, 2])
def test_a_mean_is_no_further_than_the_centre_before(band: int | None) -> None:
    rng = np.random.default_rng(7)
    curves, centre = [rng.random(size) for size in rng.integers(3, 16, 12)], rng.random(16)
    sums = [sum(dtw(c, centre, band) ** 2 for c in curves)]
    for _ in range(5):
        centre = aligned_mean(curves, centre, band)
        sums.append(sum(dtw(c, centre, band) ** 2 for c in curves))
    assert (np.diff(sums) <= 1e-12).all()
    assert sums[-1] < 0.9 * sums[0]
