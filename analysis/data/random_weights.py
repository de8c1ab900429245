"""Random weights, among checkpoints by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: What the names of random weights begin with.
_UNTRAINED = "init:"


def is_untrained(checkpoint: object) -> bool:
    """Return whether a checkpoint is random weights (``init:...``)."""
    return str(checkpoint).startswith(_UNTRAINED)


def names_untrained(glob: str) -> bool:
    """Return whether a glob over checkpoints or models names random weights."""
    return _UNTRAINED in glob.casefold()


def trained(checkpoints: pd.Series[str]) -> pd.Series[bool]:
    """Return which checkpoints are not random weights (``init:...``)."""
    return ~checkpoints.str.startswith(_UNTRAINED).fillna(value=False).astype(bool)
