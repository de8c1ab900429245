"""The nonlinearity coefficient: how far outputs spread by their derivative, over how far they do.

With inputs x of covariance Cov_x, outputs f(x) of covariance Cov_f, and the Jacobian J(x),

    NLC = sqrt( E_x Tr( J(x) Cov_x J(x)^T ) / Tr Cov_f ).

A linear network has 1; one that bends back and forth within the data has more. Cov_x is never
formed: for two images drawn at random u = (x_i - x_j) / sqrt(2) has it as the mean of u u^T, so
that the numerator is the mean of |J(x_k) u|^2, one product with the Jacobian each. A permutation
of the images gives k, i and j: three that follow each other.

Such products share images with their two neighbours in the permutation. Its standard error is
therefore the bootstrap's over blocks of it, of numerator and denominator together.

References
----------
Philipp and Carbonell 2018, "The Nonlinearity Coefficient - Predicting Generalization in Deep Neural
Networks", arXiv:1806.00179; Philipp 2021, arXiv:2105.12210.
Künsch 1989, "The jackknife and the bootstrap for general stationary observations", Annals of
Statistics 17 (blocks).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from survey.network_measures.base import NetworkQuantity, NetworkScore, SampledMeasure, Steps

if TYPE_CHECKING:
    import torch
    from torch import nn

    from survey.network_measures.sample import ImageSample

#: Images, the fewest that will do, and the seed of their permutation and of the bootstrap.
IMAGES, FEWEST, SEED = 512, 3, 0

#: Resamples of the bootstrap, and neighbours of the permutation in one block: several times the two
#: that share an image.
RESAMPLES, BLOCK = 200, 10

#: Forward passes that a product with the Jacobian takes as long as: from 2.6 to 4.8 were measured.
PASSES = 4.0


def nonlinearity_coefficient(model: nn.Module, sample: ImageSample) -> Steps:
    """Compute the nonlinearity coefficient of a network on images.

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
        ``nonlinearity_coefficient`` with its standard error, or the reason for having none. Its
        details say in which direction the Jacobian was multiplied: ``forward``, or ``reverse``
        with one random vector of outputs an image where a call has no forward derivative.
    """
    import torch

    n = len(sample)
    if n < FEWEST:
        return {MEASURE.name: NetworkScore(None, f"it needs {FEWEST} images, and there are {n}")}
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(n, generator=generator)
    parts, outputs = [], []
    product = _Product(model, generator)
    for places in sample.passes():
        x, first, second = (sample.inputs(order[(places + shift) % n]) for shift in range(3))
        output, squares = product(x, (first - second) / math.sqrt(2))
        outputs.append(output)
        parts.append(squares)
        yield (int(places[-1]) + 1) / n
    squares, whole = torch.cat(parts), torch.cat(outputs)
    return {MEASURE.name: _coefficient(squares, whole, product.direction, generator)}


class _Product:
    """|J(x) u|^2 of each image, forward as long as the network has a forward derivative."""

    def __init__(self, model: nn.Module, generator: torch.Generator) -> None:
        self._model, self._generator = model, generator
        self.direction = "forward"

    def __call__(self, x: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return n x c outputs and n squares, in float64 on the CPU."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        from survey.out_of_memory import is_of_machine
        from survey.plain_attention import plain_attention

        # Tensors of the inference mode have no derivatives.
        normal = torch.inference_mode(mode=False)
        with normal, plain_attention(), sdpa_kernel(SDPBackend.MATH):
            if self.direction == "forward":
                try:
                    # A network may change its input in place, and with it the direction.
                    return self._forward(x.clone(), u.clone())
                except RuntimeError as error:
                    if is_of_machine(error):
                        raise
                    self.direction = "reverse"
            return self._reverse(x, u)

    def _forward(self, x: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch
        from torch.autograd import forward_ad

        with warnings.catch_warnings(), torch.no_grad(), forward_ad.dual_level():
            # Of what torch itself calls when the first derivative is taken.
            warnings.filterwarnings("ignore", ".*torch.jit.script", FutureWarning)
            output, change = forward_ad.unpack_dual(_rows(self._model(forward_ad.make_dual(x, u))))
            squares = torch.zeros(len(x)) if change is None else change.double().square().sum(1)
        return _exact(output), _exact(squares)

    def _reverse(self, x: torch.Tensor, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        with torch.enable_grad():
            x = x.clone().requires_grad_()
            # A network may change its input in place, which a leaf does not allow.
            output = _rows(self._model(x.clone()))
            v = torch.randn(output.shape, generator=self._generator).to(output)
            (gradient,) = torch.autograd.grad((output * v).sum(), x)
        return _exact(output.detach()), _exact((gradient * u).flatten(1)).sum(1).square()


def _rows(output: Any) -> torch.Tensor:
    """Return what a network gives for each image as one row."""
    import torch

    if isinstance(output, Mapping):
        output = output.get("logits")
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"the network returns a {type(output).__name__}, no tensor")
    return output.reshape(len(output), -1)


def _exact(values: torch.Tensor) -> torch.Tensor:
    return values.cpu().double()


def _coefficient(
    squares: torch.Tensor, outputs: torch.Tensor, direction: str, generator: torch.Generator
) -> NetworkScore:
    """Return the coefficient from n products and n x c outputs in the order of the permutation."""
    import torch

    n = len(squares)
    if not (squares.isfinite().all() and outputs.isfinite().all()):
        return NetworkScore(None, "an output, or its derivative, is not finite", samples=n)
    size = outputs.square().sum(1).mean()
    outputs = outputs - outputs.mean(0)
    # What is left of constant outputs is the rounding of float32.
    if outputs.square().sum(1).mean() <= (8 * torch.finfo(torch.float32).eps) ** 2 * size:
        return NetworkScore(None, "its outputs are the same for all images", samples=n)
    if not squares.any():
        return NetworkScore(None, "its outputs change, but have no derivative", samples=n)
    whole = torch.full((1, n), 1.0, dtype=torch.float64)
    value = _ratios(whole, squares, outputs).item()
    spread = _ratios(_resampled(n, generator), squares, outputs)
    details = {"direction": direction, "seed": SEED, "resamples": RESAMPLES, "block": BLOCK}
    error = spread[spread.isfinite()].std().item()
    return NetworkScore(value, standard_error=error, samples=n, details=details)


def _resampled(n: int, generator: torch.Generator) -> torch.Tensor:
    """Return how often each resample has each image, ``RESAMPLES`` x n: blocks on a circle."""
    import torch

    block = max(1, min(BLOCK, n // 4))
    starts = torch.randint(n, (RESAMPLES, -(-n // block)), generator=generator)
    drawn = ((starts[:, :, None] + torch.arange(block)) % n).flatten(1)[:, :n]
    counts = torch.zeros(RESAMPLES, n, dtype=torch.float64)
    return counts.scatter_add_(1, drawn, torch.ones_like(drawn, dtype=torch.float64))


def _ratios(counts: torch.Tensor, squares: torch.Tensor, outputs: torch.Tensor) -> torch.Tensor:
    """Return the coefficient of each resample; outputs are centred."""
    n = len(squares)
    means = counts @ outputs / n
    variance = counts @ outputs.square().sum(1) / n - means.square().sum(1)
    return (counts @ squares / n / (variance * n / (n - 1))).sqrt()


_QUANTITIES = (
    NetworkQuantity(
        name="nonlinearity_coefficient",
        sentence="How far outputs spread by their derivative, over how far they do; 1 if linear.",
        formula="sqrt(E[norm(J(x_k) (x_i - x_j))^2] / (2 * sum over outputs of their variance))",
        unit="1",
        low=0.0,
        high=math.inf,
        source="arXiv:1806.00179",
    ),
)

MEASURE = SampledMeasure(
    name="nonlinearity_coefficient",
    version=1,
    quantities=_QUANTITIES,
    images=IMAGES,
    passes=lambda sites: PASSES,  # noqa: ARG005 - the same whatever the number of sites
    compute=nonlinearity_coefficient,
)
