"""The absolute deviation: how far outputs leave the straight line, along lines around images.

Of every line of the closed path around an image, from one copy of it to the next, the distance
between each output and the straight line between its values at the ends is integrated, by the
trapezoid rule on m steps. It is defined for every network, whatever its activations.

It grows with a line's length and with the outputs: a network that is twice another one has twice
its deviation. Divided by both it compares networks.

References
----------
Gamba et al. 2022, "Are All Linear Regions Created Equal?", arXiv:2202.11749, Figure 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from survey.network_measures.base import NetworkQuantity, NetworkScore, SampledMeasure, Steps

if TYPE_CHECKING:
    import torch
    from torch import nn

    from survey.network_measures.sample import ImageSample
    from survey.regions.line import Line

#: Images, and the steps of each of the lines of their paths.
IMAGES, STEPS = 16, 16

#: Roundings of float32 within which outputs are the same.
_ROUNDING = 1e-6


def absolute_deviation(model: nn.Module, sample: ImageSample) -> Steps:
    """Compute the absolute deviation along the closed paths around images.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode, with any activations.
    sample : ImageSample
        n images.

    Yields
    ------
    float
        The fraction of the lines that are done.

    Returns
    -------
    dict of str to NetworkScore
        ``absolute_deviation`` and ``absolute_deviation_relative`` with their standard errors, or
        the reason for having none. The relative one needs two images whose outputs differ; its
        error holds that of the outputs' deviation too, which details have.
    """
    import torch

    from survey.errors import SurveyError
    from survey.regions.around_images import along_paths, mean_of
    from survey.regions.deviation import trapezoid_deviation
    from survey.regions.watched_network import WatchedNetwork

    def measured(line: Line) -> list[float]:
        times = line.steps(STEPS)
        each = trapezoid_deviation(times, line.outputs(times), line.distance)
        return [each.norm().item(), line.distance]

    try:
        images = sample.inputs(torch.arange(len(sample)))
        network = WatchedNetwork(model, exact=False)
        outputs = torch.cat([network.run(images[places]) for places in sample.passes()])
        values = yield from along_paths(
            network, images, measured, watched=False, micro_batch=sample.micro_batch
        )
    except SurveyError as error:
        return MEASURE.without_value(error.message)
    deviation, length = values.unbind(2)
    mean = mean_of(deviation)
    lines = int(deviation.isfinite().sum())
    details: dict[str, object] = {"steps": STEPS, "lines": lines, "length": mean_of(length).value}
    whole = NetworkScore(mean.value, None, mean.standard_error, mean.paths, details)
    relative = _relative(deviation / length, outputs.cpu().double(), details)
    return {"absolute_deviation": whole, "absolute_deviation_relative": relative}


def _relative(
    bends: torch.Tensor, outputs: torch.Tensor, details: dict[str, object]
) -> NetworkScore:
    """Return the deviation of a line of length 1 over that of n x c outputs."""
    from survey.regions.around_images import mean_of

    mean, n = mean_of(bends), len(outputs)
    if n < 2:
        return NetworkScore(None, f"it needs 2 images, and there are {n}", samples=n)
    squares = (outputs - outputs.mean(0)).square().sum(1)
    if squares.sum() <= _ROUNDING**2 * outputs.square().sum():
        return NetworkScore(None, "its outputs are the same for all images", samples=n)
    spread = (squares.sum() / (n - 1)).sqrt().item()
    value = mean.value / spread
    error = None
    if mean.standard_error is not None:
        # Half the share of a variance is that of its root.
        of_spread = squares.std().item() / squares.mean().item() / math.sqrt(n) / 2
        error = math.hypot(mean.standard_error / spread, value * of_spread)
    return NetworkScore(value, None, error, mean.paths, {**details, "spread": spread})


_QUANTITIES = (
    NetworkQuantity(
        name="absolute_deviation",
        sentence="How far outputs leave the straight line between copies of an image.",
        formula="mean over lines of norm(length * integral of |f(x(t)) - straight line| dt)",
        unit="outputs x inputs",
        low=0.0,
        high=math.inf,
        source="arXiv:2202.11749, Figure 1",
    ),
    NetworkQuantity(
        name="absolute_deviation_relative",
        sentence="The same, of lines of length 1 and outputs of deviation 1 over the images.",
        formula="mean over lines of (deviation / length) / sqrt(sum of the outputs' variances)",
        unit="1",
        low=0.0,
        high=math.inf,
        source="arXiv:2202.11749, Figure 1",
    ),
)

MEASURE = SampledMeasure(
    name="absolute_deviation",
    version=1,
    quantities=_QUANTITIES,
    images=IMAGES,
    passes=lambda sites: 8.0 * (STEPS + 1) + 1,  # noqa: ARG005 - the same whatever it is
    compute=absolute_deviation,
)
