"""The affinity score: how far a map is from affine, in closed form with optimal transport.

    rho(X, Y) = 1 - sqrt( W2^2(T X, Y) / (2 tr Sy) )
    T = Sx^-1/2 (Sx^1/2 Sy Sx^1/2)^1/2 Sx^-1/2

T is the optimal affine map between Gaussians of covariance Sx and Sy; W2^2 is the exact
transport cost between the n mapped inputs and the n outputs (``survey.metrics.transport``). The
matrices are made by ``survey.capture``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from survey.errors import InputError, UndefinedScore
from survey.metrics.base import Metric, Quantity, breakdowns
from survey.metrics.transport import CommonBasis, assignment_cost, transported
from survey.settings import MeasureSettings, Ridge, Shrinkage

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from survey.metrics.pair import Pair


def affinity_score(
    x: torch.Tensor | NDArray[np.floating],
    y: torch.Tensor | NDArray[np.floating],
    shrinkage: Shrinkage = "ledoit-wolf",
    *,
    ridge: Ridge = "relative",
) -> float:
    """Return how close the map from ``x`` to ``y`` is to an affine one; 1 is affine.

    Parameters
    ----------
    x, y : torch.Tensor or numpy.ndarray
        Inputs and outputs, both n x c, row i of ``y`` being the image of row i of ``x``.
    shrinkage : {"ledoit-wolf", "none"}
        Covariance estimator. Shrinkage keeps the score defined when c comes near n.
    ridge : {"absolute", "relative"}
        1e-6 of the mean variance added to every variance, or 1e-6, as published. With the relative
        one equal factors of ``x`` and ``y`` leave the score as it is, however small or large, while
        their values are normal float64 numbers (2e-308 to 2e308). The absolute one lets the score
        go to 1 as variances fall below 1e-6.

    Returns
    -------
    float
        The affinity score, in [0, 1].

    Raises
    ------
    InputError
        If the shapes differ, are not n x c, or n is below 2.
    SettingsError
        If there is no such shrinkage or ridge.
    UndefinedScore
        If a value is not finite, input or output is constant, the formula leaves [0, 1] (few
        images, or more channels than images without shrinkage) or cannot be evaluated in float64.

    References
    ----------
    Bouniot et al. 2025, "From Alexnet to Transformers: Measuring the Non-linearity of Deep
    Neural Networks with Affine Optimal Transport", arXiv:2310.11439, Definition 3.1.
    """
    import torch

    from survey.metrics.pair import Pair

    MeasureSettings(shrinkage=shrinkage, ridge=ridge)  # refuses what is neither
    x, y = _as_matrix("x", x), _as_matrix("y", y)
    _require_pair(x, y)
    if not (bool(torch.isfinite(x).all()) and bool(torch.isfinite(y).all())):
        raise UndefinedScore("the matrices hold values that are not finite", status="nonfinite")
    return defined_affinity(Pair(x, y, shrinkage, ridge, resolution=torch.finfo(y.dtype).eps))


def defined_affinity(pair: Pair) -> float:
    """Return the affinity score of a pair, with the pair's settings.

    Raises
    ------
    UndefinedScore
        If input or output is constant, the formula leaves [0, 1] or cannot be evaluated.
    """
    if pair.constant is not None:
        raise UndefinedScore(pair.constant, status="constant")
    try:
        raw = pair.once(raw_affinity)
    except breakdowns() as error:
        raise UndefinedScore(
            f"the formula cannot be evaluated: {error}", status="failed"
        ) from error
    if not 0.0 <= raw <= 1.0:
        raise UndefinedScore(
            f"the formula gives {raw:.4g}, outside [0, 1], for n={pair.images}, c={pair.channels}",
            status="out_of_range",
            raw=raw,
            hint="use more images, or shrinkage='ledoit-wolf'",
        )
    return raw


def affinity(basis: CommonBasis, shrinkage: Shrinkage, ridge: Ridge) -> float:
    """Return the value of the formula, in [0, 1] or not.

    Parameters
    ----------
    basis : CommonBasis
        Inputs and outputs, with equal n and c.
    shrinkage, ridge
        As for ``affinity_score``.

    Returns
    -------
    float
        At most 1. Below 0 the value is no score (see ``affinity_score``).
    """
    # Norms of the basis's matrices are those of the whole ones, which then need not be made.
    before = basis.x.moments(shrinkage, ridge, float(basis.scatters.square().sum()))
    basis = basis.condensed(before)
    after = basis.y.moments(shrinkage, ridge, float(basis.output_gram.square().sum()))
    mapped = transported(basis, before, after)
    return 1.0 - math.sqrt(assignment_cost(mapped, basis.outputs) / (2.0 * after.trace))


def _as_matrix(name: str, values: torch.Tensor | NDArray[np.floating]) -> torch.Tensor:
    import torch

    matrix = values.detach() if isinstance(values, torch.Tensor) else torch.tensor(values)
    if matrix.ndim != 2:
        raise InputError(
            f"{name} has shape {tuple(matrix.shape)}, must be n x c (images by channels)",
            hint="average over space first: tensor.mean(dim=(2, 3))",
        )
    if matrix.is_complex():
        raise InputError(f"{name} holds {matrix.dtype} values, must be real")
    return matrix if matrix.is_floating_point() else matrix.to(torch.float64)


def _require_pair(x: torch.Tensor, y: torch.Tensor) -> None:
    if x.shape != y.shape:
        raise InputError(
            f"x is {tuple(x.shape)} and y is {tuple(y.shape)}: both must have one shape n x c"
        )
    if x.shape[0] < 2 or x.shape[1] < 1:
        raise InputError(f"x is {tuple(x.shape)}: at least 2 images and 1 channel are needed")


def raw_affinity(pair: Pair) -> float:
    """Return the value of the formula for a pair, with its settings, in [0, 1] or not."""
    return affinity(pair.once(_basis), pair.shrinkage, pair.ridge)


def _plain(pair: Pair) -> float:
    """Return the affinity score without shrinkage."""
    if pair.shrinkage == "none":
        return pair.once(raw_affinity)
    return affinity(pair.once(_basis), "none", pair.ridge)


def _basis(pair: Pair) -> CommonBasis:
    if pair.ridge == "relative":
        return CommonBasis.of(pair.x.in_range, pair.y.in_range)
    return CommonBasis.of(pair.x, pair.y)


_AFFINITY = Quantity(
    name="affinity",
    sentence="The affinity score in [0, 1]; NULL unless status is ok.",
    formula="1 - sqrt(W2^2(T X, Y) / (2 tr Sy)), Sx and Sy shrunk (Ledoit and Wolf)",
    unit="1",
    low=0.0,
    high=1.0,
    direction="higher",
    # Exact with the relative ridge; the absolute one is a scale of its own.
    invariances=frozenset(
        ("images", "pairing", "channels", "rotation", "scale", "scale_input", "scale_output")
    )
    | {"shift", "shift_input", "shift_output"},
    source="Bouniot et al. 2025, arXiv:2310.11439, Definition 3.1",
    compute=lambda pair: pair.once(raw_affinity),
)

METRIC = Metric(
    "affinity",
    (
        _AFFINITY,
        replace(
            _AFFINITY,
            name="affinity_plain",
            sentence="The affinity score without shrinkage, in [0, 1].",
            listed=False,
            formula="1 - sqrt(W2^2(T X, Y) / (2 tr Sy)), Sx and Sy with divisor n - 1",
            # With fewer the covariance is singular, and the ridge decides the score.
            more_than_channels=True,
            compute=_plain,
        ),
    ),
)
