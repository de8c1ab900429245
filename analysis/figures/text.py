"""Words of figures: numbers, counts and lists as titles and labels say them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any


def number(value: Any, digits: int = 2) -> str:
    """Return a number with so many decimals, ``-`` where there is none."""
    if value is None or not math.isfinite(float(value)):
        return "-"
    shown = f"{float(value):.{digits}f}"
    return shown.removeprefix("-") if float(shown) == 0 else shown


def chance(value: Any) -> str:
    """Return a p-value as ``p = 0.03`` or ``p < 0.001``."""
    if value is None or not math.isfinite(float(value)):
        return "no p"
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def listed(names: Iterable[str], limit: int = 4) -> str:
    """Return names as a list, such as ``a, b and c``, those beyond a limit as a number."""
    every = list(names)
    if len(every) > limit:
        kept: Sequence[str] = every[: limit - 1]
        return f"{', '.join(kept)} and {len(every) - len(kept)} others"
    return " and ".join(part for part in (", ".join(every[:-1]), *every[-1:]) if part)


def sentence(text: str) -> str:
    """Return a text with a full stop behind it."""
    return text if text.endswith((".", "?", "!")) else f"{text}."
