"""What the studies of activations share: seeded inputs, scores with reasons, closed forms."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from analysis.studies.elementwise import Elementwise, elementwise
from survey import SettingsError, UndefinedScore, affinity_score
from survey.settings import Ridge, Shrinkage

#: Where a slow study says how far it is.
LOG = logging.getLogger("analysis.studies")


def score(
    x: torch.Tensor,
    y: torch.Tensor,
    shrinkage: Shrinkage = "ledoit-wolf",
    ridge: Ridge = "relative",
) -> dict[str, Any]:
    """Score a pair of matrices for a row of a table.

    Parameters
    ----------
    x, y : torch.Tensor
        Inputs and outputs, n x d.
    shrinkage, ridge
        As for ``survey.affinity_score``. The ridge is relative by default, because the absolute
        one decides the score where an activation saturates and its variance falls below 1e-6.

    Returns
    -------
    dict
        ``affinity`` in [0, 1], or NaN; ``reason``, why there is no score, or None.
    """
    try:
        return {"affinity": affinity_score(x, y, shrinkage, ridge=ridge), "reason": None}
    except UndefinedScore as error:
        return {"affinity": math.nan, "reason": error.message}


def score_each(
    functions: Mapping[str, Elementwise],
    x: torch.Tensor,
    ridge: Ridge = "relative",
    **labels: object,
) -> list[dict[str, Any]]:
    """Return the scores of activations on one sample, one row each; see ``score``."""
    return [
        {"activation": name, **labels, **score(x, function(x), ridge=ridge)}
        for name, function in functions.items()
    ]


def normal(
    generator: torch.Generator, *sizes: int, mean: float = 0.0, deviation: float = 1.0
) -> torch.Tensor:
    """Draw independent normal numbers in float64."""
    return torch.randn(sizes, generator=generator, dtype=torch.float64) * deviation + mean


def uniform(generator: torch.Generator, *sizes: int, low: float, high: float) -> torch.Tensor:
    """Draw independent uniform numbers in float64."""
    return torch.rand(sizes, generator=generator, dtype=torch.float64) * (high - low) + low


def seeded(seed: int) -> torch.Generator:
    """Return a new generator of random numbers.

    Raises
    ------
    SettingsError
        If the seed is negative or above 2^63 - 1.
    """
    require_whole(0, seed=seed)
    return torch.Generator().manual_seed(seed)


def activation_functions(activations: Sequence[str]) -> dict[str, Elementwise]:
    """Return activation functions by name; see ``elementwise``."""
    require_some(activations=activations)
    return {name: elementwise(name) for name in activations}


def require_some(**parameters: object) -> None:
    """Refuse parameters, by name, that hold no value."""
    _require(lambda _: True, "there", parameters)


def require_whole(least: int, **parameters: object) -> None:
    """Refuse parameters, by name, that are not whole numbers of at least some number."""
    rule = f"a whole number of at least {least} and below 2^63"
    _require(lambda value: type(value) is int and least <= value < 2**63, rule, parameters)


def require_positive(**parameters: object) -> None:
    """Refuse parameters, by name, that are not positive and finite."""
    _require(lambda value: 0.0 < value < math.inf, "positive and finite", parameters)


def require_finite(**parameters: object) -> None:
    """Refuse parameters, by name, that are not finite."""
    _require(math.isfinite, "finite", parameters)


def _require(usable: Callable[[Any], bool], rule: str, parameters: Mapping[str, Any]) -> None:
    """Refuse a parameter that is not usable, or of several values holds none or one that is not."""
    for name, parameter in parameters.items():
        several = np.ndim(parameter) > 0
        if several and not len(parameter):
            raise SettingsError(f"{name} is empty, must hold at least one value")
        for value in parameter if several else [parameter]:
            if not usable(value):
                verb = "holds" if several else "is"
                raise SettingsError(f"{name} {verb} {value!r}, must be {rule}")


def normal_closed_form(activation: Elementwise, mean: float = 0.0, deviation: float = 1.0) -> float:
    """Return the score of an activation on independent normal coordinates, in the limit.

    With r = corr(z, sigma(z)) it is 1 - sqrt(1 - r): for equal independent coordinates T is a
    multiple of the identity, and with many of them pairing each output with its own input is
    optimal. NaN where the activation is constant, or falls on the whole, for which this does not
    hold.

    Parameters
    ----------
    activation : callable
        Applied to float64.
    mean, deviation : float
        Of the coordinates.
    """
    standard = torch.linspace(-12.0, 12.0, 240_001, dtype=torch.float64)
    weights = torch.exp(-standard.square() / 2)
    weights /= weights.sum()
    output = activation(standard * deviation + mean)
    output = output - (weights * output).sum()
    spread = float((weights * output.square()).sum().sqrt())
    if spread == 0.0:
        return math.nan
    return from_correlation(float((weights * output * standard).sum()) / spread)


def from_correlation(correlation: float) -> float:
    """Return 1 - sqrt(1 - r) for a positive correlation r, else NaN."""
    return 1.0 - float(np.sqrt(max(1.0 - correlation, 0.0))) if correlation > 0.0 else math.nan
