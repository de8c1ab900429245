"""The elementwise non-linear calls of a forward pass, and why each is a site or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from survey.capture.layout import CONSTANT, layout_of


@dataclass(frozen=True, slots=True)
class Call:
    """One elementwise non-linear call."""

    #: Qualified name of the activation module, or of the module whose forward makes the call.
    path: str
    #: Canonical name of what is called.
    function: str
    #: Of its input.
    shape: tuple[int, ...]
    #: The axes of its input, such as ``N,C,*,*``; None where they are not known.
    layout: str | None
    #: Name of the activation site; None where the call is none.
    site: str | None
    #: Why the call is no site, or why its site cannot be measured; None where it can.
    reason: str | None


class CallList:
    """The calls of one pass in the order of their beginnings."""

    def __init__(self) -> None:
        #: Each call with the number of the site that it opened.
        self._seen: list[tuple[Call, int | None]] = []
        #: The sites that are parts of another, as a bit mask, with that other's number.
        self._composed: list[tuple[int, int]] = []
        #: All sites that are parts of another, as a bit mask.
        self.parts = 0

    def see(
        self,
        path: str,
        function: str,
        tensor: torch.Tensor,
        *,
        site: int | None = None,
        reason: str | None = None,
    ) -> None:
        """Add a call on a tensor, with the number of the site it opens or the reason for none."""
        axes = layout_of(tensor)
        text = None if axes is None or axes == CONSTANT else axes.describe()
        call = Call(path, function, tuple(tensor.shape), text, None, reason)
        self._seen.append((call, site))

    def compose(self, parts: int, whole: int) -> None:
        """Make sites, given as a bit mask, parts of another, given as its number."""
        self.parts |= parts
        self._composed.append((parts, whole))

    def listed(self, sites: Mapping[int, tuple[str, str | None]]) -> list[Call]:
        """Return the calls, given the name of every site and why it cannot be measured."""
        return [self._listed(call, site, sites) for call, site in self._seen]

    def _listed(
        self, call: Call, site: int | None, sites: Mapping[int, tuple[str, str | None]]
    ) -> Call:
        if site is None or site not in sites:
            return call
        for parts, whole in reversed(self._composed):
            if parts >> site & 1:
                return replace(call, reason=f"a part of {sites[whole][0]}, which is one function")
        name, reason = sites[site]
        return replace(call, site=name, reason=reason)
