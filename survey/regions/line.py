"""A segment between two inputs of a network, and the passes along it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from survey.errors import InputError, SettingsError
from survey.out_of_memory import is_of_machine
from survey.regions.bends import Bend, Signs
from survey.regions.watched_network import Visit, WatchedNetwork

#: Values that the units of one call may hold in a pass: 8 MiB in float64, which stay in caches.
_VALUES = 2**20

#: Values that a call of a network holds for each of its input's, at most.
_UNWATCHED = 8


def nothing() -> None:
    """Report to nobody."""


def _ignored(_number: int, _site: str, _bends: Sequence[Bend]) -> None:
    """Look at no unit, where casts have to be left out as they are where units are looked at."""


class Line:
    """The inputs ``start + t (end - start)`` for t from 0 to 1.

    Parameters
    ----------
    network : WatchedNetwork
        Its copy.
    start, end : torch.Tensor
        One input each, without a batch axis.
    tick : callable, optional
        Called before every pass.
    watched : bool
        Whether units are looked at; otherwise any network may be run.

    Raises
    ------
    InputError
        If they are no finite numbers of one shape, or the network does not take them.
    NotPiecewiseLinear
        If the network is not and units are looked at.
    """

    def __init__(
        self,
        network: WatchedNetwork,
        start: torch.Tensor,
        end: torch.Tensor,
        tick: Callable[[], None] = nothing,
        *,
        watched: bool = True,
    ) -> None:
        check(start, end)
        self._network = network
        self._tick = tick
        self._watched = watched
        self._start = start.detach().to(network.device, torch.float64)
        self._direction = end.detach().to(network.device, torch.float64) - self._start
        #: Its Euclidean length.
        self.distance = self._direction.norm().item()
        # What the calls of a network hold beside its input, where they are not looked at.
        widest = 1 if watched else _UNWATCHED * start.numel()

        def visit(_number: int, _site: str, bends: Sequence[Bend]) -> None:
            nonlocal widest
            widest = max(widest, *(bend.width for bend in bends))

        tick()
        try:
            network.run(self._points(self.times([0.0, 1.0])), visit if watched else None)
            if watched:
                network.require_apart(self._points(self.times([0.0, 0.5, 1.0])))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            if is_of_machine(error):
                raise
            shape = tuple(start.shape)
            raise InputError(
                f"the network does not take inputs of shape {shape}: {error}"
            ) from error
        #: Inputs that a pass may have.
        self.batch = max(3, _VALUES // widest)

    def part(self, first: float, last: float) -> Line:
        """Return the line between two of its times."""
        start, end = (self._start + time * self._direction for time in (first, last))
        part = Line(self._network, start, end, self._tick, watched=self._watched)
        part.batch = self.batch
        return part

    def times(self, values: Sequence[float]) -> torch.Tensor:
        """Return times as a tensor beside the network."""
        return torch.tensor(values, dtype=torch.float64, device=self._network.device)

    def steps(self, segments: int) -> torch.Tensor:
        """Return the times that divide it into so many steps.

        Raises
        ------
        SettingsError
            If there is none.
        """
        if segments < 1:
            raise SettingsError(f"segments is {segments}, and must be at least 1")
        return self.times([step / segments for step in range(segments + 1)])

    def run(self, times: torch.Tensor, visit: Visit | None = None) -> torch.Tensor:
        """Return the network's outputs at times, n x outputs; see ``WatchedNetwork.run``."""
        self._tick()
        return self._network.run(self._points(times), visit)

    def _points(self, times: torch.Tensor) -> torch.Tensor:
        return self._start + times.view(-1, *[1] * self._start.ndim) * self._direction

    def outputs(self, times: torch.Tensor) -> torch.Tensor:
        """Return the network's outputs at times, n x outputs, in as many passes as they need."""
        visit = _ignored if self._watched else None
        return torch.cat([self.run(part, visit) for part in times.split(self.batch)]).double()

    def changes(self, times: torch.Tensor, *, signs: bool = False) -> Changes:
        """Return which units are on other pieces at the next time.

        Parameters
        ----------
        times : torch.Tensor
            n, increasing.
        signs : bool
            Whether only units that change with a sign are looked at, and none of max-pooling.
        """
        rows: list[torch.Tensor] = []
        outputs: list[torch.Tensor] = []
        sites: list[str] = []
        units = 0
        # Neighbouring parts share a time.
        for first in range(0, max(len(times) - 1, 1), self.batch - 1):
            units = 0

            def visit(number: int, site: str, bends: Sequence[Bend], first: int = first) -> None:
                nonlocal units
                if number == len(sites):
                    sites.append(site)
                for bend in bends:
                    if signs and not isinstance(bend, Signs):
                        continue
                    pieces = bend.pieces()
                    at, unit = (pieces[1:] != pieces[:-1]).nonzero(as_tuple=True)
                    rows.append(torch.stack([at + first, torch.full_like(at, number), unit]))
                    units += pieces.shape[1]

            made = self.run(times[first : first + self.batch], visit)
            outputs.append(made if not first else made[1:])
        none = torch.zeros(3, 0, dtype=torch.long, device=times.device)
        at, site, unit = torch.cat([none, *rows], 1)
        return Changes(at, tuple(sites), site, unit, units, torch.cat(outputs).double())


@dataclass(frozen=True, slots=True)
class Changes:
    """The units that are on another piece at one of n times than at the time before it."""

    #: For each change the number of the time before it.
    at: torch.Tensor
    #: The name of each piecewise linear call.
    sites: tuple[str, ...]
    #: For each change the number of its call.
    site: torch.Tensor
    #: For each change its unit, counted through the call's values for one input.
    unit: torch.Tensor
    #: Units that were looked at.
    units: int
    #: n x outputs.
    outputs: torch.Tensor


def check(start: Any, end: Any) -> None:
    """Refuse ends that are no segment.

    Raises
    ------
    InputError
        If they are no finite numbers of one shape.
    """
    for name, end_point in (("start", start), ("end", end)):
        if not isinstance(end_point, torch.Tensor) or not end_point.is_floating_point():
            kind = getattr(end_point, "dtype", type(end_point).__name__)
            raise InputError(f"the {name} of a segment is {kind}, and must be a tensor of floats")
        if not end_point.isfinite().all():
            raise InputError(f"the {name} of a segment has values that are not finite")
    if start.shape != end.shape:
        raise InputError(
            f"the ends of a segment have shapes {tuple(start.shape)} and {tuple(end.shape)}",
            hint="both are one input each, without a batch axis",
        )
