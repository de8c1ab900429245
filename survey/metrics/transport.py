"""The optimal affine map between Gaussians, and the exact transport cost between two clouds.

T = Sx^-1/2 (Sx^1/2 Sy Sx^1/2)^1/2 Sx^-1/2 is the same in every orthonormal basis. In that of X's
singular vectors Sx is diagonal, whatever the weights of its estimator: one decomposition serves
them all. Torch is imported where it computes, as in metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from survey.metrics.moments import Moments, Rows

#: Total variance over the least eigenvalue above which only a singular value decomposition, two
#: to five times slower, keeps the identity's score within 1e-7 of 1. Shrunk inputs lie below.
NEARLY_SINGULAR = 1e7

#: Ratio of the least and the greatest squared pivot of the inputs' inner products under which these
#: do not hold what is along the weakest directions.
_EMPTY = 1e-8

#: Share of the outputs' variance beside the span of the inputs under which inner products do not
#: hold enough of it.
_AFFINE = 1e-6

#: Share of the identity's part of a variance under which what comes beside it is left out: it moves
#: T by half of that.
_WEAK = 1e-10

#: Share of the directions that must be left for a smaller basis to save more than it takes.
_WORTH_IT = 0.85


@dataclass(frozen=True)
class CommonBasis:
    """Inputs and outputs in one orthonormal basis of r <= 2 n directions."""

    #: Inputs and outputs themselves.
    x: Rows
    y: Rows
    #: Sums of squares of the inputs along the first k directions, singular vectors of X.
    scatters: torch.Tensor
    #: Coordinates of the centred inputs along the first m >= k directions, n x m; along all others
    #: they are 0.
    inputs: torch.Tensor
    #: Coordinates of the centred outputs, n x r.
    outputs: torch.Tensor

    @classmethod
    def of(cls, x: Rows, y: Rows) -> CommonBasis:
        """Return the basis of all directions of X.

        Where c > n there are at most 2 n or c, whichever is less: off the span of all rows both
        covariances are multiples of the identity, so that T is a number there and the rows vanish.
        Leaving that complement out is exact.

        Parameters
        ----------
        x, y : Rows
            Inputs and outputs, with equal n and c.
        """
        import torch

        n = x.images
        if x.channels <= n:
            values, vectors = x.directions
            return cls(x, y, values.clamp_min(0.0), x.turned, y.centred @ vectors)
        if x.channels >= 2 * n and (basis := cls._from_inner_products(x, y)) is not None:
            return basis
        # Of rows = R' Q', R' are the coordinates: the basis itself is never made. X fills the
        # first n directions, which are then turned into its singular vectors.
        triangle = torch.linalg.qr(torch.cat([x.centred, y.centred]).T, mode="r").R
        first = triangle[:n, :n]
        values, vectors = torch.linalg.eigh(first @ first.T, UPLO="U")
        outputs = torch.cat([triangle[:n, n:].T @ vectors, triangle[n:, n:].T], dim=1)
        return cls(x, y, values.clamp_min(0.0), first.T @ vectors, outputs)

    @classmethod
    def _from_inner_products(cls, x: Rows, y: Rows) -> CommonBasis | None:
        """Return the basis of 2 n - 2 directions from inner products of the rows, for c >= 2 n.

        It takes less time than that from a triangle, and R2 and CKA need most of it, too. It is
        None where inner products hold too few digits: behind a narrow layer, or where the map is
        nearly affine.
        """
        import torch

        # Behind most narrow layers half of the images are dependent, which takes a quarter to see.
        half = x.centred[: x.images // 2]
        if not (_independent(half @ half.T) and _independent(x.gram[1:, 1:])):
            return None
        # Centred rows sum to 0: they have nothing along the weakest direction.
        values, vectors = x.directions[0][1:], x.directions[1][:, 1:]
        lengths = values.sqrt()
        along = (y.centred @ x.centred.T) @ (vectors / lengths)
        left = y.gram - along @ along.T
        lower, failed = torch.linalg.cholesky_ex(left[1:, 1:])
        if failed or float(left.trace()) < _AFFINE * y.scatter:
            return None
        beside = torch.cat([-lower.sum(dim=0, keepdim=True), lower])
        return cls(x, y, values, vectors * lengths, torch.cat([along, beside], dim=1))

    def condensed(self, before: Moments) -> CommonBasis:
        """Return a basis of k + n + 1 directions where X fills k beside the identity's share.

        A narrow layer before the site leaves rounding alone along X's other directions. There its
        covariance is a multiple of the identity, and what is left of Y has rank n at most. Off that
        T is a number: one direction holds the length of what is left of each row of X.

        Parameters
        ----------
        before : Moments
            The inputs' covariance.
        """
        import torch

        (n, m), r = self.inputs.shape, self.outputs.shape[1]
        # The weakest are first.
        weak = int((before.gram_weight * self.scatters <= _WEAK * before.identity_weight).sum())
        if m - weak + n >= _WORTH_IT * r:
            return self
        strong, slight = self.inputs[:, weak:], self.inputs[:, :weak]
        rest = torch.cat([self.outputs[:, :weak], self.outputs[:, m:]], dim=1)
        turn, triangle = torch.linalg.qr(rest.T)
        turned = slight @ turn[:weak]
        left = slight.square().sum(dim=1) - turned.square().sum(dim=1)
        inputs = [strong, turned, left.clamp_min(0.0).sqrt()[:, None]]
        outputs = [self.outputs[:, weak:m], triangle.T, torch.zeros_like(left)[:, None]]
        return CommonBasis(
            self.x,
            self.y,
            self.scatters[weak:],
            torch.cat(inputs, dim=1),
            torch.cat(outputs, dim=1),
        )

    @cached_property
    def output_gram(self) -> torch.Tensor:
        """Gram matrix of the outputs' coordinates, r x r."""
        return self.outputs.T @ self.outputs


