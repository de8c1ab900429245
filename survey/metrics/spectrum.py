"""How many directions a site's output fills: three counts from its singular values.

Each is 1 where the output varies along a single direction, and k where it varies alike along k
directions. They weigh unlike directions differently: the effective rank counts weak ones most,
the stable rank least. The spectrum is that of the centred output as it is, without shrinkage: n
images fill at most n - 1 directions, so that the flag ``few_images`` concerns these too.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from survey.metrics.base import INVARIANCES, Metric, Quantity

if TYPE_CHECKING:
    import torch

    from survey.metrics.pair import Pair


def effective_rank(pair: Pair) -> float:
    """Return the exponential of the entropy of the singular values over their sum."""
    import torch

    lengths = pair.once(strengths).sqrt()
    return float(torch.special.entr(lengths / lengths.sum()).sum().exp())


def stable_rank(pair: Pair) -> float:
    """Return the sum of squares of the singular values over the greatest square."""
    squares = pair.once(strengths)
    return float(squares.sum() / squares.max())


def participation_ratio(pair: Pair) -> float:
    """Return the squared sum of the covariance's eigenvalues over the sum of their squares."""
    squares = pair.once(strengths)
    return float(squares.sum().square() / squares.square().sum())


def strengths(pair: Pair) -> torch.Tensor:
    """Return the squared singular values of the centred output, up to a factor, r."""
    return pair.y.in_range.strengths


_EFFECTIVE = Quantity(
    name="effective_rank",
    sentence="Directions that the output fills, by the entropy of its singular values; below n.",
    formula="exp(-sum p log p), p = s / sum s, s the singular values of Yc above 1e-6 of the"
    " greatest",
    unit="1",
    low=1.0,
    high=inf,
    direction="none",
    invariances=frozenset(INVARIANCES) - {"swap"},
    source="Roy and Vetterli 2007, EUSIPCO, 606; of features: Garrido et al. 2023,"
    " arXiv:2210.02885",
    compute=effective_rank,
)

METRIC = Metric(
    "spectrum",
    (
        _EFFECTIVE,
        replace(
            _EFFECTIVE,
            name="stable_rank",
            sentence="The output's variance over that of its strongest direction; below n.",
            formula="sum s^2 / max s^2",
            source="Rudelson and Vershynin 2007, doi:10.1145/1255443.1255449",
            listed=False,
            compute=stable_rank,
        ),
        replace(
            _EFFECTIVE,
            name="participation_ratio",
            sentence="Directions that the output fills, by their shares of its variance; below n.",
            formula="(tr C)^2 / tr C^2, C the covariance of Y",
            source="Gao et al. 2017, doi:10.1101/214262",
            listed=False,
            compute=participation_ratio,
        ),
    ),
)
