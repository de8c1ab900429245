"""A copy of a network whose piecewise linear calls are seen, and which refuses all that bend.

A torch function mode sees every outermost call of torch, those that modules make too. Each call on
what depends on the input is affine, piecewise linear or refused; a copy computes in float64.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from survey.capture.activations import activation_called, activation_of, site_name
from survey.capture.arguments import called, first_tensor, tensors_in, tensors_read
from survey.capture.elementwise import ELEMENTWISE
from survey.capture.layout import BLANKS, MARK
from survey.capture.unsupported import refuse_hidden, uncompiled
from survey.copying import copied
from survey.device import device_of, dtype_of, random_numbers_kept
from survey.errors import InputError, NotPiecewiseLinear
from survey.out_of_memory import is_of_machine
from survey.regions.affine_calls import CASTS, READS, bent
from survey.regions.bends import Bend
from survey.regions.breakpoints import STEPS, bends_of

_KIND = f"{MARK}_kind"
_AFFINE, _STEP = "affine", "step"

_HINT = "the deviation of its outputs from straight lines is defined for every network"

#: Differences between passes of two sizes, over the largest value, that are rounding.
_ALIKE = 1e-3

#: Takes the number of a piecewise linear call in its pass, its name and its units.
Visit = Callable[[int, str, Sequence[Bend]], None]


class WatchedNetwork:
    """A copy of a network in eval mode, whose passes can be watched.

    Parameters
    ----------
    model : torch.nn.Module
        Any network. It is not run and not modified.
    exact : bool
        Whether the copy computes in float64, whatever the network casts to.

    Raises
    ------
    CaptureError
        If it holds something whose calls cannot be seen.
    InputError
        If it cannot be copied.
    """

    def __init__(self, model: nn.Module, *, exact: bool) -> None:
        refuse_hidden({module: name for name, module in model.named_modules()})
        try:
            self._model = copied(model, _doubled if exact else torch.clone).eval()
        except Exception as error:
            if is_of_machine(error):
                raise
            raise InputError(f"the network cannot be copied: {error}") from error
        #: What the copy computes in.
        self.dtype = torch.float64 if exact else dtype_of(model)
        self.device = device_of(model)
        self._exact = exact
        self._checked = False
        #: The modules that are running, outermost first, each with whether it is an activation.
        self._path: list[tuple[str, bool]] = []
        for name, module in self._model.named_modules():
            place = (name, activation_of(module) is not None)
            module.register_forward_pre_hook(lambda _m, _a, place=place: self._path.append(place))
            module.register_forward_hook(lambda _m, _a, _o: self._leave(), always_call=True)

    def run(self, points: torch.Tensor, visit: Visit | None = None) -> torch.Tensor:
        """Return what the network computes at n inputs, n x outputs.

        Parameters
        ----------
        points : torch.Tensor
            The inputs.
        visit : callable, optional
            Sees the units of each piecewise linear call before it runs.

        Raises
        ------
        NotPiecewiseLinear
            If a call of a watched pass is not, or is not known to be.
        InputError
            If the network returns no finite number for each input.
        """
        self._path[:] = [("", False)]
        # A network may change its input in place.
        points = points.to(self.device, self.dtype, copy=True)
        watch = contextlib.nullcontext() if visit is None else _Watch(self, len(points), visit)
        setattr(points, _KIND, _AFFINE)
        with self._undisturbed(), watch:
            made = self._model(points)
        outputs = [
            tensor.reshape(tensor.shape[0], -1) for tensor in tensors_in(made) if tensor.ndim
        ]
        if not outputs or any(len(output) != len(points) for output in outputs):
            raise InputError("the network returns no row of numbers for each input")
        together = torch.cat([output.to(self.dtype) for output in outputs], 1)
        if not together.isfinite().all():
            raise InputError("the network returns a number that is not finite")
        return together

    def require_apart(self, points: torch.Tensor) -> None:
        """Refuse a network whose units depend on the other inputs of a pass; looks once.

        Parameters
        ----------
        points : torch.Tensor
            Three inputs that differ.

        Raises
        ------
        NotPiecewiseLinear
            If they do, as in one that folds two views of an input into the axis of the inputs.
        """
        if self._checked:
            return
        together = self._values(points)
        # Pairs: a pass of one input may lose the axis.
        for places in (slice(0, 2), slice(1, 3)):
            apart = self._values(points[places])
            for (site, some), (_, each) in zip(together, apart, strict=True):
                if not _alike(some[places], each):
                    raise NotPiecewiseLinear(
                        f"the units of {site} depend on the other inputs of a pass, or on random"
                        " numbers",
                        hint=_HINT,
                    )
        self._checked = True

    def _values(self, points: torch.Tensor) -> list[tuple[str, torch.Tensor]]:
        """Return the name of each piecewise linear call of a pass, and what its units are of."""
        values: list[tuple[str, torch.Tensor]] = []
        self.run(
            points,
            lambda _, site, bends: values.extend((site, bend.highest.clone()) for bend in bends),
        )
        return values

    def site(self, called: str, calls: Counter[tuple[str, str | None]]) -> str:
        """Return the name of the call that is running, as a signature names its sites.

        Parameters
        ----------
        called : str
            Of the function.
        calls : Counter
            The calls so far of each path, to which this one is added.
        """
        outermost = next((path for path, activation in self._path if activation), None)
        innermost = self._path[-1][0]
        path, function = (innermost, called) if outermost is None else (outermost, None)
        calls[path, function] += 1
        return site_name(path, function, calls[path, function])

    @property
    def retyped(self) -> torch.dtype | None:
        """What the network's casts are replaced by; None where they are kept."""
        return self.dtype if self._exact else None

    def _leave(self) -> None:
        self._path.pop()

    @contextlib.contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Let a pass leave the random numbers and the default type as they are."""
        before = torch.get_default_dtype()
        with (
            torch.inference_mode(mode=False),
            torch.no_grad(),
            random_numbers_kept(self.device),
            uncompiled(),
        ):
            torch.set_default_dtype(self.dtype if self._exact else before)
            try:
                yield
            finally:
                torch.set_default_dtype(before)


class _Watch(TorchFunctionMode):
    """The calls of one pass."""

    def __init__(self, network: WatchedNetwork, points: int, visit: Visit) -> None:
        super().__init__()
        self._network = network
        self._points = points
        self._visit = visit
        self._number = 0
        self._calls: Counter[tuple[str, str | None]] = Counter()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Any,
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        given = first_tensor(args, kwargs) if function in BLANKS else None
        read = [each for each in tensors_read(function, args, kwargs) if each is not given]
        inputs = [(each, kind) for each in read if (kind := _kind(each))]
        affine = [tensor for tensor, kind in inputs if kind == _AFFINE]
        reason = self._seen(function, args, kwargs, affine) if affine else None
        if inputs and function in READS:
            self._refuse(function, "reads values, on which the path through the network may depend")
        output = self._called(function, args, kwargs)
        results = [args[0]] if function is torch.Tensor.__setitem__ else tensors_in(output)
        if reason is not None and results:
            self._refuse(function, reason)
        if inputs:
            self._mark(function, results, stepwise=not affine or function in STEPS)
        return output

    def _seen(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: dict[str, Any],
        affine: Sequence[torch.Tensor],
    ) -> str | None:
        """Show the units of a piecewise linear call, or return why it is none."""
        try:
            bends = bends_of(function, args, kwargs, self._points)
        except ValueError as error:
            self._refuse(function, str(error))
        if bends is None:
            return bent(function, args, kwargs, affine)
        if bends:
            self._visit(self._number, self._network.site(_name(function), self._calls), bends)
            self._number += 1
        return None

    def _called(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        output = function(*args, **kwargs)
        wanted = self._network.retyped
        cast = function in CASTS and isinstance(output, torch.Tensor) and wanted is not None
        if cast and output.is_floating_point() and output.dtype != wanted:
            return args[0].to(wanted)
        return output

    def _mark(
        self, function: Callable[..., Any], results: Sequence[torch.Tensor], *, stepwise: bool
    ) -> None:
        for result in results:
            indices = not result.is_floating_point() and function not in CASTS
            if stepwise or indices:
                setattr(result, _KIND, _STEP)
            elif _step(result.dtype) > _step(self._network.dtype):
                self._refuse(function, f"rounds to {str(result.dtype).removeprefix('torch.')}")
            else:
                setattr(result, _KIND, _AFFINE)

    def _refuse(self, function: Callable[..., Any], reason: str) -> NoReturn:
        name = _name(function)
        where = self._network.site(name, self._calls)
        raise NotPiecewiseLinear(f"{name} at {where} {reason}", hint=_HINT)


def _alike(some: torch.Tensor, others: torch.Tensor) -> bool:
    """Return whether values are the same but for the rounding of another size of pass."""
    if some.shape != others.shape:
        return False
    allowed = max(_ALIKE, 16 * torch.finfo(others.dtype).eps)
    largest = others.abs().amax() if others.numel() else 0.0
    return not ((some - others).abs() > allowed * largest).any()


def _step(dtype: torch.dtype) -> float:
    """Return the relative step between the numbers of a type, the coarsest of whole ones."""
    return torch.finfo(dtype).eps if dtype.is_floating_point else 1.0


def _kind(tensor: torch.Tensor) -> str | None:
    kind: str | None = getattr(tensor, _KIND, None)
    return kind


def _name(function: Any) -> str:
    """Return what is called, or which attribute of a tensor is read."""
    plain = called(function).strip("_")
    return activation_called(function) or ELEMENTWISE.get(function, (plain,))[0]


def _doubled(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()
