"""What a page is made of: tables, exhibits and sections, as values without any markup.

Owns their shape and how a value is written in a table; templates turn them into HTML.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pandas as pd

#: Letters of a word up to which it is kept whole in a cell.
LONGEST_WORD = 14

#: From here on a number is written by its size: its digits would fill the table.
LARGE = 1e6

#: Stands where there is no value.
NOTHING = "\N{EN DASH}"


def words(value: Any) -> str:
    """Write anything as a reader expects it; what is missing becomes a dash."""
    if missing(value):
        return NOTHING
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M")
    if isinstance(value, (list, tuple, np.ndarray)):
        return ", ".join(map(str, value)) or NOTHING
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)


def fixed(places: int) -> Callable[[Any], str]:
    """Return a writer of numbers with so many decimals; what rounds to zero has no sign."""

    def written(value: Any) -> str:
        if missing(value):
            return NOTHING
        return f"{value:.1e}" if abs(value) >= LARGE else f"{float(value):z.{places}f}"

    return written


def percent(value: Any) -> str:
    """Write a fraction as a percentage."""
    return NOTHING if missing(value) else f"{100 * float(value):.2f} %"


def whole(value: Any) -> str:
    """Write a whole number, its thousands set apart."""
    return NOTHING if missing(value) else f"{int(value):,}"


def probability(value: Any) -> str:
    """Write a p-value: small ones by their size."""
    if missing(value):
        return NOTHING
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def missing(value: Any) -> bool:
    """Tell whether there is no value."""
    if value is None or value is pd.NA or value is pd.NaT:
        return True
    if isinstance(value, float):
        return not math.isfinite(value)
    return isinstance(value, str) and not value


@dataclass(frozen=True, slots=True)
class Column:
    """How one column of a frame is shown."""

    #: The frame's column.
    name: str
    #: What stands above it.
    heading: str
    #: How a value is written.
    form: Callable[[Any], str] = words
    #: What it means, where the heading does not say it; shown below the table.
    meaning: str = ""
    #: By its value: where a cell leads to.
    links: Mapping[Any, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table."""

    text: str
    #: What it is sorted by; empty where there is no value.
    key: str
    numeric: bool
    #: Where it leads to, below the report's folder; empty for nowhere.
    link: str = ""

    @property
    def long(self) -> bool:
        """Whether a word of it must be broken on narrow paper, as the path of a file must."""
        return any(len(word) > LONGEST_WORD for word in self.text.split())


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page."""

    #: Unique in its page.
    name: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: Of each column, whether it holds numbers.
    numeric: tuple[bool, ...]

    @property
    def meanings(self) -> list[Column]:
        """The columns that need explaining."""
        return [column for column in self.columns if column.meaning]


def table(name: str, caption: str, frame: pd.DataFrame, columns: Sequence[Column]) -> Table:
    """Return a frame's rows as a table; the first column names the row.

    Parameters
    ----------
    name : str
        Unique in its page.
    caption : str
        What the table shows.
    frame : pandas.DataFrame
        The rows, in order.
    columns : sequence of Column
        Which columns; those the frame lacks, or that hold no value at all, are left out, the first
        alone excepted.
    """
    first, *others = columns
    shown = (first, *(column for column in others if _says_something(frame, column.name)))
    values = [frame[column.name].astype(object).tolist() for column in shown]
    rows = tuple(
        tuple(_cell(value, column) for value, column in zip(row, shown, strict=True))
        for row in zip(*values, strict=True)
    )
    columns_of_cells = zip(*rows, strict=True) if rows else [()] * len(shown)
    numeric = tuple(any(cell.numeric for cell in cells) for cells in columns_of_cells)
    return Table(name, caption, shown, rows, numeric)


def _says_something(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and not all(missing(value) for value in frame[name].astype(object))


def _cell(value: Any, column: Column) -> Cell:
    absent = missing(value)
    numeric = not absent and isinstance(value, (int, float)) and not isinstance(value, bool)
    text = NOTHING if absent else column.form(value)
    link = "" if absent else column.links.get(value, "")
    return Cell(text, "" if absent else _key(value, numeric), numeric, link)


def _key(value: Any, numeric: bool) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(float(value)) if numeric else str(value).casefold()


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure with the rows it shows and the SQL that leads back to the store."""

    #: Its files' stem; unique in the report.
    name: str
    #: A figure of ``analysis.figures``: its finding, note and caption are within.
    chart: Any
    #: The rows it shows.
    rows: pd.DataFrame
    #: A statement on the signature store.
    sql: str
    #: What the statement gives: the rows themselves, or those they were computed from.
    sql_gives: Literal["these rows", "the measured rows"] = "the measured rows"


@dataclass(frozen=True, slots=True)
class Section:
    """A page about one question."""

    #: What was found, in a sentence; or why there is nothing.
    finding: str
    #: Its file's stem.
    name: str = ""
    title: str = ""
    #: Whether the data allow it; without, no page is made.
    present: bool = True
    #: How it was found, paragraph by paragraph.
    paragraphs: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True, slots=True)
class Fact:
    """A name and what it is, of a list of facts."""

    name: str
    text: str
    #: Where it leads to, below the report's folder; empty for nowhere.
    link: str = ""


def facts(**values: Any) -> list[Fact]:
    """Return facts of what is known: names with spaces for underscores, missing values left out."""
    return [
        Fact(name.replace("_", " "), value if isinstance(value, str) else words(value))
        for name, value in values.items()
        if not missing(value)
    ]
