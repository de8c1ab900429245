"""First and second moments of a pooled matrix, in float64, computed once and shared.

A covariance here is always ``gram_weight * Xc' Xc + identity_weight * I``: plain, shrunk
(Ledoit and Wolf 2004) and ridged ones differ only in the two weights. It is therefore never
stored as c x c; ``Moments.covariance`` returns it as a matrix, in a given basis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch

from survey.settings import Ridge, Shrinkage

#: The ridge of the published script, added to every variance.
RIDGE = 1e-6

#: Sum of squares from which on, down, fourth powers of a matrix's values lose digits in float64;
#: up from its inverse they overflow.
SMALLEST = 1e-120

#: Squared share of the greatest singular value under which a direction does not count: 1e-6, as in
#: scikit-learn. What is smaller is the rounding of a float32 forward pass.
NO_DIRECTION = 1e-12

#: Ratio of the least and the greatest squared singular value below which directions found from a
#: Gram matrix lose more than half their digits.
ILL_CONDITIONED = 1e-9

#: Deviation over measured rounding noise up to which a deviation may be noise alone.
NOISE_MARGIN = 3.0


@dataclass(frozen=True, slots=True)
class Moments:
    """One pooled matrix and the weights that make its covariance."""

    rows: Rows
    #: Weight of the Gram matrix ``centred' centred`` in the covariance.
    gram_weight: float
    #: Weight of the identity in the covariance.
    identity_weight: float

    @property
    def trace(self) -> float:
        """Trace of the covariance."""
        rows = self.rows
        scatter = rows.mean_variance * rows.channels * rows.images
        return self.gram_weight * scatter + self.identity_weight * rows.channels

    def covariance(self, gram: torch.Tensor) -> torch.Tensor:
        """Return the covariance in the basis in which ``gram`` (r x r) is the Gram matrix."""
        covariance = self.gram_weight * gram
        covariance.diagonal().add_(self.identity_weight)
        return covariance

    def variances(self, scatters: torch.Tensor) -> torch.Tensor:
        """Return the variances along directions of which ``scatters`` (r) are sums of squares."""
        return self.gram_weight * scatters + self.identity_weight


class Rows:
    """One pooled matrix, with the statistics that metrics share, each computed once.

    Parameters
    ----------
    matrix : torch.Tensor
        n x c, n at least 2, finite.
    errors : torch.Tensor, optional
        Rounding errors of some rows, k x c.
    resolution : float, optional
        Machine epsilon of the type the values were computed in.
    """

    def __init__(
        self,
        matrix: torch.Tensor,
        errors: torch.Tensor | None = None,
        resolution: float = torch.finfo(torch.float64).eps,
    ) -> None:
        #: The matrix itself, n x c, float64.
        self.values = matrix.to(torch.float64)
        #: Rounding errors of some rows, k x c, float64; None where they are not known.
        self.errors = None if errors is None else errors.to(torch.float64)
        self._resolution = resolution
        #: Rows n and columns c.
        self.images, self.channels = self.values.shape

    @cached_property
    def centred(self) -> torch.Tensor:
        """The matrix minus its column means, n x c."""
        return self.values - self.values.mean(dim=0)

    @cached_property
    def _squares(self) -> tuple[float, torch.Tensor]:
        """Sum of all squares of the centred matrix, and of each row's."""
        squares = self.centred.square()
        return float(squares.sum()), squares.sum(dim=1)

    @property
    def in_range(self) -> Rows:
        """The matrix, or the centred one over its largest value where squares leave float64.

        For what does not depend on scale and shift: fourth powers of 1e-100 are 0 in float64.
        """
        if SMALLEST < self.scatter < 1 / SMALLEST:
            return self
        size = self.centred.abs().amax()
        return Rows(self.centred / size) if bool(size > 0) else self

    @property
    def scatter(self) -> float:
        """Sum of all squares of the centred matrix."""
        return self._squares[0]

    @property
    def row_norms(self) -> torch.Tensor:
        """Squared norm of each centred row, n."""
        return self._squares[1]

    @property
    def mean_variance(self) -> float:
        """Mean over columns of the variance (divisor n)."""
        return self.scatter / (self.images * self.channels)

    @cached_property
    def column_scatter(self) -> torch.Tensor:
        """Sum of squares of each centred column, c."""
        return self.centred.square().sum(dim=0)

    @cached_property
    def noise_share(self) -> float:
        """Root mean square of the rounding errors over that of the centred matrix."""
        if self.errors is None:
            return 0.0
        noise, variance = float(self.errors.square().mean()), self.mean_variance
        return math.sqrt(noise / variance) if variance > 0.0 else math.inf

    @cached_property
    def constant_columns(self) -> torch.Tensor:
        """For each of c columns, whether it varies by no more than rounding."""
        low, high = self.values.amin(dim=0), self.values.amax(dim=0)
        alike = (high - low) <= 4 * self._resolution * torch.maximum(low.abs(), high.abs())
        if self.errors is None:
            return alike
        noise = self.images * self.errors.square().mean(dim=0)
        return alike | (self.column_scatter <= NOISE_MARGIN**2 * noise)

    @cached_property
    def is_constant(self) -> bool:
        """Whether the matrix varies by no more than rounding."""
        # Few errors of a single column may be small by chance, those of all together are not.
        return NOISE_MARGIN * self.noise_share >= 1.0 or bool(self.constant_columns.all())

    @cached_property
    def gram(self) -> torch.Tensor:
        """The smaller Gram matrix of the centred rows: Xc Xc' if c > n, else Xc' Xc."""
        rows = self.centred
        return rows @ rows.T if self.channels > self.images else rows.T @ rows

    @cached_property
    def gram_squared_norm(self) -> float:
        """Sum of squares of either Gram matrix."""
        return float(self.gram.square().sum())

    def ledoit_wolf_weight(self, gram_squared_norm: float) -> float:
        """Return Ledoit and Wolf's weight of the identity, in [0, 1].

        With S = Xc' Xc / n and mu = tr S / c: b^2 = (sum_i |x_i|^4 / n - |S|^2) / n,
        d^2 = |S - mu I|^2, weight = min(b^2, d^2) / d^2. It is 0 where the covariance already is
        a multiple of the identity.

        Parameters
        ----------
        gram_squared_norm : float
            |Xc' Xc|^2, the same in every orthonormal basis.
        """
        n, c = self.images, self.channels
        squared_norm = gram_squared_norm / n**2
        mu = float(self.row_norms.sum()) / (n * c)
        spread = squared_norm - c * mu**2
        noise = (float(self.row_norms.square().sum()) / n - squared_norm) / n
        # With a single channel, or equal variances, the spread is rounding only: nothing to shrink.
        if spread <= 1e-14 * squared_norm:
            return 0.0
        return max(0.0, min(noise, spread)) / spread

    @cached_property
    def directions(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Eigenvalues and eigenvectors of the smaller Gram matrix, the least first."""
        # The upper triangle is LAPACK's lower one, which it reads a tenth faster.
        values, vectors = torch.linalg.eigh(self.gram, UPLO="U")
        return values, vectors

    @cached_property
    def turned(self) -> torch.Tensor:
        """The centred rows in the basis of those eigenvectors, n x c, for c <= n."""
        return self.centred @ self.directions[1]

    @cached_property
    def spectrum(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Left singular vectors of the centred matrix (n x r) and squared singular values (r).

        From an eigendecomposition of the smaller Gram matrix; directions under
        ``NO_DIRECTION``, such as those of dead channels, are left out, so that r is the rank.
        """
        values, vectors = self.directions
        kept = values > NO_DIRECTION * values[-1].clamp_min(0.0)
        values = values[kept]
        if self.channels > self.images:
            return vectors[:, kept], values
        # Lengths measured on the rows keep the digits of small directions; eigenvalues lose them.
        turned = self.turned[:, kept]
        if bool((values < ILL_CONDITIONED * values[-1:]).any()):
            # Small directions are then not orthogonal to each other any more.
            directions, lower = torch.linalg.qr(turned.flip(1))
            return directions.flip(1), lower.diagonal().flip(0).square()
        lengths = torch.linalg.vector_norm(turned, dim=0)
        return turned / lengths, lengths.square()

    @cached_property
    def strengths(self) -> torch.Tensor:
        """Squared singular values of the centred matrix, r, weakest first: without directions.

        Eigenvalues of the smaller Gram matrix. Those near ``NO_DIRECTION`` have few digits, which a
        sum over all of them does not show.
        """
        values: torch.Tensor = torch.linalg.eigvalsh(self.gram, UPLO="U")
        return values[values > NO_DIRECTION * values[-1].clamp_min(0.0)]

    def moments(self, shrinkage: Shrinkage, ridge: Ridge, gram_squared_norm: float) -> Moments:
        """Return the weights of a covariance of the rows.

        Parameters
        ----------
        shrinkage : {"ledoit-wolf", "none"}
            ``none`` divides by n - 1; ``ledoit-wolf`` by n, as scikit-learn does.
        ridge : {"absolute", "relative"}
            What is added to every variance: 1e-6, or 1e-6 of the mean variance.
        gram_squared_norm : float
            |Xc' Xc|^2, for ``ledoit-wolf``.

        References
        ----------
        Ledoit and Wolf 2004, "A well-conditioned estimator for large-dimensional covariance
        matrices", doi:10.1016/S0047-259X(03)00096-4.
        """
        floor = RIDGE if ridge == "absolute" else RIDGE * self.mean_variance
        weights = (1 / (self.images - 1), floor)
        if shrinkage != "none":
            weight = self.ledoit_wolf_weight(gram_squared_norm)
            weights = ((1 - weight) / self.images, weight * self.mean_variance + floor)
        return Moments(self, *weights)
