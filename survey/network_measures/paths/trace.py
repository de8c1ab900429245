"""What is known of the paths to a tensor, and the calls on such tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from survey.capture.arguments import argument, called
from survey.capture.expressions import term_of
from survey.network_measures.paths.counts import Paths


class Unfollowed(Exception):
    """The reason, as half a sentence, for which the paths to a call's results are not known."""


@dataclass(slots=True)
class Sum:
    """A sum of values, for the sums that read it: with one of them it is a single sum."""

    #: Of how many terms.
    terms: int = 1
    #: What it is a scaled or moved copy of.
    copied: Sum | None = None
    #: The calls that have read it.
    readers: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of the paths to one tensor."""

    #: None where they are not known.
    known: Paths | None
    #: Why they are not.
    reason: str = ""
    #: Whether its values are weights that a softmax made, which average other values.
    attention: bool = False
    #: The sum that it is.
    sum: Sum = field(default_factory=Sum)
    #: The axis, from the right, along which several values were stacked; None where none were.
    stacked: int | None = None

    @property
    def terms(self) -> int:
        """Of how many terms it is the sum; 1 where anything else has read that sum."""
        held, most = self.sum, 0
        while held.readers <= most:
            if held.copied is None:
                return self.sum.terms
            # A copy is one reader of what it copies.
            held, most = held.copied, 1
        return 1

    def copied(self) -> Sum:
        """Return the sum that a scaled or moved copy of it is."""
        return Sum(self.terms, self.sum)

    @property
    def paths(self) -> Paths:
        """The paths.

        Raises
        ------
        Unfollowed
            If they are not known.
        """
        if self.known is None:
            raise Unfollowed(self.reason)
        return self.known


@dataclass(frozen=True, slots=True)
class PathCall:
    """A call, after it ran, on tensors some of which depend on the network's input."""

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]
    results: Sequence[torch.Tensor]
    #: Those of its arguments that depend on the input.
    inputs: Sequence[tuple[torch.Tensor, Trace]]
    #: What the paper leaves undefined and the network has, to which the call may add.
    conventions: set[str]

    @property
    def name(self) -> str:
        """What is called, or which attribute of a tensor is read."""
        return called(self.function)

    def trace(self, value: Any) -> Trace | None:
        """Return what is known of an argument; None if it does not depend on the input."""
        return next((trace for tensor, trace in self.inputs if tensor is value), None)

    def argument(self, place: int, name: str, default: Any = None) -> Any:
        """Return an argument by its place or its name."""
        return argument(self.args, self.kwargs, place, name, default)

    def only(self) -> Paths:
        """Return the paths to the one argument that depends on the input.

        Raises
        ------
        Unfollowed
            If there are several, or its paths are not known.
        """
        if len(self.inputs) > 1:
            raise Unfollowed(f"{self.name} joins several values that depend on the input")
        return self.inputs[0][1].paths


def is_statistic(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a mean, a variance or a norm that no activation has changed."""
    term = term_of(tensor)
    return term.statistic and not any(link.sites for link in term.links.values())
