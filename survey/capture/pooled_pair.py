"""The pooled input and output of one activation call."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from survey.capture.arguments import Again
from survey.capture.axes import Axes
from survey.capture.near_zero import NearZero
from survey.capture.pair_memory import PairMemory
from survey.capture.pooling import pool, pool_and_count, spread
from survey.capture.rounding import Noise
from survey.errors import CaptureError
from survey.out_of_memory import is_of_machine
from survey.results import Site
from survey.settings import Pooling


@dataclass(frozen=True, slots=True)
class PooledPair:
    """The input and the output of one activation call, pooled over space."""

    #: The activation site of the call.
    site: Site
    #: Pooled input, B x c, as ``pool`` returns it; None where it cannot be pooled.
    x: torch.Tensor | None
    #: Pooled output, B x c, as ``pool`` returns it; None where it cannot be pooled.
    y: torch.Tensor | None
    #: Values of the unpooled input and output, and how many of them are nearly zero.
    before: NearZero
    after: NearZero
    #: Machine epsilon of the type that the network's sums were computed in.
    resolution: float
    #: Why there is no pair.
    reason: str | None
    #: Rounding noise of the first images of a score; None for the others.
    noise: Noise | None = None


@dataclass(frozen=True, slots=True)
class PairPooling:
    """How the tensors of one forward pass become matrices.

    Pooling is no part of the network: a torch function mode does not see its calls.
    """

    #: Images in the pass.
    images: int
    #: None where something else is followed and nothing is pooled.
    kind: Pooling | None
    #: Whether counts near zero are wanted.
    counted: bool = True
    #: Where matrices lie.
    memory: PairMemory = field(default_factory=PairMemory)

    def matrix(
        self, tensor: torch.Tensor, axes: Axes, count: NearZero | None = None
    ) -> tuple[torch.Tensor | None, NearZero, str | None]:
        """Return the pooled matrix, the count near zero, and the reason for having no matrix.

        A count that is given is not made again.
        """
        if self.kind is None:
            return None, NearZero(0, 0), "it is not pooled"
        with torch._C.DisableTorchFunction():
            try:
                # A network on the meta device is followed for its sites alone. On a processor
                # counts come with the means, from one pass.
                if tensor.is_meta or not (self.counted or tensor.device.type == "cpu"):
                    count = NearZero(0, 0)
                layout = axes.whole(self.images)
                if self.kind != "public_code":
                    tensor, layout = axes.unfolded(tensor.detach(), self.images)
                if count is not None:
                    pooled = pool(tensor, layout, self.images, self.kind)
                else:
                    pooled, count = pool_and_count(tensor, layout, self.images, self.kind)
                return self.memory.copied(pooled), count, None
            except CaptureError as error:
                return None, NearZero(0, 0), error.message

    def activated(
        self, again: Again, x: torch.Tensor, axes: Axes, dtype: torch.dtype
    ) -> tuple[torch.Tensor | None, str | None]:
        """Return the activation of a pooled input, or the reason for which it cannot run."""
        with torch._C.DisableTorchFunction():
            # An in-place activation must not overwrite the pooled input.
            axes = axes.collapsed()
            meant, layout = axes.unfolded(x.new_empty(axes.lengths()), self.images)
            values = spread(x, layout, tuple(meant.shape)).view(axes.lengths())
            try:
                activated = again(values.to(dtype, copy=True))
                pooled = pool(*axes.unfolded(activated, self.images), self.images, "mean")
                return self.memory.copied(pooled), None
            except (RuntimeError, CaptureError) as error:
                if is_of_machine(error):
                    raise
                # One with a parameter for every position, such as a PReLU over tokens.
                return None, f"the activation does not run on an average over space: {error}"


def resolution(dtype: torch.dtype) -> float:
    """Return the relative rounding error of sums of a type: its machine epsilon."""
    if not dtype.is_floating_point:
        return 0.0
    # Half precision is summed in float32: what differs there by a rounding does differ.
    return min(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
