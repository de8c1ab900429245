"""Formats of tables: aligned text, JSON, CSV, Parquet and Arrow, written batch by batch.

However many rows there are, only a few batches are held at once; aligned text holds the rows that
it shows.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import count, zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, BinaryIO

from jobs.choices import ResultFormat
from survey.text import first_names, harmless, printable, shortened

if TYPE_CHECKING:
    import pyarrow as pa

#: Characters that aligned text shows of a cell.
LONGEST_CELL = 4000

#: Decimals that aligned text shows of a number; and the most digits of one that was rounded.
_DECIMALS, _ROUNDED_DIGITS = 4, 9

#: Numbers closer to zero are written with an exponent, unless they were rounded.
_LEAST_PLAIN = 1e-3

#: Images whose shares are no rounded numbers.
_SHARE_OF = 2**20

#: Rows and bytes of a row group of Parquet: readers are quick with large ones.
_GROUP_ROWS, _GROUP_BYTES = 1 << 17, 32 << 20


@dataclass(frozen=True, slots=True)
class Written:
    """How much of a table was written."""

    #: All its rows.
    rows: int
    #: Those that were written: aligned text may stop at some number.
    shown: int


def write_batches(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    format: ResultFormat,  # noqa: A002
    stream: BinaryIO,
    most_lines: int | None = None,
    width: int | None = None,
) -> Written:
    """Write a table as its batches come.

    Parameters
    ----------
    schema : pyarrow.Schema
        Its columns.
    batches : iterable of pyarrow.RecordBatch
        Its rows.
    format : {"table", "json", "csv", "parquet", "arrow"}
        How.
    stream : binary file
        Where.
    most_lines : int, optional
        Rows that aligned text shows; the others are counted. By default all are shown.
    width : int, optional
        Terminal cells that a line of aligned text may take.

    Returns
    -------
    Written
        How many rows there were.
    """
    import pyarrow as pa

    counter = _RowCounter()
    names = _unique(schema.names)
    schema = pa.schema([field.with_name(n) for field, n in zip(schema, names, strict=True)])
    parts = (pa.Table.from_batches([b.rename_columns(names)], schema) for b in batches)
    counted = counter.through(parts)
    if format == "table":
        rows: list[dict[str, Any]] = []
        for part in counted:
            room = None if most_lines is None else most_lines - len(rows)
            rows += python_values(part.slice(0, room))
        stream.write(table_text(rows, _numeric(schema), width).encode())
        return Written(counter.rows, len(rows))
    if format == "json":
        for piece in json_pieces(row for part in counted for row in python_values(part)):
            stream.write(piece.encode())
    elif format == "csv":
        _write_csv(schema, counted, stream)
    elif format == "arrow":
        with pa.ipc.new_stream(stream, schema) as writer:
            for part in counted:
                writer.write_table(part)
    else:
        _write_parquet(schema, counted, stream)
    return Written(counter.rows, counter.rows)


class _RowCounter:
    """Counts the rows of tables on their way."""

    def __init__(self) -> None:
        self.rows = 0

    def through(self, parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
        for part in parts:
            self.rows += part.num_rows
            yield part


def _write_csv(schema: pa.Schema, parts: Iterable[pa.Table], stream: BinaryIO) -> None:
    # Imported where they are needed: most verbs write text.
    import pyarrow as pa
    from pyarrow.csv import CSVWriter

    with CSVWriter(stream, _as_csv(pa.Table.from_batches([], schema)).schema) as writer:
        for part in parts:
            writer.write_table(_as_csv(part))


def _write_parquet(schema: pa.Schema, parts: Iterable[pa.Table], stream: BinaryIO) -> None:
    from pyarrow.parquet import ParquetWriter

    with ParquetWriter(stream, schema) as writer:
        for group in _row_groups(parts):
            writer.write_table(group)


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting: list[pa.Table] = []
    rows = size = 0
    for part in parts:
        waiting.append(part)
        rows, size = rows + part.num_rows, size + part.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _numeric(schema: pa.Schema) -> dict[str, bool]:
    """Return which columns hold numbers."""
    from pyarrow.types import is_decimal, is_floating, is_integer

    kinds = (is_integer, is_floating, is_decimal)
    return {each.name: any(of_kind(each.type) for of_kind in kinds) for each in schema}


def _unique(names: Iterable[str]) -> list[str]:
    """Number columns of the same name, which rows as dictionaries would lose."""
    given = list(names)
    taken, unique = set(given), list[str]()
    for name in given:
        free = name
        if name in unique:
            free = next(each for n in count(1) if (each := f"{name}_{n}") not in taken)
            taken.add(free)
        unique.append(free)
    return unique


def python_values(table: pa.Table | pa.ChunkedArray) -> list[Any]:
    """Return the rows of a table, or the values of a column; a map is a dictionary."""
    values: list[Any]
    try:
        values = table.to_pylist(maps_as_pydicts="lossy")
    except TypeError:
        # Keys that no dictionary can have, such as lists.
        values = table.to_pylist()
    return values


def json_pieces(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a JSON array of some rows, an object each."""
    before = "["
    for row in rows:
        text = json.dumps([_plain(row)], indent=2, allow_nan=False)
        yield before + text[1:-2]
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def json_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a JSON array of some rows on one line, which takes a fraction of the time."""
    try:
        return json.dumps(rows, allow_nan=False, default=_plain)
    except (TypeError, ValueError):
        # A number that is not finite, or a key that is no text.
        return json.dumps(_plain(rows), allow_nan=False)


def table_text(
    rows: Iterable[Mapping[str, Any]], numeric: Mapping[str, bool], width: int | None = None
) -> str:
    """Return rows as aligned text.

    Parameters
    ----------
    rows : iterable of mapping
        The rows, with the columns in their order.
    numeric : mapping of str to bool
        The columns, and whether they hold numbers.
    width : int, optional
        Terminal cells that a line may take; by default it takes what it needs.
    """
    from rich.cells import cell_len

    from jobs.fitting import GAP, cut_lines, fit_columns

    held = list(rows)
    decimals = {name: _decimals(row[name] for row in held) for name in numeric}
    lines = [
        [*map(printable, numeric)],
        *([_cell(value, decimals[name]) for name, value in row.items()] for row in held),
    ]
    right = list(numeric.values())
    fit = fit_columns(lines, right, sys.maxsize if width is None else width)
    text = []
    for line in lines:
        parts = [cut_lines(line[k], w) for k, w in zip(fit.places, fit.widths, strict=True)]
        for cells in zip_longest(*parts, fillvalue=""):
            padding = [" " * (w - cell_len(c)) for c, w in zip(cells, fit.widths, strict=True)]
            padded = zip(fit.places, cells, padding, strict=True)
            text.append((" " * GAP).join(p + c if right[k] else c + p for k, c, p in padded))
    text.insert(1, "-" * (sum(fit.widths) + GAP * (len(fit.widths) - 1)))
    alike = ", ".join(f"{lines[0][k]} {lines[1][k]}" for k in fit.alike)
    left_out = first_names((lines[0][k] for k in fit.left_out), 12)
    notes = [f"{'in every row' if len(held) > 1 else 'besides'}: {alike}"] if alike else []
    notes += [f"not shown: {left_out} (--json or a wider terminal shows all)"] if left_out else []
    text += [part for note in notes for part in wrap(note, width or 0)]
    return "\n".join(line.rstrip() for line in text) + "\n"


def _decimals(values: Iterable[Any]) -> int | None:
    """Return the decimals that a column's numbers were rounded to; None where they were not."""
    numbers = [each for each in values if isinstance(each, float) and math.isfinite(each)]
    most = max((1, *map(_decimals_of, numbers)))
    largest = max(map(abs, numbers), default=0.0)
    fits = len(f"{largest:.0f}") + most <= _ROUNDED_DIGITS
    return most if fits else None


def _decimals_of(number: float) -> int:
    # The shortest text that stands for a number shows how far it was rounded.
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    decimals = -exponent if isinstance(exponent, int) else 0
    # A share of 128 or 512 images is exact in binary, and was not rounded.
    is_share = abs(number) >= _LEAST_PLAIN and number.as_integer_ratio()[1] <= _SHARE_OF
    return min(decimals, _DECIMALS) if is_share else decimals


def _cell(value: Any, decimals: int | None) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        if decimals is not None:
            return f"{value:.{decimals}f}"
        plain = value == 0 or _LEAST_PLAIN <= abs(value) < 1e4
        return f"{value:.{_DECIMALS}f}" if plain else f"{value:.{_DECIMALS}g}"
    if isinstance(value, list):
        text = ", ".join(str(item) for item in value) or "-"
    elif isinstance(value, dict):
        text = ", ".join(f"{key}={item}" for key, item in value.items()) or "-"
    elif isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
    elif isinstance(value, Decimal):
        text = f"{value:f}"
    else:
        text = str(value)
    return shortened(text, LONGEST_CELL)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return _number(value)
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def _as_csv(table: pa.Table) -> pa.Table:
    """Return a table with lists as JSON text, and with no text that a spreadsheet would run."""
    import pyarrow as pa

    from catalog.arrow_arrays import array_of

    for place, field in enumerate(table.schema):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        cells = table.column(place)
        if pa.types.is_nested(kind):
            texts = [None if c is None else json.dumps(_plain(c)) for c in python_values(cells)]
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            texts = [harmless(cell) for cell in cells.to_pylist()]
        else:
            continue
        table = table.set_column(place, field.name, array_of(texts, pa.string()))
    return table.rename_columns([harmless(name) for name in table.column_names])


def _number(value: Decimal) -> int | float | str:
    """Return a decimal as JSON holds it: as text where a number would lose digits."""
    if (whole := int(value)) == value:
        return whole
    near = float(value)
    return near if Decimal(repr(near)) == value else str(value)
