"""Level of the test and coverage of the interval of correlations between dependent sites.

``python bench/correlations.py [DRAWS]`` simulates pairs of networks (1,000 of each kind unless
told) and prints, for each kind and true correlation, how often the test rejects at 5 % and how
often the 95 % interval holds the truth. A series is an autoregression; its name has the
coefficients at lag 1 and, where there are two, at lag 2. A pair is one of

- regression: y = r x + noise, with the series of x and of the noise;
- shared: x and y each the sum of a shared series and of one of its own;
- innovations: x and y of order 1, innovations correlated, in the same step alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from analysis.statistics.correlation_interval import correlation_interval
from analysis.statistics.effective_size import effective_pairs
from analysis.statistics.pearson import correlation_p, pearson

Series = tuple[float, ...]

#: Steps after which an autoregression has forgotten its start.
FORGOTTEN = 300

#: Coefficients of a series: from alternation to persistence, and with 0 at lag 1 and 0.95 at lag 2.
LAGS: list[Series] = [(-0.6,), (0.0,), (0.3,), (0.6,), (0.8,), (0.9,), (0.0, 0.95)]
SITES = (49, 150)
TRUTHS = (0.0, 0.3, 0.6, 0.8)

#: A persistent series beside others.
UNLIKE: list[tuple[Series, Series]] = [
    *(((0.9,), other) for other in LAGS if other != (0.9,)),
    ((0.0, 0.95), (0.0,)),
]
KINDS: list[tuple[str, list[Series]]] = [
    *(("regression", [each, each]) for each in LAGS),
    *(("regression", list(each)) for one, other in UNLIKE for each in ((one, other), (other, one))),
    ("shared", [(0.9,), (0.0,), (0.0,)]),
    ("shared", [(0.9,), (0.0,), (-0.6,)]),
    ("shared", [(0.9,), (0.6,), (0.0,)]),
    ("shared", [(0.0,), (0.9,), (0.9,)]),
    ("shared", [(0.0,), (0.9,), (0.0,)]),
    ("shared", [(0.6,), (0.9,), (-0.6,)]),
    ("innovations", [(0.9,), (0.8,)]),
    ("innovations", [(0.9,), (0.6,)]),
    ("innovations", [(0.9,), (0.0,)]),
]


def series(coefficients: Series, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return an autoregression of unit variance, n values of it."""
    filters = [1.0, *(-each for each in coefficients)]
    response = lfilter([1.0], filters, np.eye(1, 4000)[0])
    drawn = lfilter([1.0], filters, rng.normal(size=n + FORGOTTEN))[FORGOTTEN:]
    return np.asarray(drawn / np.linalg.norm(response), float)


def pair(
    kind: str, lags: list[Series], truth: float, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return two series whose processes have the correlation."""
    if kind == "innovations":
        (a,), (b,) = lags
        one, other = rng.normal(size=(2, n + FORGOTTEN))
        together = innovations_correlation(a, b, truth)
        other = together * one + (1 - together**2) ** 0.5 * other
        filtered = [lfilter([1.0], [1.0, -lag], e) for lag, e in ((a, one), (b, other))]
        return filtered[0][FORGOTTEN:], filtered[1][FORGOTTEN:]
    first, *rest = (series(each, n, rng) for each in lags)
    if kind == "regression":
        return first, truth * first + (1 - truth**2) ** 0.5 * rest[0]
    x, y = (truth**0.5 * first + (1 - truth) ** 0.5 * each for each in rest)
    return x, y


def innovations_correlation(a: float, b: float, truth: float) -> float:
    """Return the correlation of innovations that gives series of lags a and b theirs."""
    return float(truth * (1 - a * b) / ((1 - a * a) * (1 - b * b)) ** 0.5)


def trial(
    kind: str, lags: list[Series], truth: float, n: int, draws: int
) -> tuple[float, float, float]:
    """Return how often the test rejects and the interval holds, and the interval's mean length."""
    rng, rejected, held, length = np.random.default_rng(n), 0, 0, 0.0
    for _ in range(draws):
        x, y = pair(kind, lags, truth, n, rng)
        low, high = correlation_interval(x, y)
        rejected += correlation_p(pearson(x, y), effective_pairs(x, y)) < 0.05
        held += low <= truth <= high
        length += high - low
    return rejected / draws, held / draws, length / draws


def possible(kind: str, lags: list[Series]) -> Iterable[float]:
    """Return the true correlations that a kind of pair can have."""
    if kind != "innovations":
        return TRUTHS
    (a,), (b,) = lags
    return [truth for truth in TRUTHS if innovations_correlation(a, b, truth) < 1]


def line(case: tuple[str, list[Series], int], draws: int) -> str:
    """Return the figures of a kind of pair and a number of sites, at every truth."""
    kind, lags, n = case
    results = [(truth, *trial(kind, lags, truth, n, draws)) for truth in possible(kind, lags)]
    figures = "  ".join(f"{r:.1f}: {p:.2f} {held:.3f} {w:.2f}" for r, p, held, w in results)
    names = " | ".join(", ".join(f"{each:g}" for each in lag) for lag in lags)
    return f"{kind:<12}{names:<20}{n:>4}  {figures}"


def main(draws: int = 1000) -> None:
    """Print one line a kind of pair and number of sites."""
    print("kind        lags               sites  truth: share rejected, share held, mean length")
    cases = [(kind, lags, n) for n in SITES for kind, lags in KINDS]
    with ProcessPoolExecutor() as pool:
        for each in pool.map(partial(line, draws=draws), cases):
            print(each, flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
