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

from survey.capture.arguments import storage_of, tensors_in
from survey.capture.axis_origins import TensorFunction
from survey.capture.layout import CONSTANT, FROM_DATA, layout_of

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

    def disturb(self, function: TensorFunction, given: Any, made: Any) -> None:
        """Add an error to every value that a call computed from the images.

        Parameters
        ----------
        function : callable
            What was called. What it took from outside of torch is left alone, as is a view.
        given
            The call's arguments. A result that shares their memory is a view or was written in
            place; it is left alone, since the memory may be the network's.
        made
            The call's result, whose tensors are changed.
        """
        if function in FROM_DATA:
            return
        held = {_address(tensor) for tensor in tensors_in(given)}
        for result in tensors_in(made):
            if _computed(result) and _address(result) not in held:
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
        and storage_of(tensor) is not None
        and layout_of(tensor) != CONSTANT
    )


def _address(tensor: torch.Tensor) -> int | None:
    storage = storage_of(tensor)
    return None if storage is None else storage._cdata


_ROUNDED = (
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip
