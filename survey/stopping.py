"""The stopping rule: the standard error of a signature, and whether it is small enough.

Notes
-----
Measuring ends at the first batch, from ``least_batches`` on, at which the standard error of every
site is at most the precision. The promise is on each site by itself: the 95 % interval of its mean,
``mean_interval``, holds the mean over all images in 93 to 97 of 100 surveys. It is Student's over
the batches, 2.3 standard errors to either side after ten, 2 after sixty, with one arm longer where
the scores are skewed. A rule that looks after every batch stops where errors happen to be small;
after two batches such intervals hold in 67 to 90 of 100. With ten batches at least
(``survey.settings.FEWEST_BATCHES``) that is hardly to be seen
(``tests/survey/test_stopping.py`` simulates 1 to 150 sites).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from survey.settings import MeasureSettings

#: What is smaller, of a mean or of 1, is rounding.
_ROUNDING = 1e-6


@dataclass(slots=True)
class _RunningMean:
    """Number, mean and summed squared deviations of one site's scores (Welford's way)."""

    count: int = 0
    mean: float = 0.0
    deviations: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        step = value - self.mean
        self.mean += step / self.count
        self.deviations += step * (value - self.mean)


class Spread:
    """The mean and the spread of every site's affinity over the batches so far.

    The standard error of a site is the standard deviation of its batch scores (n - 1 below) over
    the square root of their number: what is left of chance in the mean that makes the signature.
    """

    def __init__(self) -> None:
        #: Number of scored batches.
        self.batches = 0
        self._sites: dict[int, _RunningMean] = {}

    def add(self, scores: Iterable[tuple[int, float | None]]) -> None:
        """Add the sites and affinities of one batch; sites without an affinity are left out."""
        for site, value in scores:
            if value is not None and math.isfinite(value):
                self._sites.setdefault(site, _RunningMean()).add(value)
        self.batches += 1

    @property
    def standard_error(self) -> float | None:
        """The largest standard error over sites; None while some site has but one score."""
        sites = self._sites.values()
        if not sites or any(site.count < 2 for site in sites):
            return None
        return max(math.sqrt(site.deviations / (site.count - 1) / site.count) for site in sites)

    def reaches(self, settings: MeasureSettings) -> bool:
        """Return whether the settings ask for a precision and it is reached."""
        if settings.precision is None or self.batches < settings.least_batches:
            return False
        error = self.standard_error
        return error is not None and error <= settings.precision


def mean_interval(scores: Iterable[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of batch scores, whose distribution may be skewed.

    Parameters
    ----------
    scores : iterable of float
        Scores of a site, at least 2.

    Returns
    -------
    low, high : float
        mean - s h(t) and mean - s h(-t), s the standard error, t Student's quantile and
        h(t) = 3 ((1 + b (t - b / 6))^(1/3) - 1) / b the inverse of Hall's transformation [1]_, b
        the skewness, corrected for bias, over the root of the number of scores.

    References
    ----------
    .. [1] P. Hall, "On the Removal of Skewness by Transformation", Journal of the Royal Statistical
       Society B 54 (1992), doi:10.1111/j.2517-6161.1992.tb01876.x.
    """
    # Slow to import, and not needed while measuring.
    import numpy as np
    from scipy.stats import skew
    from scipy.stats import t as student

    values = np.fromiter(scores, float)
    n, mean, error = len(values), values.mean(), values.std(ddof=1) / len(values) ** 0.5
    arms = student.ppf(0.975, n - 1) * np.array([1.0, -1.0])
    # Two have no skewness, and equal ones but for rounding none that counts.
    if n > 2 and error > _ROUNDING * abs(mean):
        bend = float(skew(values, bias=False)) / n**0.5
        if abs(bend) > _ROUNDING:
            arms = 3 * (np.cbrt(1 + bend * (arms - bend / 6)) - 1) / bend
    low, high = mean - error * arms
    return float(low), float(high)
