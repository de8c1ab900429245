"""Where tables and figures go: standard output or a file, in the format that the options name."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import typer

from analysis.figure_style import FigureStyle
from analysis.option_fields import given_flags, option
from catalog.files import whole_file
from jobs.choices import Format
from jobs.cli.terminal import say
from jobs.cli.verb import FormatOption, JsonOption, OutputOption
from survey.errors import SettingsError
from survey.text import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from jobs.operations.sql_query import SqlQuery


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

    def write_runs(self, table: pa.Table, run_ids: Sequence[str]) -> None:
        """Write the rows of a table that are about some runs."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from catalog.arrow_arrays import array_of

        self.write(table.filter(pc.is_in(table["run_id"], array_of(run_ids, pa.string()))))

    def _emit(self, table: pa.Table) -> None:
        emit(table, self.format)


@dataclass(frozen=True, slots=True)
class TableFileOptions(TableOptions):
    """The options of a verb's table, which may be a file."""

    output: OutputOption = None

    def _emit(self, table: pa.Table) -> None:
        emit(table, self.format, self.output)
        if self.output is not None:
            self._echo_rows(table.num_rows)

    def write_query(self, query: SqlQuery) -> None:
        """Write the result of a query as it comes; its format is the one of these options."""
        with _destination(self.output) as stream, closing(iter(query)) as pieces:
            for piece in pieces:
                stream.write(piece)
        if self.output is not None:
            self._echo_rows(query.rows)
        if query.damage is not None:
            say(f"warning: without labels and tags: {query.damage}")
        if query.shown < query.rows:
            rows = f"the first {query.shown:,} of {counted(query.rows, 'row')}"
            say(f"{rows}; --format csv, json or parquet gives all")

    def _echo_rows(self, rows: int) -> None:
        say(f"{counted(rows, 'row')} written to {self.output}")


#: Points that labels may be smaller than asked for without a word.
_CLOSE = 0.25


@dataclass(frozen=True, slots=True)
class FigureOptions(FigureStyle):
    """The options of a figure."""

    file: Path | None = option(
        None,
        "File for a drawing: .svg, .png, .pdf or .html.",
        flags=("--figure",),
        none="none is drawn",
    )

    def check(self) -> None:
        """Raise unless the file can be drawn and every option belongs to it and can be used."""
        if self.file is None:
            for flag in given_flags(self, FigureStyle):
                raise SettingsError(f"{flag} goes with --figure", hint="add --figure FILE")
            return
        FigureStyle.check(self)
        from analysis.figures import require_drawable

        require_drawable(self.file)

    def save(self, chart: Any, file: Path) -> str:
        """Draw a chart into a file, and return a message about it."""
        from analysis.figures import save

        points = save(chart, file, style=self)
        small = points < self.points - _CLOSE
        smaller = f"; its labels are of {points:.1f} points, as the width has no room for more"
        return f"figure written to {file}{smaller if small else ''}"


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
        If the file cannot be written.
    """
    from jobs.operations.table_formats import write_batches

    with _destination(output) as stream:
        width = None if output else terminal_width()
        write_batches(table.schema, table.to_batches(), format, stream, width=width)


def terminal_width() -> int | None:
    """Return the columns of standard output, or ``COLUMNS``; None where it is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


@contextmanager
def _destination(output: Path | None) -> Iterator[BinaryIO]:
    """Give what a table is written to; a file appears whole or not at all."""
    if output in (None, Path("/dev/stdout")):
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        if output.exists() and not output.is_file():
            # A pipe or a device, which another file is not to take the place of.
            with output.open("wb") as stream:
                yield stream
            return
        target, ending = Path(os.path.realpath(output)), f".{os.getpid()}.partial"
        with whole_file(target, ending) as partial, partial.open("wb") as stream:
            yield stream
    except OSError as error:
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
    from jobs.operations.table_formats import json_pieces, table_text

    if format in ("csv", "parquet"):
        import pyarrow as pa

        from catalog.arrow_arrays import table_of

        types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
        schema = pa.schema([(name, types[kind]) for name, kind in kinds.items()])
        emit(table_of(rows, schema), format)
    elif format == "json":
        typer.echo("".join(json_pieces(rows)), nl=False)
    else:
        numeric = {name: kind is not str for name, kind in kinds.items()}
        typer.echo(table_text(rows, numeric, terminal_width()), nl=False)
