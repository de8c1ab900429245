"""Numbers, p-values, lists and cells of tables as sentences and pages write them.

Imports neither numpy nor pandas: the command line names a table's columns before there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: From here on a number is written by its size: its digits would fill the table.
LARGE = 1e6

#: Decimals up to which the numbers of a column are written out.
MOST_PLACES = 6

#: Stands in a cell where there is no value.
NOTHING = "\N{EN DASH}"

#: How pandas writes what is missing.
_MISSING = ("NaT", "<NA>")


def number(value: Any, digits: int = 2) -> str:
    """Return a number with so many decimals; ``-`` where there is none."""
    if value is None or not math.isfinite(float(value)):
        return "-"
    return f"{float(value):z.{digits}f}"


def chance(value: Any) -> str:
    """Return a p-value as ``p = 0.03`` or ``p < 0.001``."""
    if value is None or not math.isfinite(float(value)):
        return "no p"
    return "p < 0.001" if value < 0.001 else f"p = {value:.2g}"


def span(low: Any, high: Any, digits: int = 2) -> str:
    """Return two numbers as ``0.12 to 0.34``; one where both print so."""
    ends = dict.fromkeys((number(low, digits), number(high, digits)))
    return " to ".join(ends)


def range_finding(lead: str, values: pd.Series[float], over: str) -> str:
    """Return from what to what values go, as a sentence; that they are alike where they print so.

    Parameters
    ----------
    lead : str
        Subject and verb, such as ``Median affinity goes``.
    values : pandas.Series
        At least one, in order; the index names what each is of.
    over : str
        What they are of, such as ``3 models``.
    """
    first, last = number(values.iloc[0]), number(values.iloc[-1])
    if first == last:
        return f"{lead.rpartition(' ')[0]} is {first} in all of {over}"
    return f"{lead} from {first} ({values.index[0]}) to {last} ({values.index[-1]}) over {over}"


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


def missing(value: Any) -> bool:
    """Return whether there is no value: None, NaN, an infinity, NaT, NA or nothing in it."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, str | tuple):
        return not value
    return value is None or str(value) in _MISSING


def as_given(value: Any) -> str:
    """Return a value as a user gives it: a decimal with up to 15 digits."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def cell(value: Any) -> str:
    """Return any value as the text of a cell; a missing one becomes a dash."""
    if missing(value):
        return NOTHING
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value)) or NOTHING
    return str(value)


def fixed(places: int) -> Callable[[Any], str]:
    """Return a writer of numbers with so many decimals; what rounds to zero has no sign."""
    return partial(_fixed, places)


def _fixed(places: int, value: Any) -> str:
    if missing(value):
        return NOTHING
    return f"{value:.1e}" if abs(value) >= LARGE else f"{float(value):z.{places}f}"


def percent(value: Any) -> str:
    """Return a fraction as a percentage."""
    return NOTHING if missing(value) else f"{100 * float(value):.2f} %"


def whole(value: Any) -> str:
    """Return a whole number, its thousands set apart."""
    return NOTHING if missing(value) else f"{int(value):,}"


def aligned(values: Iterable[Any]) -> Callable[[Any], str]:
    """Return a writer of a column's cells, whose numbers get as many decimals each.

    Up to four digits of the largest and two of the smallest are written, or all by their sizes.
    """
    sizes = [abs(each) for each in values if isinstance(each, float) and each and not missing(each)]
    if not sizes:
        return cell
    largest, least = (math.floor(math.log10(end(sizes))) for end in (max, min))
    places = max(3 - largest, 1 - least, 0)
    if max(sizes) >= LARGE or places > MOST_PLACES:
        return partial(_aligned, ".3e")
    decimals = (f"{each:.{places}f}".rstrip("0").partition(".")[2] for each in sizes)
    return partial(_aligned, f"z.{max(map(len, decimals))}f")


def _aligned(form: str, value: Any) -> str:
    return format(value, form) if isinstance(value, float) and not missing(value) else cell(value)


def probability(value: Any) -> str:
    """Return a p-value with three decimals."""
    if missing(value):
        return NOTHING
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"


def spaced(value: Any) -> str:
    """Return a name with spaces for underscores."""
    return str(value).replace("_", " ")
