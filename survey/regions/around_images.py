"""What is measured along the lines of the closed paths around images, a row an image.

The path is the unit of a mean, since its lines share their ends. Lines between equal anchors, as of
an image of one colour, have no length and are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import torch

from survey.errors import InputError
from survey.regions.closed_paths import closed_paths
from survey.regions.line import Line
from survey.regions.watched_network import WatchedNetwork


@dataclass(frozen=True, slots=True)
class PathMean:
    """The mean over closed paths of the mean over a path's lines."""

    #: Its value.
    value: float
    #: None for a single path.
    standard_error: float | None
    #: Paths with a line that has a value.
    paths: int


def along_paths(
    network: WatchedNetwork,
    images: torch.Tensor,
    measured: Callable[[Line], Sequence[float]],
    *,
    watched: bool = True,
    micro_batch: int | None = None,
) -> Generator[float, None, torch.Tensor]:
    """Measure every line of the closed path around each image.

    Parameters
    ----------
    network : WatchedNetwork
        Its copy.
    images : torch.Tensor
        n x c x h x w, as the network takes them.
    measured : callable
        Takes a line, and returns q numbers.
    watched : bool
        Whether units are looked at; otherwise any network may be run.
    micro_batch : int, optional
        Inputs that a pass may have; it has three at least.

    Yields
    ------
    float
        The fraction of the lines that are done.

    Returns
    -------
    torch.Tensor
        n x K x q, in float64; NaN for lines without length.

    Raises
    ------
    InputError
        If no line has a length, or the network does not take the images.
    NotPiecewiseLinear
        If the network is not and units are looked at.
    """
    paths: list[list[Sequence[float] | None]] = []
    for number, image in enumerate(images):
        (path,) = closed_paths(image[None].double())
        row: list[Sequence[float] | None] = []
        for start, end in zip(path, path.roll(-1, 0), strict=True):
            if torch.equal(start, end):
                row.append(None)
                continue
            line = Line(network, start, end, watched=watched)
            if micro_batch is not None:
                line.batch = min(line.batch, max(3, micro_batch))
            row.append(measured(line))
            yield (number + len(row) / len(path)) / len(images)
        paths.append(row)
    lengths = {len(values) for row in paths for values in row if values is not None}
    if not lengths:
        raise InputError("no image changes where it is moved: each is of one colour")
    (length,) = lengths
    missing = [math.nan] * length
    rows = [[missing if values is None else list(values) for values in row] for row in paths]
    return torch.tensor(rows, dtype=torch.float64)


def mean_of(values: torch.Tensor) -> PathMean:
    """Return the mean over paths, with its standard error.

    Parameters
    ----------
    values : torch.Tensor
        n x K, a row a path; NaN for lines that are left out, but not for all.
    """
    paths = values.nanmean(1)
    paths = paths[~paths.isnan()]
    error = paths.std().item() / math.sqrt(len(paths)) if len(paths) > 1 else None
    return PathMean(paths.mean().item(), error, len(paths))
