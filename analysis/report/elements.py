"""Parts of a page, without markup: tables, exhibits, sections and facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pandas as pd

from analysis.answers.columns import Table, TableColumn, columns_of
from analysis.data.short_names import without_paths
from analysis.text import NOTHING, aligned, cell, missing, spaced

#: Letters of a word up to which it is kept whole in a cell.
LONGEST_WORD = 14


class Cell(NamedTuple):
    """One cell of a table."""

    text: str
    #: The text it is sorted by; empty where there is no value.
    key: str
    numeric: bool
    #: The address it links to, below the report's folder; empty for no link.
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


def page_table(
    table: Table,
    links: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    most: int | None = None,
) -> PageTable:
    """Return the cells of a table; the first column names the row.

    Parameters
    ----------
    table : Table
        Of its columns the model's comes first. Those that the frame lacks, or that hold no value at
        all, are left out, the first alone excepted.
    links : mapping, optional
        The addresses that cells link to, by column and value.
    most : int, optional
        How many rows it has at most.
    """
    rows, caption = table.rows, table.caption
    if most is not None and len(rows) > most:
        caption += f" The first {most} of {len(rows):,} rows; a selection shows others."
        rows = rows.head(most)
    names = [each.name for each in columns_of(table.columns) if each.name in rows]
    named = without_paths(rows[names])
    values = {name: named[name].tolist() for name in names}
    return table_of(table.name, caption, table.columns, values, links)


def table_of(
    name: str,
    caption: str,
    columns: Iterable[str | TableColumn],
    values: Mapping[str, Sequence[Any]],
    links: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> PageTable:
    """Return the cells of a table whose values are given by column; see ``page_table``."""
    first, *others = sorted(columns_of(columns), key=lambda column: column.name != "model")
    held = (column for column in others if not all(map(missing, values.get(column.name, ()))))
    shown = (first, *held)
    cells = [_cells(values[column.name], column, links.get(column.name, {})) for column in shown]
    numeric = tuple(any(cell.numeric for cell in each) for each in cells)
    return PageTable(name, caption, shown, tuple(zip(*cells, strict=True)), numeric)


def _cells(values: Sequence[Any], column: TableColumn, links: Mapping[str, str]) -> list[Cell]:
    form = aligned(values) if column.form is cell else column.form
    return [_cell(value, form, links) for value in values]


def _cell(value: Any, form: Callable[[Any], str], links: Mapping[str, str]) -> Cell:
    if missing(value):
        return Cell(NOTHING, "", numeric=False)
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    link = links.get(value, "") if isinstance(value, str) else ""
    return Cell(form(value), _key(value, numeric), numeric, link)


def _key(value: Any, numeric: bool) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return repr(float(value)) if numeric else str(value).casefold()


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A figure with the rows it shows and the SQL that leads back to the store."""

    #: The stem of its files; unique in the report.
    name: str
    #: Makes a figure of ``analysis.figures``, with its finding, note and caption.
    chart: Callable[[], Any]
    #: Makes the rows it shows.
    rows: Callable[[], pd.DataFrame]
    #: A statement on the signature store.
    sql: str
    #: The result of the statement: the rows themselves, or those they were computed from.
    sql_gives: Literal["these rows", "the measured rows"] = "the measured rows"


@dataclass(frozen=True, slots=True)
class Section:
    """The content of a page about one question."""

    #: The result, in a sentence; or why there is none.
    finding: str
    #: The stem of its file.
    name: str
    title: str
    #: Whether the data allow it; if not, there is no page.
    present: bool = True
    #: How it was computed, and what it leaves out, paragraph by paragraph.
    paragraphs: tuple[str, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    tables: tuple[PageTable, ...] = ()
    #: A warning above all; empty where there is none.
    banner: str = ""

    def page(self) -> Page:
        """Return its page."""
        link = Link(self.title, f"{self.name}.html")
        return Page(link, "section.html", {"section": self}, self.exhibits)


class Link(NamedTuple):
    """A page's title, and its address below the report's folder."""

    title: str
    address: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the report, before its exhibits are drawn."""

    link: Link
    #: The file of its template, and the values that this takes beside those of every page.
    template: str
    values: Mapping[str, Any]
    exhibits: tuple[Exhibit, ...] = ()


def facts(**values: Any) -> dict[str, str]:
    """Return texts by names with spaces for underscores, without those of missing values."""
    texts = {spaced(name): cell(value) for name, value in values.items()}
    return {name: text for name, text in texts.items() if text != NOTHING}
