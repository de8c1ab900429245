"""The rounding noise of a forward pass, measured by Monte Carlo arithmetic.

A pass of few images is repeated with each result multiplied by 1 + e, e random and of the size of
a rounding. What moves by that is noise. It is judged by the size of what was summed wherever
values cancel: in a mean over space, in a normalisation, in a difference many layers before the
site. ``bench/rounding.py`` compares it with what float64 shows.

References
----------
Parker 1997, "Monte Carlo Arithmetic", UCLA CSD-970002.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from survey.capture.layout import CONSTANT, layout_of, tensors_in

#: Images of the pass that is repeated: their channels together make the estimate.
NOISE_IMAGES = 4


@dataclass(frozen=True, slots=True)
class Noise:
    """The change of a pooled pair when every rounding happens otherwise."""

    #: Change of the pooled input, k x c for k images.
    x: torch.Tensor
    #: Change of the pooled output, k x c.
    y: torch.Tensor


class Rounding:
    """Random errors of the size of a rounding, the same ones for each new instance."""

    def __init__(self) -> None:
        self._generators: dict[torch.device, torch.Generator] = {}

    def disturb(self, given: Any, made: Any) -> None:
        """Add an error to every value that a call computed from the images.

        Parameters
        ----------
        given
            The call's arguments. A result that shares their memory is a view or was written in
            place; it is left alone, since the memory may be the network's.
        made
            The call's result, whose tensors are changed.
        """
        held = {_storage(tensor) for tensor in tensors_in(given)}
        for result in tensors_in(made):
            if _computed(result) and _storage(result) not in held:
                result.add_(result * self._errors(result))

    def _errors(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return relative errors, uniform within the machine epsilon of the tensor's type."""
        device = tensor.device
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(0)
        epsilon = torch.finfo(tensor.dtype).eps
        # Half precision cannot hold the errors of its sums.
        wide = tensor.dtype in (torch.float64, torch.complex128)
        errors = torch.empty_like(tensor, dtype=torch.float64 if wide else torch.float32)
        return errors.uniform_(-epsilon, epsilon, generator=self._generators[device])


def _computed(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds rounded numbers that depend on the images."""
    return (
        tensor.dtype in _ROUNDED
        and tensor.layout is torch.strided
        and layout_of(tensor) != CONSTANT
    )


def _storage(tensor: torch.Tensor) -> int | None:
    dense = tensor.layout is torch.strided
    return tensor.untyped_storage()._cdata if dense else None


_ROUNDED = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip
