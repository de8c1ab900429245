"""A site's pooled input and output on one batch, with the statistics that metrics share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar, cast

import torch

from survey.capture.near_zero import NearZero, count_near_zero
from survey.capture.rounding import Noise
from survey.metrics.moments import Rows
from survey.settings import Ridge, Shrinkage

T = TypeVar("T")


class Pair:
    """Input and output of one site, ready for every metric.

    Parameters
    ----------
    x, y : torch.Tensor
        Pooled input and output, n x c, finite, n at least 2.
    shrinkage, ridge
        The affinity score's settings; see ``MeasureSettings``.
    before, after : NearZero, optional
        Counts of the unpooled input's and output's values near zero; the matrices' own if none
        are given.
    resolution : float, optional
        Machine epsilon of the type the network computed in.
    noise : Noise, optional
        Rounding errors of some images' inputs and outputs.
    """

    def __init__(
        self,
        x: torch.Tensor,
        y: torch.Tensor,
        shrinkage: Shrinkage = "ledoit-wolf",
        ridge: Ridge = "relative",
        *,
        before: NearZero | None = None,
        after: NearZero | None = None,
        resolution: float = torch.finfo(torch.float64).eps,
        noise: Noise | None = None,
    ) -> None:
        errors = (None, None) if noise is None else (noise.x, noise.y)
        self.x, self.y = Rows(x, errors[0], resolution), Rows(y, errors[1], resolution)
        self.shrinkage: Shrinkage = shrinkage
        self.ridge: Ridge = ridge
        self._counts = before, after
        self._known: dict[Callable[[Pair], Any], Any] = {}

    @cached_property
    def before(self) -> NearZero:
        """Count of the input's values near zero."""
        return self._counts[0] or count_near_zero(self.x.values)

    @cached_property
    def after(self) -> NearZero:
        """Count of the output's values near zero."""
        return self._counts[1] or count_near_zero(self.y.values)

    @property
    def images(self) -> int:
        """Number of images: rows n."""
        return self.x.images

    @property
    def channels(self) -> int:
        """Number of channels: columns c."""
        return self.x.channels

    @cached_property
    def constant_fraction(self) -> float:
        """Share of the channels whose output is the same for every image."""
        return float(self.y.constant_columns.double().mean())

    @cached_property
    def constant(self) -> str | None:
        """Why nothing can be measured, where input or output vary by rounding at most."""
        for side, rows in (("output", self.y), ("input", self.x)):
            if rows.is_constant:
                return f"the {side} is the same for every image, but for rounding"
        return None

    @property
    def noise_share(self) -> float:
        """Rounding noise over deviation, of the input or the output, whichever is more."""
        return max(self.x.noise_share, self.y.noise_share)

    def once(self, quantity: Callable[[Pair], T]) -> T:
        """Return ``quantity(self)``, computed at the first call and kept."""
        if quantity not in self._known:
            self._known[quantity] = quantity(self)
        return cast("T", self._known[quantity])
