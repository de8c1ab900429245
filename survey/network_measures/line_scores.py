"""The scores of a density of lines: a line, and a line and unit."""

from __future__ import annotations

import torch

from survey.network_measures.base import NetworkScore
from survey.regions.around_images import mean_of


def line_scores(
    name: str, counts: torch.Tensor, units: int, details: dict[str, object]
) -> dict[str, NetworkScore]:
    """Return a density's scores by quantity.

    Parameters
    ----------
    name : str
        The quantity of a line; that of a line and unit has ``_per_unit`` behind it.
    counts : torch.Tensor
        n x K, a row a path; NaN for lines that are left out.
    units : int
        Units of the network.
    details : dict of str to object
        Of both.
    """
    mean = mean_of(counts)
    details = {**details, "units": units, "lines": int(counts.isfinite().sum())}
    whole = NetworkScore(mean.value, None, mean.standard_error, mean.paths, details)
    if not units:
        reason = "it has no unit whose sign changes its piece"
        return {name: whole, f"{name}_per_unit": NetworkScore(None, reason, samples=mean.paths)}
    error = mean.standard_error and mean.standard_error / units
    each = NetworkScore(mean.value / units, None, error, mean.paths, details)
    return {name: whole, f"{name}_per_unit": each}
