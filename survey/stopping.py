"""The stopping rule: the standard error of a signature, and whether it is small enough.

Notes
-----
Measuring ends at the first batch, from ``least_batches`` on, at which the standard error of every
site is at most the precision. The promise is on each site by itself: the 95 % interval of its mean,
by Student's t over the batches, reaches at most ``interval_factor`` precisions to either side, and
holds the mean over all images in 93 to 97 of 100 surveys, of all sites together; of a single site
with skewed scores in 90 to 94. A rule that looks after every batch stops
where errors happen to be small; after two batches such intervals hold in 67 to 90 of 100. With ten
batches at least (``survey.settings.FEWEST_BATCHES``) that is no more to be seen
(``tests/survey/test_stopping.py`` simulates 10 to 150 sites).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from survey.settings import MeasureSettings


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


def interval_factor(batches: int) -> float:
    """Return Student's quantile of 95 % intervals over batches, in standard errors of the mean.

    Parameters
    ----------
    batches : int
        Number of batch scores, at least 2.
    """
    # Slow to import, and not needed while measuring.
    from scipy.stats import t as student

    return float(student.ppf(0.975, batches - 1))
