"""Linear centred kernel alignment (CKA) of input and output.

    cka = |Yc' Xc|^2 / (|Xc' Xc| |Yc' Yc|)

As published it is biased upwards where c is not small beside n; the debiased variant replaces
each of the three terms by its unbiased estimate. No n x n matrix is built if c <= n.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from survey.metrics.base import INVARIANCES, Metric, NoValue, Quantity

if TYPE_CHECKING:
    import torch

    from survey.metrics.pair import Pair

#: A debiased norm below this share of the biased one is the rounding of a difference.
_ROUNDING = 1e-12


def cka(pair: Pair) -> float:
    """Return the linear CKA of input and output."""
    x, y = pair.x.gram_squared_norm, pair.y.gram_squared_norm
    return pair.once(cross_squared_norm) / (math.sqrt(x) * math.sqrt(y))


def cka_debiased(pair: Pair) -> float | NoValue:
    """Return the linear CKA made of unbiased estimates."""
    x, y = pair.x.row_norms, pair.y.row_norms
    unbiased_x = _unbiased(pair.x.gram_squared_norm, x, x)
    unbiased_y = _unbiased(pair.y.gram_squared_norm, y, y)
    if unbiased_x <= _ROUNDING * pair.x.gram_squared_norm:
        return NoValue("the unbiased norm of the input vanishes")
    if unbiased_y <= _ROUNDING * pair.y.gram_squared_norm:
        return NoValue("the unbiased norm of the output vanishes")
    shared = _unbiased(pair.once(cross_squared_norm), x, y)
    return shared / (math.sqrt(unbiased_x) * math.sqrt(unbiased_y))


def cross_squared_norm(pair: Pair) -> float:
    """Return |Yc' Xc|^2, from the n x n Gram matrices where c > n."""
    import torch

    x, y = pair.x, pair.y
    if pair.channels > pair.images:
        return float(torch.vdot(x.gram.flatten(), y.gram.flatten()))
    return float((x.centred.T @ y.centred).square().sum())


def _unbiased(cross: float, x_norms: torch.Tensor, y_norms: torch.Tensor) -> float:
    """Return n (n - 3) times the unbiased estimate of HSIC of two linear kernels.

    With both kernels centred, their rows sum to minus what their diagonals were before these are
    set to zero, so that the squared row norms k_i, l_i suffice.
    """
    import torch

    n = len(x_norms)
    diagonal = float(torch.vdot(x_norms, y_norms))
    totals = float(x_norms.sum()) * float(y_norms.sum())
    return cross - diagonal + totals / ((n - 1) * (n - 2)) - 2 * diagonal / (n - 2)


_CKA = Quantity(
    name="cka",
    heading="CKA",
    sentence="Linear CKA of input and output, biased as published, in [0, 1].",
    formula="|Yc' Xc|^2 / (|Xc' Xc| |Yc' Yc|)",
    unit="1",
    low=0.0,
    high=1.0,
    direction="higher",
    invariances=frozenset(INVARIANCES) - {"pairing"},
    source="Kornblith et al. 2019, arXiv:1905.00414",
    compute=cka,
)

METRIC = Metric(
    "cka",
    (
        _CKA,
        replace(
            _CKA,
            name="cka_debiased",
            heading="debiased CKA",
            sentence="Linear CKA from unbiased estimates, in [-1, 1].",
            formula="HSIC1(X, Y) / sqrt(HSIC1(X, X) HSIC1(Y, Y))",
            low=-1.0,
            source="HSIC1: Song et al. 2012, JMLR 13:1393, equation 5",
            least_images=4,
            compute=cka_debiased,
        ),
    ),
)
