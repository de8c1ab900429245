"""Files of the user's own that a query may join: each a table, by a name that the user gives.

They are read by the process that answers the query, before it gives up opening files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from survey.errors import SettingsError
from survey.text import format_bytes

if TYPE_CHECKING:
    import duckdb

#: Bytes of the largest file that is read.
LARGEST_BYTES = 200_000_000

#: How a file is read, by the ending of its name. All of it is looked at before types are chosen,
#: and no lines but blank ones are left out for what would make columns of the others.
_READERS = {
    ".csv": "read_csv($file, header = true, skip = {blank}, comment = '', sample_size = -1)",
    ".tsv": "read_csv($file, header = true, skip = {blank}, comment = '', sample_size = -1,"
    " delim = '\t')",
    ".parquet": "read_parquet($file)",
}

# Nothing is installed or written for a file.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")

#: What a file's rows are called on their way: a name that no file is given.
_INCOMING = "incoming rows"

_TAKEN = """
SELECT 'a word of SQL' FROM duckdb_keywords()
WHERE keyword_name = lower($name) AND keyword_category IN ('reserved', 'type_function')
UNION ALL
SELECT 'a table or view of the store' FROM (
  SELECT table_name FROM duckdb_tables() UNION ALL SELECT view_name FROM duckdb_views())
WHERE lower(table_name) = lower($name)
"""


@dataclass(frozen=True, slots=True)
class UserTable:
    """A file that a query may join."""

    #: The table's name in SQL.
    name: str
    #: The file.
    path: Path

    def __str__(self) -> str:
        return f"{self.name}={self.path}"


def user_tables(texts: Iterable[str]) -> tuple[UserTable, ...]:
    """Return the tables that ``NAME=FILE`` mean, each of a file that can be read.

    Raises
    ------
    SettingsError
        If one has another form, two have one name, or a file is missing, of another kind or too
        large.
    """
    tables = tuple(map(_parsed, texts))
    names = [table.name.lower() for table in tables]
    for table in tables:
        if names.count(table.name.lower()) > 1:
            raise SettingsError(f"two files are to be the table {table.name}: --with {table}")
    return tables


def _parsed(text: str) -> UserTable:
    name, _, file = text.partition("=")
    if not _NAME.fullmatch(name) or not file:
        raise SettingsError(
            f"--with {text!r} must be NAME=FILE, the name of letters, digits and _",
            hint="such as --with accuracy=accuracy.csv, which a query joins as accuracy",
        )
    table = UserTable(name, Path(file).absolute())
    if not table.path.is_file():
        what = "is no file" if table.path.exists() else "does not exist"
        raise SettingsError(f"--with {table}: the file {what}")
    if table.path.suffix.lower() not in _READERS:
        raise SettingsError(
            f"--with {table}: the file's name ends in {table.path.suffix or 'nothing'!r}, must be"
            f" one of {', '.join(_READERS)}"
        )
    size = table.path.stat().st_size
    if size > LARGEST_BYTES:
        raise SettingsError(
            f"--with {table}: the file has {format_bytes(size)}, at most"
            f" {format_bytes(LARGEST_BYTES)} are read",
            hint="keep the columns and rows that the query needs, or write it as Parquet",
        )
    return table


def load(
    connection: duckdb.DuckDBPyConnection, tables: Iterable[UserTable], memory_bytes: int
) -> None:
    """Put files into temporary tables of a locked-down connection.

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        A reader's.
    tables : iterable of UserTable
        The files.
    memory_bytes : int
        What reading one may take.

    Raises
    ------
    SettingsError
        If a name is taken, or a file is not what its name ends in.
    """
    for table in tables:
        taken = connection.execute(_TAKEN, {"name": table.name}).fetchall()
        if taken:
            raise SettingsError(
                f"--with {table}: {table.name} is {taken[0][0]}", hint="choose another name"
            )
        _load(connection, table, memory_bytes)


def _load(connection: duckdb.DuckDBPyConnection, table: UserTable, memory_bytes: int) -> None:
    # Imported here: whoever only names files needs no database.
    import duckdb

    config = {**_CONFIG, "memory_limit": f"{memory_bytes}B"}
    named = str(table.path)
    try:
        # By its descriptor: DuckDB would take a name with * or ? for many files.
        with table.path.open("rb") as file, duckdb.connect(config=config) as other:
            named = f"/dev/fd/{file.fileno()}"
            blank = len(list(takewhile(lambda line: not line.strip(), file)))
            reader = _READERS[table.path.suffix.lower()].format(blank=blank)
            file.seek(0)
            rows = other.sql(f"FROM {reader}", params={"file": named}).to_arrow_table()
        connection.register(_INCOMING, rows)
        connection.execute(f'CREATE TEMP TABLE "{table.name}" AS FROM "{_INCOMING}"').fetchall()
        connection.unregister(_INCOMING)
    except OSError as error:
        raise SettingsError(
            f"--with {table}: the file cannot be read: {os.strerror(error.errno or 0)}"
        ) from error
    except duckdb.Error as error:
        first = str(error).replace(named, str(table.path)).splitlines()[0]
        raise SettingsError(
            f"--with {table}: the file cannot be read: {first}",
            hint="a .csv or .tsv begins with a line of its columns' names; .parquet is Parquet",
        ) from error
