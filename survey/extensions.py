"""Extensions: metrics, dataset kinds, model sources and runners of installed packages.

A package announces each by an entry point of one of the groups in ``GROUPS``. An extension that
cannot be loaded is kept with its reason, for ``survey doctor``, and stops nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = Literal["metric", "dataset kind", "model source", "runner"]

#: The entry-point group of each kind of extension.
GROUPS: dict[Kind, str] = {
    "metric": "model_zoo_survey.metrics",
    "dataset kind": "model_zoo_survey.datasets",
    "model source": "model_zoo_survey.sources",
    "runner": "model_zoo_survey.runners",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BrokenExtension:
    """An announced extension that cannot be used."""

    #: Its kind.
    kind: Kind
    #: Its entry point, as ``module:name``.
    entry: str
    #: The distribution that announces it, with its version; empty where that is not known.
    package: str
    #: Why it cannot be used, in a sentence.
    reason: str

    def __str__(self) -> str:
        """Return what cannot be used, and why, in one clause."""
        brought = f" of {self.package}" if self.package else ""
        return f"the {self.kind} {self.entry}{brought} cannot be used: {self.reason}"


@dataclass(frozen=True, slots=True)
class Extensions(Generic[T]):
    """The extensions of one kind."""

    #: Those that were loaded, in the order of their entry points' names.
    loaded: tuple[T, ...]
    #: Those that could not be.
    broken: tuple[BrokenExtension, ...]


def load_extensions(kind: Kind, accept: Callable[[object], T]) -> Extensions[T]:
    """Load every extension of a kind.

    Parameters
    ----------
    kind : {"metric", "dataset kind", "model source", "runner"}
        The kind, which decides the group of entry points.
    accept : callable
        Returns the extension from what the entry point names; raises where that is none.

    Returns
    -------
    Extensions
        What ``accept`` returned, and what failed to load or was not accepted.
    """
    loaded: list[T] = []
    broken: list[BrokenExtension] = []
    for entry in announced(kind):
        try:
            loaded.append(accept(entry.load()))
        except Exception as problem:  # noqa: BLE001 - anything may go wrong in another's package
            reason = f"{type(problem).__name__}: {problem}"
            broken.append(BrokenExtension(kind, entry.value, _package(entry), reason))
    return Extensions(tuple(loaded), tuple(broken))


@functools.cache
def announced(kind: Kind) -> tuple[EntryPoint, ...]:
    """Return the entry points of a kind of extension, by name; nothing is imported."""
    # Slow to import, and no help text asks for extensions.
    from importlib.metadata import entry_points

    return tuple(sorted(entry_points(group=GROUPS[kind]), key=lambda entry: entry.name))


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else ""
