"""Level of the test of partial correlations where the architectures of a family are alike.

``python bench/partial_correlations.py [DRAWS] [ALIKE]`` simulates zoos, 1,000 of each size by
default, and prints how often p is at most 0.05. Two numbers follow three others, and nothing else
relates them. All five, given the three, have an intraclass correlation of ALIKE, by default 0.8.
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from analysis.statistics.partial_correlation import partial_correlation

#: Numbers of families, and of architectures in each.
SIZES = ((4, 4), (6, 4), (8, 4), (10, 6))

#: The share of the variance that is among families, and how many numbers are held constant.
ALIKE, OTHERS = 0.8, 3


def rejected(
    families: int, members: int, draws: int, permutations: int = 199, alike: float = ALIKE
) -> float:
    """Return the share of zoos without a partial correlation whose p is at most 0.05."""
    rng = np.random.default_rng(5)
    family = np.repeat(np.arange(families), members)

    def drawn(*shape: int) -> NDArray[np.float64]:
        shared = rng.normal(size=(families, *shape))[family]
        return np.asarray(alike**0.5 * shared + (1 - alike) ** 0.5 * rng.normal(size=shared.shape))

    count = 0
    for _ in range(draws):
        given = drawn(OTHERS)
        x, y = (given @ rng.normal(size=OTHERS) + drawn() for _ in range(2))
        result = partial_correlation(x, y, given, family, permutations, 0)
        count += result is not None and result.p <= 0.05
    return count / draws


def main(draws: int = 1000, alike: float = ALIKE) -> None:
    """Print one line a number of families and of their architectures."""
    for families, members in SIZES:
        share = rejected(families, members, draws, alike=alike)
        print(f"{families:2} families of {members}: p at most 0.05 in {share:.3f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]), *map(float, sys.argv[2:3]))
