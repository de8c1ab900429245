"""The region density: the linear regions that lines around images lead through, exactly.

Every line of the closed path around an image, from one copy of it to the next, is traced call by
call (``survey.regions``): the density of a line is the number of times at which any unit of the
network changes its piece, one less than its regions. A line of very many is divided into equal
parts, of which one is drawn and traced, and its density is that of the part times their number. So
the time is bounded, the line's expectation is exact, and the spread over parts is in the error.

References
----------
Gamba et al. 2022, "Are All Linear Regions Created Equal?", arXiv:2202.11749.
Sotoudeh and Thakur 2019, "Computing Linear Restrictions of Neural Networks", arXiv:1908.06214.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from survey.network_measures.base import NetworkQuantity, SampledMeasure, Steps
from survey.regions import MOST_SIDE

if TYPE_CHECKING:
    from torch import nn

    from survey.network_measures.sample import ImageSample
    from survey.regions.line import Line

#: Images, changes of sign above which a line is divided, the steps that they are counted on, and
#: the seed of the parts.
IMAGES, MOST_CHANGES, STEPS, SEED = 8, 500, 8, 0

#: Forward passes, as foreseen from GFLOPs, that an image takes for each site: 7,500 to 18,000 were
#: measured of networks whose lines are divided.
PASSES = 10_000.0


def region_density(model: nn.Module, sample: ImageSample) -> Steps:
    """Compute the density of linear regions along the closed paths around images.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    sample : ImageSample
        n images.

    Yields
    ------
    float
        The fraction of the lines that are traced.

    Returns
    -------
    dict of str to NetworkScore
        ``region_density`` and ``region_density_per_unit`` with their standard errors, or the reason
        for having none: a call that is not piecewise linear, by its name. Details have the units,
        the mean length of a line, and the share of the lines that was traced.
    """
    import torch

    from survey.errors import SurveyError
    from survey.network_measures.line_scores import line_scores
    from survey.regions.around_images import along_paths, mean_of
    from survey.regions.crossings import traced
    from survey.regions.hamming import counted
    from survey.regions.watched_network import WatchedNetwork

    generator = torch.Generator().manual_seed(SEED)

    def measured(line: Line) -> list[float]:
        pilot = counted(line, STEPS)
        parts = max(1, math.ceil(pilot.flips / MOST_CHANGES))
        part = int(torch.randint(parts, (), generator=generator))
        piece = line if parts == 1 else line.part(part / parts, (part + 1) / parts)
        crossings = traced(piece)
        return [parts * crossings.density, pilot.units, line.distance, 1 / parts]

    try:
        images = sample.inputs(torch.arange(len(sample)))
        network = WatchedNetwork(model, exact=True)
        values = yield from along_paths(network, images, measured, micro_batch=sample.micro_batch)
    except SurveyError as error:
        return MEASURE.without_value(error.message)
    density, units, length, share = values.unbind(2)
    details: dict[str, object] = {
        "length": mean_of(length).value,
        "traced": mean_of(share).value,
        "seed": SEED,
    }
    return line_scores(MEASURE.name, density, int(units.nan_to_num().max()), details)


_QUANTITIES = (
    NetworkQuantity(
        name="region_density",
        sentence="Linear regions that a line between copies of an image enters, exactly.",
        formula="mean over lines of (regions - 1)",
        unit="regions a line",
        low=0.0,
        high=math.inf,
        source="arXiv:2202.11749",
    ),
    NetworkQuantity(
        name="region_density_per_unit",
        sentence="The same over the network's units, of which large ones have more.",
        formula="region_density / units",
        unit="regions a line and unit",
        low=0.0,
        high=math.inf,
        source="arXiv:2202.11749",
    ),
)

MEASURE = SampledMeasure(
    name="region_density",
    version=1,
    quantities=_QUANTITIES,
    images=IMAGES,
    passes=lambda sites: PASSES * sites,
    compute=region_density,
    most_size=MOST_SIDE,
    alternative="hamming_density",
)
