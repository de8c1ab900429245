"""Tables as aligned text, JSON, CSV or Parquet, on standard output or in a file."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from jobs.choices import Format
from jobs.cli.verb import FormatOption, JsonOption, OutputOption
from survey.errors import SettingsError
from survey.text import counted, harmless

if TYPE_CHECKING:
    import pyarrow as pa

#: A rule below the header and a space between columns, as ``rich.box`` writes boxes.
_RULED = "    \n    \n -- \n    \n    \n    \n    \n    \n"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """The options of a verb's table."""

    format: FormatOption = "table"
    #: Read by the option above, before it.
    json: JsonOption = False

    def write(self, table: pa.Table, headings: Mapping[str, str | None] | None = None) -> None:
        """Write a table to standard output.

        Parameters
        ----------
        table : pyarrow.Table
            The table.
        headings : mapping of str to str or None, optional
            The columns that aligned text has, by default all, with their headings; None keeps a
            column's own name.
        """
        if headings and self.format == "table":
            table = table.select(list(headings))
            table = table.rename_columns([heading or name for name, heading in headings.items()])
        self._emit(table)

    def _emit(self, table: pa.Table) -> None:
        emit(table, self.format)


@dataclass(frozen=True, slots=True)
class TableFileOptions(TableOptions):
    """The options of a verb's table, which may be a file."""

    output: OutputOption = None

    def _emit(self, table: pa.Table) -> None:
        emit(table, self.format, self.output)
        if self.output is not None:
            typer.echo(f"{counted(table.num_rows, 'row')} written to {self.output}", err=True)


def emit(table: pa.Table, format: Format = "table", output: Path | None = None) -> None:  # noqa: A002
    """Write a table.

    Parameters
    ----------
    table : pyarrow.Table
        What to write.
    format : {"table", "json", "csv", "parquet"}
        How.
    output : pathlib.Path, optional
        A file to write instead of standard output.

    Raises
    ------
    SettingsError
        If Parquet would go to a terminal, or the file cannot be written.
    """
    if format == "parquet" and output is None and sys.stdout.isatty():
        raise SettingsError(
            "Parquet is binary and standard output is a terminal",
            hint="add --output FILE, or redirect: > FILE",
        )
    table = _with_unique_names(table)
    if output is None:
        sys.stdout.flush()
        _write(table, format, sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    partial = output.with_name(output.name + ".partial")
    try:
        with partial.open("wb") as stream:
            _write(table, format, stream)
        partial.replace(output)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SettingsError(f"{output} cannot be written: {error.strerror}") from None


def emit_rows(
    rows: list[dict[str, Any]],
    kinds: Mapping[str, type[str | int | float]],
    format: Format,  # noqa: A002
) -> None:
    """Write rows to standard output, as ``emit`` writes the table of them.

    Aligned text and JSON need no pyarrow, which takes long to import.

    Parameters
    ----------
    rows : list of dict
        The rows, with the columns in their order.
    kinds : mapping of str to type
        The columns, and what they hold.
    format : {"table", "json", "csv", "parquet"}
        How.
    """
    if format in ("csv", "parquet"):
        import pyarrow as pa

        types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
        schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
        emit(pa.Table.from_pylist(rows, schema), format)
    else:
        numeric = {name: kind is not str for name, kind in kinds.items()}
        typer.echo(_text(rows, numeric, format), nl=False)


def _write(table: pa.Table, format: Format, stream: BinaryIO) -> None:  # noqa: A002
    # Imported where they are needed: most verbs write text.
    if format == "parquet":
        from pyarrow.parquet import write_table

        write_table(table, stream)
    elif format == "csv":
        from pyarrow.csv import write_csv

        write_csv(_as_csv(table), stream)
    else:
        stream.write(_text(table.to_pylist(), _numeric(table), format).encode())


def _numeric(table: pa.Table) -> dict[str, bool]:
    """Return which columns hold numbers."""
    from pyarrow.types import is_floating, is_integer

    return {each.name: is_integer(each.type) or is_floating(each.type) for each in table.schema}


def _with_unique_names(table: pa.Table) -> pa.Table:
    """Number columns of the same name, which rows as dictionaries would lose."""
    seen: Counter[str] = Counter()
    names = []
    for name in table.column_names:
        names.append(f"{name}_{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return table.rename_columns(names)


def _text(rows: list[dict[str, Any]], numeric: Mapping[str, bool], format: Format) -> str:  # noqa: A002
    """Return rows as JSON, or as aligned text as wide as it needs.

    Squeezing columns to the terminal's width would cut the very names a row is about.
    """
    if format == "json":
        return json.dumps([_plain(row) for row in rows], indent=2, allow_nan=False) + "\n"
    from rich import box
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=box.Box(_RULED), pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for name, is_number in numeric.items():
        shown.add_column(name, justify="right" if is_number else "left", no_wrap=is_number)
    for row in rows:
        shown.add_row(*(_cell(value) for value in row.values()))
    console = Console(width=10_000, markup=False, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(shown)
    lines = [line.rstrip() for line in capture.get().splitlines()]
    return "\n".join(lines) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or 1e-3 <= abs(value) < 1e4 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(str(item) for item in value) or "-"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def _as_csv(table: pa.Table) -> pa.Table:
    """Return a table with lists as JSON text, and with no text that a spreadsheet would run."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        cells = table.column(place)
        if pa.types.is_nested(kind):
            texts = [None if cell is None else json.dumps(cell) for cell in cells.to_pylist()]
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = [harmless(cell) for cell in cells.to_pylist()]
        else:
            continue
        table = table.set_column(place, field.name, pa.array(texts, pa.large_string()))
    return table.rename_columns([harmless(name) for name in table.column_names])
