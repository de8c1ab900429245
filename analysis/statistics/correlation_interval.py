r"""The interval of a correlation between two series whose values depend on each other.

Fisher's z of an effective size is right for series of like autocorrelations. Where one is more
persistent, its sample varies less than the process does, which moves r itself: the interval is
then centred wrongly, and its two arms are not of one length. So the series are taken for two
mixtures of two independent autoregressions u and v,

    x = a u + b v,    y = c u + d v,

as in the separation of sources by their autocorrelations [1]_. Series that depend on each other
either way (y = c x + noise, x = a y + noise) are such mixtures, and so are two of like
autocorrelations (by their sum and difference). Before the data the mixtures have the invariant
prior |ad - bc|^-2, the first partial autocorrelation p of u and of v (1 - p^2)^-1/4, in the
exponent half the way from uniform to the reference prior [2]_.

The interval holds 97.5 % of what the correlation of the processes may then be, given the samples.
Of 49 values with a lag correlation of 0.9 some five are independent: 95 % of it held in 0.89 to
0.98 of simulated pairs, which as little as a series tells can hardly make equal.

Where three unlike series mix, two sources move r where nothing hides it. Fisher's interval of the
effective size [3]_ does not move it, and is held too: it adds to the length where the two disagree.
``bench/correlations.py`` simulates how often intervals hold.

References
----------
.. [1] A. Belouchrani, K. Abed-Meraim, J.-F. Cardoso and E. Moulines, "A Blind Source Separation
   Technique Using Second-Order Statistics", IEEE Transactions on Signal Processing 45 (1997),
   doi:10.1109/78.554307.
.. [2] J. O. Berger and R.-Y. Yang, "Noninformative Priors and Bayesian Testing for the AR(1)
   Model", Econometric Theory 10 (1994), doi:10.1017/S026646660000863X.
.. [3] R. A. Fisher, "On the 'Probable Error' of a Coefficient of Correlation Deduced from a Small
   Sample", Metron 1 (1921), 3-32; of ``analysis.statistics.effective_size``.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaincinv, ndtri

from analysis.array_types import Floats, Integers
from analysis.statistics.autoregressions import Autoregressions, autoregressions, normalised
from analysis.statistics.effective_size import effective_pairs
from analysis.statistics.pearson import CONFIDENCE, EXACT, pearson

#: The fewest directions of a source in the plane of the two whitened series, over half a turn.
_DIRECTIONS = 48

#: Logarithm to base 2 of the number of drawn mixtures.
_DRAWS = 11

#: How much of the distribution the interval holds; see the module.
_SHARE = 0.975

#: Exponent of 1 - p^2, p the first partial autocorrelation; see the module.
_PRIOR = -0.25


def correlation_interval(x: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    """Return the 95 % interval of the correlation of two series.

    Parameters
    ----------
    x, y : array of float, shape (n,)
        At least four pairs in their order; neither constant.
    """
    r = pearson(x, y)
    if abs(r) >= 1 - EXACT:
        return r, r
    outside = (1 - _SHARE) / 2
    low, high = np.quantile(_correlations(x, y, r), (outside, 1 - outside))
    lowest, highest = fisher_interval(r, effective_pairs(x, y))
    return min(float(low), lowest), max(float(high), highest)


def fisher_interval(r: float, n: float) -> tuple[float, float]:
    """Return tanh(artanh r -+ z / sqrt(n - 3)); three pairs or fewer exclude nothing.

    Of pairs on a line both ends are r.
    """
    if n <= 3:
        return -1.0, 1.0
    if abs(r) >= 1 - EXACT:
        return r, r
    centre, half = math.atanh(r), float(ndtri((1 + CONFIDENCE) / 2)) / (n - 3) ** 0.5
    return math.tanh(centre - half), math.tanh(centre + half)


def _correlations(x: ArrayLike, y: ArrayLike, r: float) -> Floats:
    """Return equally likely correlations of the processes."""
    a, b = (_standardised(each) for each in (x, y))
    n, both = len(a), np.array([(2 + 2 * r) ** 0.5, (2 - 2 * r) ** 0.5])
    # Longer series tell more directions apart.
    count = max(_DIRECTIONS, 4 * math.isqrt(n))
    angles = np.arange(count) * np.pi / count
    models = autoregressions(n)
    squares = _squares(models, np.stack([a + b, a - b]) / both[:, None], angles)
    log = models.log_likelihood(squares) + _PRIOR * np.log1p(-(models.first**2))
    top = log.max(axis=1, keepdims=True)
    shares = np.exp(log - top).cumsum(axis=1)
    evidence = np.log(shares[:, -1]) + top[:, 0]
    # One search for all directions: the shares of each end in the interval that ends at its number.
    steps = (shares / shares[:, -1:] + np.arange(count)[:, None]).ravel()
    u, v = np.triu_indices(count, 1)
    # Of the n - 1 degrees of freedom, the invariant prior takes two.
    mixing = evidence[u] + evidence[v] + (n - 3) * np.log(np.sin(angles[v] - angles[u]))
    places, chi_squares = _points(n)
    pair = _drawn(normalised(mixing).cumsum(), places[0])
    sources, variances = (u[pair], v[pair]), []
    for source, place, chi_square in zip(sources, places[1:], chi_squares, strict=True):
        found = _drawn(steps, place + source)
        gain = models.gain[found % shares.shape[1]]
        variances.append(squares.ravel()[found] * gain / chi_square)
    return _mixed(angles[np.stack(sources)], np.stack(variances), both)


def _squares(models: Autoregressions, whitened: Floats, angles: Floats) -> Floats:
    """Return the innovations' sums of squares in every direction, shape (directions, m)."""
    one, other = whitened
    pairs = np.stack([models.squares(*pair) for pair in ((one, one), (other, other), (one, other))])
    cosine, sine = np.cos(angles), np.sin(angles)
    result: Floats = np.stack([cosine**2, sine**2, 2 * cosine * sine], axis=1) @ pairs
    return result


def _mixed(directions: Floats, variances: Floats, both: Floats) -> Floats:
    """Return the correlations by the two sources' directions and variances, shape (2, draws)."""
    # The inverse of the matrix whose rows are the directions exchanges them.
    cosine, sine = np.cos(directions[::-1]), np.sin(directions[::-1])
    added = both[0] ** 2 * (variances * sine**2).sum(axis=0)
    taken = both[1] ** 2 * (variances * cosine**2).sum(axis=0)
    crossed = 2 * both.prod() * (variances * sine * cosine).sum(axis=0)
    shared = added + taken
    result: Floats = (added - taken) / np.sqrt((shared + crossed) * (shared - crossed))
    return result


def _drawn(cumulated: Floats, places: Floats) -> Integers:
    return np.minimum(np.searchsorted(cumulated, places), len(cumulated) - 1)


@functools.lru_cache(maxsize=16)
def _points(n: int) -> tuple[Floats, Floats]:
    """Return places in (0, 1), shape (3, draws), and chi squares, shape (2, draws)."""
    # Imported where intervals are drawn: it takes as long as many answers.
    from scipy.stats import qmc

    points = qmc.Sobol(5, rng=0).random_base2(_DRAWS).T
    return points[:3], np.asarray(2 * gammaincinv((n - 1) / 2, points[3:]), float)


def _standardised(values: ArrayLike) -> Floats:
    array = np.asarray(values, float)
    result: Floats = (array - array.mean()) / array.std()
    return result
