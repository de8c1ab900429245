"""Lineages: the activation calls that a tensor descends from, and the longest path to it.

Two things about a site follow from descent: its graph depth, and whether it is a gate, whose
output only scales another value. The rules are those of the calls themselves:

- An activation's output is one activation deeper than its input. The result of any other call is
  as deep as its deepest argument.
- In an elementwise product, a factor that is an activation's own output, reshaped, resized or
  scaled at most, gates the other factor, unless that one descends from the same activation, or
  is itself spread over positions or channels: then it is no value, but scales. Of two factors
  that would both do, the one with the more gate-like activation is the gate (sigmoid, then its
  piecewise linear form, then tanh); of two alike neither is, but their product may gate a third.
- A factor that is an activation of the other factor itself, scaled, shifted or reshaped, such as a
  swish written by hand, gates nothing: both are one value.
- What reaches the network's output through gates alone belongs to the gate: squeeze-excite's
  inner activation, for one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from survey.capture.arguments import (
    TAKES_SHAPE,
    storage_of,
    tensors_in,
    tensors_of_output,
    tensors_read,
)
from survey.capture.axis_origins import named
from survey.capture.layout import CONSTANT, MARK, layout_of

_LINEAGE = f"{MARK}_lineage"

#: Identifies the value that a tensor is a pointwise function of.
_VALUE = f"{MARK}_value"


@dataclass(frozen=True, slots=True)
class Lineage:
    """The sites that one tensor descends from, as bit masks: bit i for site number i."""

    #: Activations on the longest path from the network's input.
    depth: int
    #: All sites on any path.
    through: int
    #: Sites on paths that do not lead through a gate.
    main: int
    #: The sites whose own output this is, but for its shape and scale.
    direct: int = 0


#: The network's input.
ORIGIN = Lineage(0, 0, 0)

#: All sites: a tensor that nothing is known of may descend from any.
_ALL = -1


class Descent:
    """The sites of one forward pass in execution order, and the lineages of its tensors."""

    def __init__(self) -> None:
        #: How gate-like each site's activation is; the lower, the more.
        self._ranks: list[int] = []
        #: The values each site is made of, to know a swish written by hand: it scales one of them.
        self._made_of: list[frozenset[object]] = []
        self._deepest = 0
        self._direct_gates = 0
        #: What was written through views, by the storage that holds it. Storages are kept, so that
        #: no other tensor gets the same one.
        self._written: dict[int, tuple[torch.UntypedStorage, Lineage]] = {}

    def open_site(self, tensor: torch.Tensor, activation: str) -> tuple[int, Lineage]:
        """Return the number of a new site and the lineage of its output.

        Parameters
        ----------
        tensor : torch.Tensor
            Its input, before the call.
        activation : str
            The activation's canonical name.

        Returns
        -------
        int
            The site's number, counting from 0.
        Lineage
            That of its output; its depth is the site's graph depth.
        """
        before = self._of(tensor) or ORIGIN
        number = len(self._ranks)
        self._ranks.append(_RANKS.get(activation, len(_RANKS)))
        self._made_of.append(self._values(tensor, before))
        self._deepest = max(self._deepest, before.depth + 1)
        bit = 1 << number
        if activation == "glu":
            # The call gates by itself: what comes out is the other half, scaled.
            self._direct_gates |= bit
            return number, Lineage(before.depth + 1, before.through | bit, before.main)
        return number, Lineage(before.depth + 1, before.through | bit, before.main | bit, bit)

    def follow(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Mark the tensors that a call returned; for the parameters see ``layout.follow``."""
        if function is torch.Tensor.__setitem__:
            self.mark(args[0], self._joined([args[0], *tensors_in(args[2])]), args)
            return
        results = [result for result in tensors_in(out) if layout_of(result) != CONSTANT]
        if not results:
            return
        # What is overwritten is no argument, though it is handed over as one.
        arguments = args[1:] if function in _OVERWRITES else args
        inputs = tensors_read(function, arguments, kwargs)
        if function in _PRODUCTS and len(inputs) == 2:
            lineage = self._product(inputs[0], inputs[1], results[0].numel())
        else:
            lineage = self._joined(inputs, keep=function in _KEEPS)
        value = self._value_kept(inputs) if function in _POINTWISE | _POWERS else None
        for result in results:
            self.mark(result, lineage, [*tensors_in(args), *tensors_in(kwargs)], value)

    def join(self, values: Any, out: Any) -> None:
        """Mark tensors as descending from others through calls that were not seen."""
        inputs = tensors_in(values)
        lineage = self._joined(inputs)
        for result in tensors_in(out):
            self.mark(result, lineage, inputs)

    def mark(
        self,
        tensor: torch.Tensor,
        lineage: Lineage,
        inputs: Sequence[Any] = (),
        value: object | None = None,
    ) -> None:
        """Attach a lineage to a tensor, and to its storage where the call was in place."""
        if layout_of(tensor) == CONSTANT:
            return
        setattr(tensor, _LINEAGE, lineage)
        setattr(tensor, _VALUE, value or object())
        if any(tensor is value for value in inputs):
            self._write(tensor, lineage)

    def gates(self, output: Any) -> int:
        """Return the mask of all gates, given the network's output."""
        reached, main = 0, 0
        for tensor in tensors_of_output(output):
            lineage = self._of(tensor) or ORIGIN
            reached |= lineage.through
            main |= lineage.main
        return self._direct_gates | (reached & ~main)

    def _of(self, tensor: torch.Tensor) -> Lineage | None:
        """Return a tensor's lineage; None if it does not depend on the images."""
        lineage: Lineage | None = getattr(tensor, _LINEAGE, None)
        if lineage is None:
            # A number from outside of torch is taken for a constant of the network.
            if layout_of(tensor) == CONSTANT or tensor.ndim == 0:
                return None
            lineage = Lineage(self._deepest, _ALL, _ALL)
        if self._written:
            with torch._C.DisableTorchFunction():
                storage = storage_of(tensor)
            held = self._written.get(storage._cdata) if storage is not None else None
            if held is not None:
                return _union([lineage, held[1]])
        return lineage

    def _joined(self, inputs: Sequence[torch.Tensor], *, keep: bool = False) -> Lineage:
        lineages = [lineage for t in inputs if (lineage := self._of(t)) is not None]
        if len(lineages) == 1:
            return lineages[0] if keep else replace(lineages[0], direct=0)
        return _union(lineages)

    def _product(self, left: torch.Tensor, right: torch.Tensor, size: int) -> Lineage:
        first, second = self._of(left), self._of(right)
        if first is None or second is None:
            return first or second or ORIGIN
        if (site := self._own_product(left, right)) is not None:
            return replace(_union([first, second]), direct=site)
        left_may, right_may = _may_gate(first, second), _may_gate(second, first)
        left_gates = left_may and _own_size(right) == size
        right_gates = right_may and _own_size(left) == size
        if left_gates and right_gates:
            difference = self._rank_of(first.direct) - self._rank_of(second.direct)
            left_gates, right_gates = difference < 0, difference > 0
        whole = _union([first, second])
        if not (left_gates or right_gates):
            alike = left_may and right_may
            return replace(whole, direct=first.direct | second.direct) if alike else whole
        gate, value = (first, second) if left_gates else (second, first)
        self._direct_gates |= gate.direct
        return replace(whole, main=value.main)

    def _own_product(self, left: torch.Tensor, right: torch.Tensor) -> int | None:
        """Return the mask of the site whose output and input the factors are; None if of none."""
        for value, factor in ((left, right), (right, left)):
            made = self._of(factor)
            sites = 0 if made is None else made.direct
            if sites > 0 and _value(value) in self._made_of[sites.bit_length() - 1]:
                return sites
        return None

    def _values(self, tensor: torch.Tensor, lineage: Lineage) -> frozenset[object]:
        """Return the values that a tensor is a pointwise function of, activations included."""
        sites = max(0, lineage.direct)
        through = self._made_of[sites.bit_length() - 1] if sites else frozenset()
        return frozenset({_value(tensor)}) | through

    def _value_kept(self, inputs: Sequence[torch.Tensor]) -> object | None:
        """Return the value that all inputs are functions of; None if there are several."""
        values = {_value(tensor) for tensor in inputs if self._of(tensor) is not None}
        return values.pop() if len(values) == 1 else None

    def _rank_of(self, sites: int) -> int:
        return min(rank for site, rank in enumerate(self._ranks) if sites >> site & 1)

    def _write(self, tensor: torch.Tensor, lineage: Lineage) -> None:
        with torch._C.DisableTorchFunction():
            storage = storage_of(tensor)
            if storage is None or tensor.numel() * tensor.element_size() == storage.nbytes():
                return
            held = self._written.get(storage._cdata)
        lineages = [lineage] if held is None else [lineage, held[1]]
        self._written[storage._cdata] = (storage, _union(lineages))


