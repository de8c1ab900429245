"""First and second moments of a pooled matrix, in float64, computed once and shared.

A covariance here is always ``gram_weight * Xc' Xc + identity_weight * I``: plain, shrunk
(Ledoit and Wolf 2004) and ridged ones differ only in the two weights. It is therefore never
stored as c x c; whoever needs it as a matrix asks for it, in a basis of their choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from survey.signature import Ridge, Shrinkage

#: The ridge of the published script, added to every variance.
RIDGE = 1e-6


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean-free rows of one pooled matrix and the weights that make its covariance.

    Parameters
    ----------
    centred : torch.Tensor
        The matrix minus its column means, n x c, float64.
    mean_variance : float
        Trace of the unshrunk covariance (divisor n) over c.
    gram_weight, identity_weight : float
        Weights of ``centred' centred`` and of the identity in the covariance.
    """

    centred: torch.Tensor
    mean_variance: float
    gram_weight: float
    identity_weight: float

    @property
    def images(self) -> int:
        """Rows n."""
        return self.centred.shape[0]

    @property
    def channels(self) -> int:
        """Columns c."""
        return self.centred.shape[1]

    @property
    def trace(self) -> float:
        """Trace of the covariance."""
        scatter = self.mean_variance * self.channels * self.images
        return self.gram_weight * scatter + self.identity_weight * self.channels

    def covariance(self, coordinates: torch.Tensor) -> torch.Tensor:
        """Return the covariance in the basis in which ``coordinates`` (n x r) are the rows."""
        identity = torch.eye(
            coordinates.shape[1], dtype=coordinates.dtype, device=coordinates.device
        )
        return self.gram_weight * (coordinates.T @ coordinates) + self.identity_weight * identity


def moments(
    matrix: torch.Tensor, shrinkage: Shrinkage = "ledoit-wolf", ridge: Ridge = "absolute"
) -> Moments:
    """Centre a matrix and find its covariance's weights.

    Parameters
    ----------
    matrix : torch.Tensor
        n x c, n at least 2, finite.
    shrinkage : {"ledoit-wolf", "none"}
        ``none`` divides by n - 1; ``ledoit-wolf`` by n, as scikit-learn does.
    ridge : {"absolute", "relative"}
        What is added to every variance: 1e-6, or 1e-6 of the mean variance.

    Returns
    -------
    Moments
        In float64, on the matrix's device.

    References
    ----------
    Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance
    matrices", doi:10.1016/S0047-259X(03)00096-4.
    """
    matrix = matrix.to(torch.float64)
    centred = matrix - matrix.mean(dim=0)
    n, c = centred.shape
    mean_variance = float(centred.square().sum()) / (n * c)
    floor = RIDGE if ridge == "absolute" else RIDGE * mean_variance
    if shrinkage == "none":
        return Moments(centred, mean_variance, 1 / (n - 1), floor)
    weight = ledoit_wolf_weight(centred)
    return Moments(centred, mean_variance, (1 - weight) / n, weight * mean_variance + floor)


def ledoit_wolf_weight(centred: torch.Tensor) -> float:
    """Return the Ledoit-Wolf weight of the identity, without building a c x c matrix if c > n.

    With S = Xc' Xc / n and mu = tr S / c: b^2 = (sum_i |x_i|^4 / n - |S|^2) / n,
    d^2 = |S - mu I|^2, weight = min(b^2, d^2) / d^2.

    Parameters
    ----------
    centred : torch.Tensor
        Mean-free rows, n x c, float64.

    Returns
    -------
    float
        In [0, 1]; 0 where the covariance already is a multiple of the identity.
    """
    n, c = centred.shape
    gram = centred @ centred.T if c > n else centred.T @ centred
    squared_norm = float(gram.square().sum()) / n**2
    row_norms = centred.square().sum(dim=1)
    mu = float(row_norms.sum()) / (n * c)
    spread = squared_norm - c * mu**2
    noise = (float(row_norms.square().sum()) / n - squared_norm) / n
    # With a single channel, or equal variances, the spread is rounding only: nothing to shrink.
    if spread <= 1e-14 * squared_norm:
        return 0.0
    return max(0.0, min(noise, spread)) / spread
