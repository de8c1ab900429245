"""Connections to the signature store's file: who may have it open, and what goes wrong when.

One process may write the file or many may read it, never both. A connection that cannot be had
now is *busy*, which passes; anything else about the file is a ``StoreError``. A copy of a home has
a file of its own, or memory.
"""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import duckdb

from catalog.home import REPAIR_HINT, Home, segment_paths
from catalog.store.schema import quoted_text
from catalog.store.temporary_views import LABELS, label_values
from catalog.store.undo import kept_from_writers, lock_path, undoing
from catalog.store.writer_lock import require_locks
from survey.errors import StoreError
from survey.text import first_line

#: Bytes that a query may use of memory; it does not spill to disk.
READER_MEMORY_BYTES = 2_000_000_000

#: Bytes that a copy may hold in memory: what is sorted beyond them goes through its file.
_COPY_MEMORY = "400MB"

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

_SIGNS_OF_DAMAGE = ("Corrupt database file", "Could not read enough bytes", "Serialization Error")

# Two threads may not both find the shared instance unlocked.
_locking_down = threading.Lock()


@contextmanager
def connect_reading(
    path: Path, memory_bytes: int = READER_MEMORY_BYTES
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give a connection on the file, read-only and locked down; wait while a writer has it.

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
    while True:
        _require_file(path)
        with ExitStack() as held:
            if (connection := _reading(path, memory_bytes, held)) is not None:
                yield connection
                return
        if time.monotonic() >= deadline:
            raise StoreError(
                f"{path} was held by a writer for {WAIT_SECONDS:g} seconds",
                hint="close whatever has it open for writing, and connections of your own to it in "
                "this process; a scan holds it only for moments",
            )
        time.sleep(RETRY_SECONDS)


@contextmanager
def writing(path: Path) -> Iterator[duckdb.DuckDBPyConnection | None]:
    """Give a connection for writing, or None if another one has the file.

    DuckDB's log is not written: what is committed lasts, all of it or nothing, once the block ends.

    Raises
    ------
    StoreError
        If the file is no store, or cannot be written.
    """
    _require_file(path)
    with explained(path), undoing(path) as undo:
        connection = _connected(path, lambda: attached(path)) if undo else None
        if undo is None or connection is None:
            yield None
            return
        with connection:
            undo.keep(connection)
            yield connection
            connection.execute("CHECKPOINT").fetchall()


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what DuckDB raises about the file itself into a ``StoreError``."""
    try:
        yield
    except duckdb.Error as error:
        raise unusable(path, error) from error


def unusable(path: Path, error: duckdb.Error) -> StoreError:
    """Return the error that explains what DuckDB raised about the file."""
    return StoreError(f"{path} cannot be used: {first_line(error)}", hint=_hint(error))


def is_damage(error: duckdb.Error) -> bool:
    """Return whether DuckDB raised this because the file is damaged, and not the statement."""
    return any(sign in str(error) for sign in _SIGNS_OF_DAMAGE)


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise StoreError(f"{path} does not exist", hint="run `survey run` first or pass --home")


def _reading(path: Path, memory_bytes: int, held: ExitStack) -> duckdb.DuckDBPyConnection | None:
    """Return a connection that is closed with a stack; None while a writer has the file."""
    config = {**_READER_CONFIG, "memory_limit": f"{memory_bytes}B"}
    with explained(path), _without_writers(path) as alone:
        if not alone:
            return None
        held.enter_context(kept_from_writers(path))
        connection = _connected(
            path, lambda: _locked_down(duckdb.connect(path, read_only=True, config=config))
        )
        return held.enter_context(connection) if connection else None


@contextmanager
def _without_writers(path: Path) -> Iterator[bool]:
    """Keep writers of this program from a store while it is opened; False if one has it.

    DuckDB reads the headers of a file before it locks it: after a merge in between, it would look
    for the content of the old headers in the new file.
    """
    try:
        file = lock_path(path).open("rb")
    except OSError:
        # One that may not be looked at; a home that is written has one.
        yield True
        return
    with file:
        free = True
        # Where there are no locks DuckDB cannot have its own either.
        with suppress(OSError):
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                free = False
        try:
            yield free
        finally:
            # A process that was forked meanwhile has the file, too: closing it is not enough.
            with suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)


def _connected(
    path: Path,
    connect: Callable[[], duckdb.DuckDBPyConnection],
) -> duckdb.DuckDBPyConnection | None:
    """Return a connection; None while the file is busy."""
    try:
        return connect()
    except duckdb.Error as error:
        if _is_busy(error):
            require_locks(path.parent)
            return None
        raise


def in_memory() -> duckdb.DuckDBPyConnection:
    """Return a connection to a database of its own, in memory."""
    return _quiet(duckdb.connect(":memory:"))


def attached(path: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection for writing a file, which is made where there is none, without a log.

    A log that a loss of power tears, or brings back after its removal, could not be read.
    """
    connection = in_memory()
    file, name = quoted_text(str(path)), path.name.partition(".")[0]
    try:
        connection.execute(f"ATTACH {file} AS {name} (RECOVERY_MODE no_wal_writes)").fetchall()
        connection.execute(f"USE {name}").fetchall()
    except duckdb.Error:
        connection.close()
        raise
    return connection


def stored_tables(connection: duckdb.DuckDBPyConnection, database: str | None = None) -> set[str]:
    """Return the names of the tables of a database of a connection, by default its current one."""
    rows = connection.execute(
        "SELECT table_name FROM duckdb_tables()"
        " WHERE database_name = coalesce(?, current_database())",
        [database],
    ).fetchall()
    return {name for (name,) in rows}


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
    # The first is another process, the others are connections of this one.
    signs = ("Could not set lock", "with a different configuration", "Unique file handle conflict")
    return any(sign in str(error) for sign in signs)


def _hint(error: Exception) -> str:
    if "No space left" in str(error):
        return "free some disk space and run the same command again"
    if "Permission denied" in str(error) or "Read-only file system" in str(error):
        return "check the file's permissions, then run the same command again"
    return f"check the disk; {REPAIR_HINT}"


def open_copy(files: Sequence[Path]) -> duckdb.DuckDBPyConnection:
    """Return a connection for a copy of a home.

    It is on the first file that can be had and written, or on memory.

    Parameters
    ----------
    files : sequence of Path
        Files of one folder in the cache of a home.
    """
    if files:
        folder = files[0].parent
        # Not the home's own folder: a home that was moved is not made anew.
        with suppress(OSError):
            folder.parent.mkdir(exist_ok=True)
            folder.mkdir(exist_ok=True)
    return next(filter(None, map(_opened_copy, (*map(str, files), ":memory:"))))


def _opened_copy(path: str) -> duckdb.DuckDBPyConnection | None:
    try:
        connection = _quiet(
            duckdb.connect(path, config={"memory_limit": _COPY_MEMORY, "threads": 1})
        )
        connection.execute(f"CREATE OR REPLACE {LABELS}", label_values({})).fetchall()
    except duckdb.Error:
        return None
    return connection


def store_stamp(home: Home) -> object:
    """Return what changes whenever a row is written.

    Raises
    ------
    StoreError
        If there is no store.
    """
    try:
        status = home.signatures.stat()
    except OSError as error:
        raise StoreError(f"{home.signatures} cannot be read: {error.strerror}") from error
    return status.st_mtime_ns, status.st_size, [path.name for path in segment_paths(home.spool)]