def _independent(gram: torch.Tensor) -> bool:
    """Return whether rows with those inner products are independent, and not by rounding."""
    import torch

    lower, failed = torch.linalg.cholesky_ex(gram)
    pivots = lower.diagonal().square()
    return not failed and bool(pivots.min() > _EMPTY * pivots.max())


def transported(basis: CommonBasis, before: Moments, after: Moments) -> torch.Tensor:
    """Return the inputs mapped by T, in coordinates of the basis, n x r.

    Parameters
    ----------
    basis : CommonBasis
        Inputs and outputs.
    before, after : Moments
        Their covariances.

    Raises
    ------
    torch.linalg.LinAlgError
        If a covariance is singular in float64.
    """
    import torch

    sy = after.covariance(basis.output_gram)
    variances = sy.new_full((len(sy),), before.identity_weight)
    variances[: len(basis.scatters)] = before.variances(basis.scatters)
    deviations = variances.sqrt()
    if before.trace > NEARLY_SINGULAR * before.identity_weight:
        # An eigensolve keeps half the digits of the small roots; singular values keep them all.
        factor = torch.linalg.cholesky(sy).T * deviations
        _, roots, turn = torch.linalg.svd(factor)
        vectors = turn.T
    else:
        values, vectors = torch.linalg.eigh(deviations[:, None] * sy * deviations, UPLO="U")
        roots = values.clamp_min(0.0).sqrt()
    filled = basis.inputs.shape[1]
    whitened = basis.inputs / deviations[:filled]
    mapped: torch.Tensor = (whitened @ vectors[:filled] * roots) @ vectors.T / deviations
    return mapped


def assignment_cost(x: torch.Tensor, y: torch.Tensor) -> float:
    """Return min over permutations p of the mean of |x_i - y_p(i)|^2: W2^2 of two clouds.

    Parameters
    ----------
    x, y : torch.Tensor
        n x c, float64.
    """
    import torch

    # Of |x - y|^2 only the cross term depends on the pairing; the cost of the best pairing is
    # then summed from differences, because expanding the square would lose half the digits.
    _, partner = assignment_solver()(reduced(-(x @ y.T)).cpu().numpy())
    y = y[torch.from_numpy(partner).to(y.device)]
    return float((x - y).square().sum()) / x.shape[0]


def reduced(costs: torch.Tensor) -> torch.Tensor:
    """Return costs of pairings less a number for each row and each column, none below 0.

    The best pairing stays the same, and a solver that grows it along the least costs finds it two
    to fifteen times sooner. Where x_i is near y_i, as it is after the optimal map, c_ij is about
    -y_i y_j, and of it |y_i - y_j|^2 / 2 is left: 0 where i is paired with itself.

    Parameters
    ----------
    costs : torch.Tensor
        n x n, the cost of pairing i with j. It is overwritten.
    """
    half = 0.5 * costs.diagonal()
    costs = costs.sub_(half[:, None] + half)
    costs -= costs.amin(dim=1, keepdim=True)
    costs -= costs.amin(dim=0)
    return costs


@cache
def assignment_solver() -> Callable[[NDArray[np.floating]], tuple[Any, Any]]:
    """Return scipy's ``linear_sum_assignment``.

    It is loaded by itself where that is possible: importing all of ``scipy.optimize`` takes a
    quarter of the time of torch's import.
    """
    import scipy

    folder = str(Path(scipy.__file__).parent / "optimize")
    spec = PathFinder.find_spec("scipy.optimize._lsap", [folder])
    if spec is None or spec.loader is None:
        optimize = import_module("scipy.optimize")
    else:
        optimize = module_from_spec(spec)
        spec.loader.exec_module(optimize)
    solve: Callable[..., Any] = optimize.linear_sum_assignment
    return solve
