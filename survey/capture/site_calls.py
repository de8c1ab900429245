"""The activation calls of one forward pass: opened before each runs, closed with its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from survey.capture.activations import site_name
from survey.capture.arguments import Again, gate, second_half
from survey.capture.axes import Axes, lost
from survey.capture.blocks import Blocks
from survey.capture.calls import Call, CallList
from survey.capture.expressions import (
    INDEPENDENT,
    NonLinear,
    Term,
    depends,
    follow_activation,
    term_of,
)
from survey.capture.follower import Follower
from survey.capture.layout import CONSTANT, layout_of
from survey.capture.lineage import Descent, Lineage
from survey.capture.near_zero import NearZero
from survey.capture.pooled_pair import PairPooling, PooledPair, resolution
from survey.capture.recurrent import FUSED
from survey.errors import SettingsError
from survey.results import Role, Site


@dataclass(frozen=True, slots=True)
class Place:
    """Where an activation is called."""

    #: Name of the innermost module whose forward runs; an activation module is none.
    caller: str
    #: Name of the activation module; None where the activation is no module.
    module: str | None = None

    def path(self, activation: str) -> tuple[str, str | None]:
        """Return what names the site: the activation is a part of it where no module is."""
        return (self.caller, activation) if self.module is None else (self.module, None)


@dataclass(frozen=True, slots=True)
class OpenCall:
    """An activation call that has begun and not ended."""

    number: int
    caller: str
    #: The pair, with its output still missing.
    pair: PooledPair
    #: What its output descends from.
    lineage: Lineage
    #: Its input as a function of values.
    term: Term
    again: Again
    #: For a call that gates one half by the other, the half that is activated.
    half: torch.Tensor | None
    axes: Axes


class SiteCalls:
    """The activation calls of one pass so far.

    Parameters
    ----------
    pooling : PairPooling
        How their tensors become matrices.
    descent : Descent
        What every tensor of the pass descends from.
    follower : Follower, optional
        Follows something else.
    """

    def __init__(
        self, pooling: PairPooling, descent: Descent, follower: Follower | None = None
    ) -> None:
        self._pooling = pooling
        self._descent = descent
        self._follower = follower
        #: Number, caller and pair of each call that ended. What was open is not kept: it holds
        #: the call's arguments, and so would every activation of the network.
        self._ended: list[tuple[int, str, PooledPair]] = []
        self._seen = CallList()
        self._calls: Counter[tuple[str, str | None]] = Counter()

    def listed(self) -> list[Call]:
        """Return the elementwise non-linear calls, after the pass."""
        return self._seen.listed(
            {number: (pair.site.site_name, pair.reason) for number, _, pair in self._ended}
        )

    def pairs(self, output: Any, blocks: Blocks) -> list[PooledPair]:
        """Return the pairs, with the roles and repeats that follow from the whole pass."""
        gates = self._descent.gates(output)
        sites = [site for site in self._ended if not self._seen.parts >> site[0] & 1]
        repeats = blocks.repeats([caller for _, caller, _ in sites])
        roles: list[Role] = ["gate" if gates >> number & 1 else "main" for number, _, _ in sites]
        return [
            replace(pair, site=replace(pair.site, role=role, repeat=repeat))
            for (_, _, pair), role, repeat in zip(sites, roles, repeats, strict=True)
        ]

    def open_written(self, place: Place, call: NonLinear, again: Again) -> OpenCall | None:
        """Open an activation that this call completes by hand; None if the call is no site."""
        if call.source is None:
            self._seen.see(place.caller, call.name, call.lead, reason=call.reason)
            return None
        entered = self.open(place, call.name, call.source, again)
        if entered is not None and call.parts:
            self._seen.compose(call.parts, entered.number)
        return entered

    def pass_over(
        self, place: Place, activations: Sequence[str], inputs: list[torch.Tensor]
    ) -> None:
        """List the activations inside of a recurrent layer's kernel, which are no sites."""
        reason = FUSED if any(map(depends, inputs)) else INDEPENDENT
        for activation in activations:
            self._seen.see(place.caller, activation, inputs[0], reason=reason)

    def open(
        self, place: Place, activation: str, tensor: torch.Tensor, again: Again, dim: int = -1
    ) -> OpenCall | None:
        """Pool the input of an activation that is about to run; None if the call is no site.

        Parameters
        ----------
        place : Place
            Where it is called.
        activation : str
            Its canonical name.
        tensor : torch.Tensor
            Its input.
        again : callable
            The same call on another tensor.
        dim : int
            The axis that a gated linear unit halves.
        """
        path = place.path(activation)
        axes = layout_of(tensor)
        if axes == CONSTANT:
            self._seen.see(path[0], activation, tensor, reason=INDEPENDENT)
            return None
        self._calls[path] += 1
        # An unknown layout is not guessed: it may be a table that no image enters.
        axes = axes or lost(tensor.shape)
        number, lineage = self._descent.open_site(tensor, activation)
        self._seen.see(path[0], activation, tensor, site=number)
        term = term_of(tensor)
        half, whole = None, tensor
        if activation == "glu":
            # The non-linear part is the gate: a sigmoid of the second half.
            tensor = half = second_half(tensor, dim)
            axes = axes.resized(tensor.shape, channels=True)
            again = gate
        name = site_name(*path, self._calls[path])
        if self._follower is not None:
            with torch._C.DisableTorchFunction():
                halved = None if half is None else dim
                self._follower.open(number, name, whole, axes, halved)
        try:
            x, before, reason = self._pooling.matrix(tensor, axes)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error.message}", hint=error.hint) from None
        site = Site(
            site_name=name,
            activation=activation,
            call=self._calls[path],
            graph_depth=lineage.depth,
            role="main",
            repeat=1,
            layout=axes.describe(),
            spatial=axes.spatial(tensor.shape),
        )
        pair = PooledPair(site, x, None, before, NearZero(0, 0), resolution(tensor.dtype), reason)
        return OpenCall(number, place.caller, pair, lineage, term, again, half, axes)

    def close(
        self, entered: OpenCall, inputs: list[torch.Tensor], output: torch.Tensor, rectified: bool
    ) -> None:
        """Pool the output of an activation that has run."""
        self._descent.mark(output, entered.lineage, inputs)
        follow_activation(entered.term, entered.number, inputs, output)
        if self._follower is not None:
            with torch._C.DisableTorchFunction():
                self._follower.close(entered.number, output)
        pair, axes = entered.pair, entered.axes
        activated = output if entered.half is None else entered.again(entered.half)
        known = pair.before.rectified() if rectified else None
        y, after, reason = self._pooling.matrix(activated, axes, known)
        if self._pooling.kind == "pre" and pair.x is not None:
            y, reason = self._pooling.activated(entered.again, pair.x, axes, output.dtype)
        pair = replace(pair, y=y, after=after, reason=pair.reason or reason)
        self._ended.append((entered.number, entered.caller, pair))

    def scale(self, entered: OpenCall, output: torch.Tensor, again: Again) -> None:
        """Let a number that scales the last activation, such as a hard swish's 1/6, be its part."""
        number, caller, pair = self._ended[-1]
        if number != entered.number or pair.y is None:
            return
        y, after, reason = self._pooling.matrix(output, entered.axes)
        if self._pooling.kind == "pre" and y is not None:
            y = again(pair.y.clone())
        self._ended[-1] = (number, caller, replace(pair, y=y, after=after, reason=reason))
