"""The Hamming density: units that change their sign along lines around images, a lower bound.

Every line of the closed path around an image, from one copy of it to the next, is divided into m
steps; a unit whose value is on the other side of a breakpoint after a step is counted. Of its
crossings in a step one or none is seen, so that the count is a lower bound of those that exact
tracing sees, of ``region_density`` but for units that change together.

How much is missed falls about as 1 / m: a unit that crosses twice within a step has two crossings
nearer than the step is wide. What m steps see beyond m / 2 is therefore about what they miss.

References
----------
Gamba et al. 2022, "Are All Linear Regions Created Equal?", arXiv:2202.11749.
Novak et al. 2018, "Sensitivity and Generalization in Neural Networks", arXiv:1802.08760.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from survey.network_measures.base import NetworkQuantity, SampledMeasure, Steps

if TYPE_CHECKING:
    from torch import nn

    from survey.network_measures.sample import ImageSample
    from survey.regions.line import Line

#: Images, and the steps of each of the lines of their paths.
IMAGES, STEPS = 16, 16

#: Plain forward passes that one takes as long as in which units are looked at.
WATCHED = 2.0


def hamming_density(model: nn.Module, sample: ImageSample) -> Steps:
    """Compute the Hamming density along the closed paths around images.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    sample : ImageSample
        n images.

    Yields
    ------
    float
        The fraction of the lines that are done.

    Returns
    -------
    dict of str to NetworkScore
        ``hamming_density`` and ``hamming_density_per_unit`` with their standard errors, or the
        reason for having none: a call that is not piecewise linear, by its name. Details have the
        changes that half as many steps see, and about how many are missed.
    """
    import torch

    from survey.errors import SurveyError
    from survey.network_measures.line_scores import line_scores
    from survey.regions.around_images import along_paths, mean_of
    from survey.regions.hamming import counted
    from survey.regions.watched_network import WatchedNetwork

    def measured(line: Line) -> list[float]:
        hamming = counted(line, STEPS)
        return [hamming.flips, hamming.halved, hamming.units, line.distance]

    try:
        images = sample.inputs(torch.arange(len(sample)))
        network = WatchedNetwork(model, exact=False)
        values = yield from along_paths(network, images, measured, micro_batch=sample.micro_batch)
    except SurveyError as error:
        return MEASURE.without_value(error.message)
    flips, halved, units, length = values.unbind(2)
    details: dict[str, object] = {
        "steps": STEPS,
        "with_half_the_steps": mean_of(halved).value,
        "missed": mean_of(flips - halved).value,
        "length": mean_of(length).value,
    }
    return line_scores(MEASURE.name, flips, int(units.nan_to_num().max()), details)


_QUANTITIES = (
    NetworkQuantity(
        name="hamming_density",
        sentence="Units that change their sign along a line between copies of an image, at least.",
        formula=f"mean over lines of the signs that differ after each of {STEPS} steps",
        unit="changes a line",
        low=0.0,
        high=math.inf,
        source="arXiv:1802.08760",
    ),
    NetworkQuantity(
        name="hamming_density_per_unit",
        sentence="The same over the network's units, of which large ones have more.",
        formula="hamming_density / units",
        unit="changes a line and unit",
        low=0.0,
        high=math.inf,
        source="arXiv:1802.08760",
    ),
)

MEASURE = SampledMeasure(
    name="hamming_density",
    version=1,
    quantities=_QUANTITIES,
    images=IMAGES,
    passes=lambda sites: WATCHED * 8 * (STEPS + 1),  # noqa: ARG005 - the same whatever it is
    compute=hamming_density,
)
