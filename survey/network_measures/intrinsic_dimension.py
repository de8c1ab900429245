"""The intrinsic dimension of a network's last features, from each image's two nearest others.

Where points lie with a locally constant density on a d-dimensional set, the ratio mu of the
distances to the second and to the first neighbour has P(mu > m) = m^-d. So -log(1 - F(mu)) is d
times log(mu), and d is the slope through the origin of the empirical F, of which the greatest
tenth is left out, as the authors do.

The features are the input of the last convolution or linear layer that is called, unpooled.

Notes
-----
scikit-dimension and DADApy have it too. They import for seconds and bring matplotlib, for what
takes a sort and a product here.

References
----------
Facco, d'Errico, Rodriguez and Laio 2017, "Estimating the intrinsic dimension of datasets by a
minimal neighborhood information", Scientific Reports 7, 12140.
Ansuini, Laio, Macke and Zoccolan 2019, "Intrinsic dimension of data representations in deep neural
networks", arXiv:1905.12784.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from survey.network_measures.base import NetworkQuantity, NetworkScore, SampledMeasure, Steps

if TYPE_CHECKING:
    import torch
    from torch import nn

    from survey.network_measures.sample import ImageSample

#: Images, the fewest that differ, and the share of the greatest ratios that is left out.
IMAGES, FEWEST, DISCARDED = 1000, 100, 0.1

#: Features in float64 at a time: before the last convolution there may be a hundred thousand.
_COLUMNS = 4096


def intrinsic_dimension(model: nn.Module, sample: ImageSample) -> Steps:
    """Estimate the intrinsic dimension of the input of a network's last weighted layer.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode.
    sample : ImageSample
        n images.

    Yields
    ------
    float
        The fraction of the images that have passed.

    Returns
    -------
    dict of str to NetworkScore
        ``intrinsic_dimension`` with its standard error, or the reason for having none.
    """
    import torch

    from survey.errors import CaptureError
    from survey.network_measures.last_features import LastFeatures

    features = LastFeatures(model)
    rows = []
    try:
        for places in sample.passes():
            rows.append(features.of(sample.inputs(places)))
            yield (int(places[-1]) + 1) / len(sample)
    except CaptureError as error:
        return MEASURE.without_value(str(error))
    return {MEASURE.name: _score(torch.cat(rows))}


def distances_of(rows: torch.Tensor) -> torch.Tensor:
    """Return the distances between points, each point once.

    Parameters
    ----------
    rows : torch.Tensor
        n x c.

    Returns
    -------
    torch.Tensor
        m x m, float64, m <= n, without points that others have already but for rounding.
    """
    import torch

    n = len(rows)
    products = torch.zeros(n, n, dtype=torch.float64)
    for part in rows.split(_COLUMNS, dim=1):
        # Differences of products lose the digits of what all points have in common.
        centred = part.double() - part.double().mean(0)
        products.addmm_(centred, centred.T)
    squares = products.diagonal()
    between = squares[:, None] + squares - 2 * products
    same = between <= 1e-13 * squares.max()
    distinct = ~same.tril(-1).any(1)
    return between[distinct][:, distinct].clamp(min=0).sqrt()


def two_nearest(distances: torch.Tensor) -> float | None:
    """Return the intrinsic dimension of points by the distances to their two nearest neighbours.

    Parameters
    ----------
    distances : torch.Tensor
        n x n, n > 2, above 0 outside of the diagonal.

    Returns
    -------
    float or None
        The dimension; None where both neighbours of every point are equally far away.
    """
    import torch

    n = len(distances)
    others = distances.clone().fill_diagonal_(math.inf)
    first, second = others.topk(2, dim=1, largest=False).values.unbind(1)
    kept = (second / first).log().sort().values[: round(n * (1 - DISCARDED))]
    heights = -torch.log1p(-torch.arange(1, len(kept) + 1, dtype=kept.dtype) / n)
    width = torch.linalg.vecdot(kept, kept)
    return (torch.linalg.vecdot(kept, heights) / width).item() if width > 1e-12 else None


def _score(rows: torch.Tensor) -> NetworkScore:
    """Return the dimension of n x c features."""
    if not rows.isfinite().all():
        return NetworkScore(None, "a feature is not finite")
    distances = distances_of(rows)
    n = len(distances)
    if n < FEWEST:
        reason = f"it needs {FEWEST} images whose features differ, and there are {n}"
        return NetworkScore(None, reason, samples=n)
    value = two_nearest(distances)
    if value is None:
        return NetworkScore(None, "features lie at equal distances", samples=n)
    details = {"features": rows.shape[1], "discarded": DISCARDED}
    # Neighbours share distances: the spread over samples is that of about half as many.
    error = value / math.sqrt(n / 2)
    return NetworkScore(value, standard_error=error, samples=n, details=details)


_QUANTITIES = (
    NetworkQuantity(
        name="intrinsic_dimension",
        sentence="The dimension of the set that the features of the last layer lie on, by TwoNN.",
        formula="slope of -log(1 - F(mu)) over log(mu), mu = second / first neighbour's distance",
        unit="dimensions",
        low=0.0,
        high=math.inf,
        source="doi:10.1038/s41598-017-11873-y",
    ),
)

MEASURE = SampledMeasure(
    name="intrinsic_dimension",
    version=1,
    quantities=_QUANTITIES,
    images=IMAGES,
    passes=lambda sites: 1.3,  # noqa: ARG005 - a pass that is followed takes some more
    compute=intrinsic_dimension,
)
