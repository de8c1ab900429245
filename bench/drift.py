"""False positive rates of two tests of two means with few batches: Welch's, and the one of drift.

``python bench/drift.py`` draws batch scores of two runs with the same mean, and prints how often
each test rejects it, as a multiple of its level: 1 is exact, below is conservative, above is wrong.
It takes about half a minute.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import t as student

from analysis.statistics.p_values import unpaired_freedom

DRAWS = 2_000_000
LEVELS = (1e-2, 1e-3, 1e-4)

#: Batches of either run, and the ratio of their deviations.
CASES = ((2, 2, 1), (2, 7, 2), (3, 3, 1), (3, 30, 1), (4, 4, 2), (7, 7, 1), (7, 7, 2), (8, 30, 1))


def excess(before: int, after: int, ratio: float) -> tuple[list[float], list[float]]:
    """Return false positive rates over the level: of Welch's test, and of the one used."""
    rng = np.random.default_rng(0)
    x = ratio**2 * rng.chisquare(before - 1, DRAWS) / (before - 1)
    y = rng.chisquare(after - 1, DRAWS) / (after - 1)
    difference = rng.normal(0, np.hypot(ratio / before**0.5, after**-0.5), DRAWS)
    error, freedom = unpaired_freedom(x, before, y, after)
    parts = ((x / before) ** 2 / (before - 1), (y / after) ** 2 / (after - 1))
    statistic = np.abs(difference) / error
    rates = []
    for degrees in (error**4 / sum(parts), freedom):
        p = 2 * student.sf(statistic, degrees)
        rates.append([float(np.mean(p <= level) / level) for level in LEVELS])
    return rates[0], rates[1]


def main() -> None:
    """Print one line a case."""
    print("batches  deviations", *(f"{'at ' + format(level, 'g'):>16}" for level in LEVELS))
    for before, after, ratio in CASES:
        welch, used = excess(before, after, ratio)
        pairs = (f"{a:7.2f} -> {b:5.2f}" for a, b in zip(welch, used, strict=True))
        print(f"{before:>2} v {after:<3} {ratio:>6} to 1", *(f"{pair:>16}" for pair in pairs))


if __name__ == "__main__":
    main()
