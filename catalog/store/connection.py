"""Connections to the signature store's file: who may have it open, and what goes wrong when.

One process may write the file or many may read it, never both. A connection that cannot be had
now is *busy*, which passes; anything else about the file is a ``StoreError``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from survey.errors import StoreError

#: Bytes that a query may use of memory; it does not spill to disk.
READER_MEMORY_BYTES = 2_000_000_000

#: Seconds for which a reader waits for the writer; a merge takes a fraction of one.
WAIT_SECONDS = 30.0

#: Seconds between two tries for a busy file.
RETRY_SECONDS = 0.02

# Given while connecting, and the same for every reader: those of one process share one instance.
# Python's variables are not tables to a query.
_READER_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}

# Two threads may not both find the shared instance unlocked.
_locking_down = threading.Lock()


def connect_reading(
    path: Path, memory_bytes: int = READER_MEMORY_BYTES
) -> duckdb.DuckDBPyConnection:
    """Open the file read-only and locked down, waiting while a writer has it.

    Parameters
    ----------
    path : Path
        The store's file.
    memory_bytes : int
        What a query may use of memory; the same for all connections of a process.

    Raises
    ------
    StoreError
        If it stays busy, is missing, or is no store.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while (connection := _connect(path, reading_with_bytes=memory_bytes)) is None:
        if time.monotonic() >= deadline:
            raise StoreError(
                f"{path} was held by a writer for {WAIT_SECONDS:g} seconds",
                hint="close whatever has it open for writing, and connections of your own to it in "
                "this process; a scan holds it only for moments",
            )
        time.sleep(RETRY_SECONDS)
    return connection


def connect_writing(path: Path) -> duckdb.DuckDBPyConnection | None:
    """Open the file for writing; None if another connection has it.

    Raises
    ------
    StoreError
        If it is no store, or cannot be written.
    """
    return _connect(path)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what DuckDB raises about the file itself into a ``StoreError``."""
    try:
        yield
    except duckdb.Error as error:
        raise StoreError(
            f"{path} cannot be used: {_first_line(error)}", hint=_hint(error)
        ) from error


def _connect(path: Path, reading_with_bytes: int = 0) -> duckdb.DuckDBPyConnection | None:
    if not path.is_file():
        raise StoreError(f"{path} does not exist", hint="run `survey run` first or pass --home")
    with explained(path):
        try:
            if reading_with_bytes:
                config = {**_READER_CONFIG, "memory_limit": f"{reading_with_bytes}B"}
                return _locked_down(duckdb.connect(path, read_only=True, config=config))
            return _quiet(duckdb.connect(path))
        except (duckdb.IOException, duckdb.ConnectionException) as error:
            if _is_busy(error):
                return None
            raise


def _locked_down(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    # Without external access the store's own files stay open to COPY TO, its log among them, and
    # reading the store's file as text would drop its lock. Without a file system nothing is.
    with _locking_down:
        rows = connection.execute("SELECT current_setting('lock_configuration')").fetchall()
        if not rows[0][0]:
            _quiet(connection)
            connection.execute("SET disabled_filesystems = 'LocalFileSystem'").fetchall()
            connection.execute("SET lock_configuration = true").fetchall()
    return connection


def _quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    # DuckDB would draw a bar of its own among the command's output, also where it goes to a file.
    connection.execute("SET enable_progress_bar = false").fetchall()
    return connection


def _is_busy(error: duckdb.Error) -> bool:
    # The first is another process, the second another connection of this one.
    text = str(error)
    return "Could not set lock" in text or "with a different configuration" in text


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]


def _hint(error: Exception) -> str:
    if "No space left" in str(error):
        return "free some disk space and run the same command again"
    if "not a valid DuckDB" in str(error) or "Serialization" in str(error):
        return "move the file away, or pass --home with another directory"
    return "check the disk and the file's permissions, then run the same command again"
