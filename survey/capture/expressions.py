"""Activations written by hand: calls that make one non-linear function of one value.

Every tensor is followed back through elementwise calls to the values that it is a function of:
``x * sigmoid(x)``, ``where(x > 0, x, a * x)`` and ``maximum(x, 0)`` are functions of x. A product,
quotient, choice, extreme or clip of functions of one value is an activation, the latest value that
all of its arguments are functions of is its input, and activations on the way are parts of it.
Powers of a value, clips of a statistic and what joins two values are none.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from survey.capture.arguments import argument, tensors_in, tensors_read
from survey.capture.axis_origins import REDUCTIONS
from survey.capture.elementwise import ELEMENTWISE, Family
from survey.capture.layout import CONSTANT, MARK, layout_of

_TERM = f"{MARK}_term"

#: Why a call on constants is no site.
INDEPENDENT = "does not depend on the images"

#: Bounds of this size keep values in the range of a number type.
_RANGE = 1e3

#: How a tensor follows from a value: affine, as a polynomial, as one of exponentials, or in another
#: way.
_AFFINE, _POLYNOMIAL, _EXPONENTIAL, _BENT = range(4)


class _HeldValue:
    """What one tensor held when it was made; nothing once that was overwritten or is gone."""

    __slots__ = ("__weakref__", "_held")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._held: weakref.ref[torch.Tensor] | None = weakref.ref(tensor)

    def tensor(self) -> torch.Tensor | None:
        """Return the tensor that still holds the value; None if there is none."""
        return self._held() if self._held is not None else None

    def overwrite(self) -> None:
        """Forget the tensor, which holds another value now."""
        self._held = None


@dataclass(frozen=True, slots=True)
class _Link:
    """How a tensor follows from a value."""

    bend: int
    #: The activation sites between them, as a bit mask.
    sites: int


@dataclass(frozen=True, slots=True)
class Term:
    """One tensor as a function of values, the earliest first and its own last."""

    links: dict[_HeldValue, _Link] = field(default_factory=dict)
    #: Whether it follows from reductions alone, such as a variance.
    statistic: bool = False

    def activated(self, site: int) -> dict[_HeldValue, _Link]:
        """Return the links of what an activation site makes of the tensor."""
        return {value: _Link(_BENT, link.sites | 1 << site) for value, link in self.links.items()}


@dataclass(frozen=True, slots=True)
class NonLinear:
    """A non-linear elementwise call, and the activation that it completes if there is one."""

    name: str
    #: The argument that is listed.
    lead: torch.Tensor
    #: The activation's input; None where the call completes none.
    source: torch.Tensor | None = None
    #: The sites that are parts of the activation, as a bit mask.
    parts: int = 0
    #: Why the call completes no activation.
    reason: str | None = None


def term_of(tensor: torch.Tensor) -> Term:
    """Return a tensor as a function of values; of its own alone if nothing else is known."""
    term: Term | None = getattr(tensor, _TERM, None)
    return _marked(tensor, {}, statistic=False) if term is None else term


def depends(tensor: torch.Tensor) -> bool:
    """Return whether a tensor may depend on the images; a number from outside of torch does not."""
    layout = layout_of(tensor)
    return layout != CONSTANT and not (layout is None and tensor.ndim == 0)


def follow_activation(before: Term, site: int, args: Any, out: torch.Tensor) -> None:
    """Mark the output of an activation site.

    Parameters
    ----------
    before : Term
        Of its input, taken before the call.
    site : int
        Its number.
    args
        The call's arguments.
    out : torch.Tensor
        Its output.
    """
    _overwritten(out, args)
    same = all(
        held.shape == out.shape for value in before.links if (held := value.tensor()) is not None
    )
    _marked(out, before.activated(site) if same else {}, statistic=before.statistic)


def follow_terms(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> None:
    """Mark the tensor that any other call returned; for the parameters see ``layout.follow``."""
    if function is torch.Tensor.__setitem__:
        _overwritten(args[0], args)
        return
    if not isinstance(out, torch.Tensor):
        return
    inputs = [tensor for tensor in tensors_read(function, args, kwargs) if depends(tensor)]
    _, family = ELEMENTWISE.get(function, ("", None))
    if family is Family.SUM and len(inputs) == 1 and inputs[0] is out and len(args) < 2:
        # A copy that was not needed.
        return
    statistic = bool(inputs) and (
        function in REDUCTIONS
        or (family is not None and all(term_of(tensor).statistic for tensor in inputs))
    )
    alike = family is not None and all(tensor.shape == out.shape for tensor in inputs)
    links = _joined(inputs, _bend(function, args, kwargs, inputs)) if alike else {}
    _overwritten(out, [args, kwargs])
    if links or statistic:
        _marked(out, links, statistic=statistic)


def written(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> NonLinear | None:
    """Return what a call about to be made computes; None if it is affine or not elementwise."""
    if function is torch.Tensor.__setitem__:
        return _assignment(*args)
    name, family = ELEMENTWISE.get(function, ("", Family.SUM))
    if family is Family.SUM or not (tensors := tensors_read(function, args, kwargs)):
        return None
    if family is Family.EXTREME and len(tensors) < 2:
        # The largest along an axis, not of two arguments.
        return None
    inputs = [tensor for tensor in tensors if depends(tensor)]
    lead = max(inputs or tensors, key=torch.Tensor.numel)
    if not inputs and family not in (Family.PRODUCT, Family.QUOTIENT):
        return NonLinear(name, lead, reason=INDEPENDENT)
    if not _is_bent(function, family, args, kwargs, inputs):
        return None
    if family in (Family.POWER, Family.OTHER):
        return NonLinear(name, lead, reason=f"{name} by itself is no activation")
    if (guard := _guard(family, args, kwargs, inputs)) is not None:
        return NonLinear(name, lead, reason=guard)
    return _activation(name, lead, inputs, _bend(function, args, kwargs, inputs))


def scales(function: Callable[..., Any], args: Sequence[Any], tensor: torch.Tensor) -> bool:
    """Return whether a call multiplies or divides a tensor by a number."""
    _, family = ELEMENTWISE.get(function, ("", None))
    number = len(args) > 1 and args[0] is tensor and isinstance(args[1], int | float)
    return number and family in (Family.PRODUCT, Family.QUOTIENT) and function not in SWAPPED


def _assignment(target: torch.Tensor, index: Any, _value: Any) -> NonLinear | None:
    """Return an assignment to the places that a condition on the images chooses."""
    chosen = any(held.dtype == torch.bool and depends(held) for held in tensors_in([index]))
    reason = "writes over its own input, which is gone then"
    return NonLinear("setitem", target, reason=reason) if chosen else None


def _activation(name: str, lead: torch.Tensor, inputs: list[torch.Tensor], bend: int) -> NonLinear:
    """Return the activation that a call completes, or why it completes none."""
    links = _joined(inputs, bend)
    if any(tensor.shape != lead.shape for tensor in inputs) or not links:
        return NonLinear(name, lead, reason="joins values that are not functions of one value")
    bent = {value: link for value, link in links.items() if link.bend > _POLYNOMIAL}
    if not bent:
        return NonLinear(name, lead, reason="a power of one value by itself is no activation")
    layout = layout_of(lead)
    for value in reversed(bent):
        source = value.tensor()
        if source is None or source.shape != lead.shape or layout_of(source) != layout:
            continue
        # An exponential is a part of the activation: a sigmoid is no function of it.
        before = term_of(source).links.values()
        if any(link.bend == _EXPONENTIAL and not link.sites for link in before):
            continue
        if all(layout_of(tensor) == layout for tensor in inputs):
            return NonLinear(name, lead, source, bent[value].sites)
    return NonLinear(name, lead, reason="the value that it follows from was overwritten or moved")


def _joined(inputs: Sequence[torch.Tensor], bend: int) -> dict[_HeldValue, _Link]:
    """Return the links to the values that all inputs are functions of."""
    if not inputs:
        return {}
    each = [term_of(tensor).links for tensor in inputs]
    common = [value for value in each[0] if all(value in links for links in each[1:])]
    made = {}
    for value in common:
        sites = 0
        for links in each:
            sites |= links[value].sites
        made[value] = _Link(max(bend, *(links[value].bend for links in each)), sites)
    return made


def _bend(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    inputs: list[torch.Tensor],
) -> int:
    """Return how a call bends a function of one value."""
    name, family = ELEMENTWISE[function]
    if name in _EXPONENTIALS:
        return _EXPONENTIAL
    if family is Family.POWER:
        exponent = argument(args, kwargs, 1, "exponent", 2)
        return _POLYNOMIAL if isinstance(exponent, int) and exponent >= 0 else _BENT
    if family is Family.PRODUCT:
        return _POLYNOMIAL if len(inputs) > 1 else _AFFINE
    return _BENT if _is_bent(function, family, args, kwargs, inputs) else _AFFINE


def _is_bent(
    function: Callable[..., Any],
    family: Family,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    inputs: list[torch.Tensor],
) -> bool:
    """Return whether a call is anything but affine in what depends on the images."""
    if family is Family.PRODUCT:
        return len(inputs) > 1
    if family is Family.QUOTIENT:
        divisor = args[0] if function in SWAPPED else argument(args, kwargs, 1, "other")
        return isinstance(divisor, torch.Tensor) and depends(divisor)
    if family is Family.CHOICE:
        conditions = [*tensors_in(args), *tensors_in(kwargs)]
        return any(held.dtype == torch.bool and depends(held) for held in conditions)
    return family is not Family.SUM


def _guard(
    family: Family, args: Sequence[Any], kwargs: dict[str, Any], inputs: list[torch.Tensor]
) -> str | None:
    """Return why a bound only keeps values in a range; None if it may be an activation."""
    if family not in (Family.EXTREME, Family.CLIP):
        return None
    if all(term_of(tensor).statistic for tensor in inputs):
        return "keeps a statistic in bounds"
    if family is Family.CLIP:
        bounds = [*args[1:], *kwargs.values()]
        numbers = [bound for bound in bounds if isinstance(bound, int | float)]
        if not numbers:
            return "the bounds are tensors: a range that was calibrated, not an activation"
        if min(map(abs, numbers)) > _RANGE:
            return "keeps values in the range of a number type"
    return None


def _overwritten(tensor: torch.Tensor, args: Any) -> None:
    """Forget what a tensor held that a call wrote into."""
    if hasattr(tensor, _TERM) and any(tensor is value for value in tensors_in(args)):
        next(reversed(getattr(tensor, _TERM).links)).overwrite()
        delattr(tensor, _TERM)


def _marked(tensor: torch.Tensor, links: dict[_HeldValue, _Link], *, statistic: bool) -> Term:
    term = Term({**links, _HeldValue(tensor): _Link(_AFFINE, 0)}, statistic)
    if not isinstance(tensor, torch.nn.Parameter):
        setattr(tensor, _TERM, term)
    return term


#: Quotients whose divisor comes first.
SWAPPED = (torch.Tensor.__rtruediv__, torch.Tensor.__rdiv__)

_EXPONENTIALS = ("exp", "exp2", "expm1")