def begin(tensor: torch.Tensor) -> None:
    """Mark the network's input."""
    setattr(tensor, _LINEAGE, ORIGIN)


def _value(tensor: torch.Tensor) -> object:
    """Return the value that a tensor is a function of; a new one if none is known."""
    if not hasattr(tensor, _VALUE):
        setattr(tensor, _VALUE, object())
    return getattr(tensor, _VALUE)


def _union(lineages: Sequence[Lineage]) -> Lineage:
    depth, through, main = 0, 0, 0
    for lineage in lineages:
        depth = max(depth, lineage.depth)
        through |= lineage.through
        main |= lineage.main
    return Lineage(depth, through, main)


def _may_gate(factor: Lineage, other: Lineage) -> bool:
    """Return whether a factor is an activation's output that the other does not descend from."""
    return bool(factor.direct) and not other.through & factor.direct


def _own_size(tensor: torch.Tensor) -> int:
    """Return the number of values in a tensor, without those that expansion repeats."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return math.prod(size for size, stride in sizes if stride != 0)


#: The most gate-like activations, the most so first.
_RANKS = {"sigmoid": 0, "hardsigmoid": 1, "tanh": 2}

_PRODUCTS = named("mul", "mul_", "multiply", "multiply_", "__mul__", "__rmul__", "__imul__")
#: Calls that overwrite their first argument without reading it.
_OVERWRITES = named("copy_")
#: Calls whose result is a pointwise function of their arguments, laid out anew at most.
_POINTWISE = _PRODUCTS | TAKES_SHAPE | named(
    "reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose",
    "swapaxes", "movedim", "moveaxis", "float", "half", "bfloat16", "double", "type", "contiguous",
    "clone", "detach", "dropout", "neg", "__neg__", "add", "add_", "__add__", "__radd__",
    "__iadd__", "sub", "sub_", "rsub", "__sub__", "__rsub__", "__isub__", "div", "div_",
    "__truediv__", "__itruediv__", "true_divide",
)  # fmt: skip
#: Those whose result is made of one value still, without being that activation's own output.
_POWERS = named("pow", "pow_", "__pow__", "__ipow__", "square", "square_")
#: Calls after which a tensor still is an activation's own output, where all other arguments are
#: numbers or do not depend on the images.
_KEEPS = _POINTWISE | named(
    "expand", "broadcast_to", "repeat", "repeat_interleave", "tile", "interpolate", "upsample",
    "chunk", "split", "tensor_split", "__getitem__", "select", "narrow", "unbind",
)  # fmt: skip
