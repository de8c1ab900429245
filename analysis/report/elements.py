"""What a page is made of: tables, exhibits and sections, as values without any markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import pandas as pd

from analysis.answers.columns import TableColumn, columns_of
from analysis.text import NOTHING, cell, missing, spaced

#: Letters of a word up to which it is kept whole in a cell.
LONGEST_WORD = 14


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
        return any(len(name) > LONGEST_WORD for name in self.text.split())


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table of a page."""

    #: Unique in its page.
    name: str
    caption: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    #: Of each column, whether it holds numbers.
    numeric: tuple[bool, ...]

    @property
    def meanings(self) -> list[TableColumn]:
        """The columns that need explaining."""
        return [column for column in self.columns if column.meaning]


def table(
    name: str,
    caption: str,
    frame: pd.DataFrame,
    columns: Sequence[str | TableColumn],
    links: Mapping[str, Mapping[str, str]] | None = None,
) -> PageTable:
    """Return a frame's rows as a table; the first column names the row.

    Parameters
    ----------
    name : str
        Unique in its page.
    caption : str
        What the table shows.
    frame : pandas.DataFrame
        The rows, in order.
    columns : sequence of str or TableColumn
        Which columns; the model's comes first. Those the frame lacks, or that hold no value at all,
        are left out, the first alone excepted.
    links : mapping, optional
        Where cells lead to, by column and value.
    """
    first, *others = sorted(columns_of(columns), key=lambda column: column.name != "model")
    shown = (first, *(column for column in others if _has_values(frame, column.name)))
    values = [frame[column.name].astype(object).tolist() for column in shown]
    rows = tuple(
        tuple(
            _cell(value, column, (links or {}).get(column.name, {}))
            for value, column in zip(row, shown, strict=True)
        )
        for row in zip(*values, strict=True)
    )
    columns_of_cells = zip(*rows, strict=True) if rows else [()] * len(shown)
    numeric = tuple(any(cell.numeric for cell in cells) for cells in columns_of_cells)
    return PageTable(name, caption, shown, rows, numeric)


def _has_values(frame: pd.DataFrame, name: str) -> bool:
    return name in frame and not all(missing(value) for value in frame[name].astype(object))


def _cell(value: Any, column: TableColumn, links: Mapping[str, str]) -> Cell:
    if missing(value):
        return Cell(NOTHING, "", numeric=False)
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    link = links.get(value, "") if isinstance(value, str) else ""
    return Cell(column.form(value), _key(value, numeric), numeric, link)


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

    #: What follows from the data, in a sentence; or why there is nothing.
    finding: str
    #: Its file's stem.
    name: str = ""
    title: str = ""
    #: Whether the data allow it; without, no page is made.
    present: bool = True
    #: How it was computed, and what else is to be known, paragraph by paragraph.
    paragraphs: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    tables: tuple[PageTable, ...] = ()


def facts(**values: Any) -> dict[str, str]:
    """Return facts of what is known: names with spaces for underscores, missing values left out."""
    return {spaced(name): cell(value) for name, value in values.items() if not missing(value)}
