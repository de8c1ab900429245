"""A target: a reader of strangers' bytes, and a few right inputs that mutation starts from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Target:
    """A reader under random bytes.

    It ends, or raises one of the product's errors. Anything else that it raises is a finding, and
    so is memory or time beyond the limits of ``tests.fuzz.campaign``.
    """

    #: Gives it some bytes, and a folder for its files.
    read: Callable[[bytes, Path], object]
    #: Returns right inputs; they are made, not kept.
    right: Callable[[], list[bytes]]
    #: Whether an input is JSON: its values are then changed too, and not its bytes alone.
    document: bool = False
    #: Whether each input starts a process: too slow for the short tests.
    apart: bool = False
    #: MiB of memory from which on an input is a finding.
    most_mib: int = 400
