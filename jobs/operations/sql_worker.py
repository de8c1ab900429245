"""The process that one query runs in: it reads the store, writes the result and can do no more.

DuckDB opens nothing but the store, and forbids itself to (``catalog.store.connection``). Beneath
that the kernel is asked to refuse: before the store is opened this process gives up changing files,
and before the statement is looked at opening files and connections, and growing beyond the memory
it was given; and it is ended when its time is over, also where whoever started it is not there any
more. Files that its user names are read before that. Its time begins once its libraries are loaded:
from a cold disk they take seconds, by which no query is slow.
"""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from catalog.home import Home
from catalog.registry.label_file import labels_in_file
from catalog.store.connection import in_memory
from catalog.store.plain_types import Result, plain_batches
from catalog.store.reader import (
    is_lack_of_memory,
    is_unknown_name,
    reading,
    refusing,
    result_of,
)
from catalog.store.user_tables import UserTable, load
from catalog.tags import RunLabels
from jobs.choices import ResultFormat
from jobs.operations.read_only_process import give_up_changes
from jobs.operations.server_paths import without_paths_in
from jobs.operations.table_formats import Written, write_batches
from survey.errors import StoreError, SurveyError

#: Characters of a refusal: the pipe must hold it.
_LONGEST_MESSAGE = 10_000


def main() -> None:
    """Answer the query on standard input; at the end, report on standard error."""
    asked = json.load(sys.stdin)
    began = time.monotonic()
    try:
        metrics = _installed_metrics() if asked["metrics"] else []
        _load_libraries(asked["format"])
        began = time.monotonic()
        # Nothing handles this signal, and so it ends the process, whatever that does.
        signal.setitimer(signal.ITIMER_REAL, asked["seconds"])
        labels, damage = _labels(Home(Path(asked["path"]), asked["registry"]))
        # Before DuckDB has threads: those that are there already would not give it up.
        give_up_changes()
        written = _answer(asked, labels, metrics)
        sys.stdout.buffer.flush()
        report: dict[str, Any] = {"rows": written.rows, "shown": written.shown, "damage": damage}
    except (SurveyError, MemoryError) as error:
        report = _refusal(error) | {"seconds": time.monotonic() - began}
    # Whoever reads the result to its end reads the report after it.
    os.close(1)
    os.write(2, b"\n" + json.dumps(report).encode())
    os._exit(0)


def _load_libraries(form: ResultFormat) -> None:
    """Load what is imported when it is first used."""
    with in_memory() as connection:
        some = connection.sql("SELECT 'a long text…', '/a/b', 1.5, [1]")
        write_result(some, form, io.BytesIO(), 1, 30, bare=True)


def _answer(asked: dict[str, Any], labels: dict[str, RunLabels], metrics: list[str]) -> Written:
    home, sql, form = Home(Path(asked["path"]), asked["registry"]), asked["sql"], asked["format"]
    memory_bytes, bare = int(asked["memory_gb"] * 1e9), asked["without_paths"]
    with (
        reading(home, metrics, memory_bytes, labels) as connection,
        refusing(home.signatures),
    ):
        bound_memory(memory_bytes)
        files = (UserTable(name, Path(path)) for name, path in asked["files"].items())
        load(connection, files, memory_bytes)
        lock_down()
        result, lines, width = result_of(connection, sql), asked["lines"], asked["width"]
        if asked["rows"] is not None:
            result = result.limit(asked["rows"])
        return write_result(result, form, sys.stdout.buffer, lines, width, bare=bare)


def _labels(home: Home) -> tuple[dict[str, RunLabels], str | None]:
    """Return labels and tags, or why there are none: what was measured can be queried without."""
    try:
        if home.registry_url is None:
            return labels_in_file(home), None
        # Imported only where it is used: it brings the library of the registry.
        from catalog.registry.labels import labels_of

        return labels_of(home), None
    except StoreError as error:
        return {}, f"{error.message[:_LONGEST_MESSAGE]}; {error.hint}"


def write_result(
    result: Result,
    format: ResultFormat,  # noqa: A002
    stream: BinaryIO,
    lines: int,
    width: int | None = None,
    *,
    bare: bool = False,
) -> Written:
    """Write a result in a format as it is computed, in a table some lines and columns of it.

    Parameters
    ----------
    result, format, stream, lines, width
        As of ``plain_batches`` and ``write_batches``.
    bare : bool
        Whether files in it lose the folders that they lie in.
    """
    schema, batches = plain_batches(result, format)
    if bare:
        schema = without_paths_in(schema.empty_table()).schema
        batches = map(without_paths_in, batches)
    return write_batches(schema, batches, format, stream, lines, width)


def bound_memory(memory_bytes: int) -> None:
    """Give up taking more memory than this from now on."""
    taken = _data_bytes()
    if taken is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (taken + memory_bytes,) * 2)


def lock_down() -> None:
    """Give up opening files and connections, and writing to files."""
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))


def _data_bytes() -> int | None:
    """Return the memory that this process could write to; None where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[5]
    except OSError:
        return None
    return int(pages) * resource.getpagesize()


def _installed_metrics() -> list[str]:
    from catalog.store.schema import installed_columns

    return [column.name for column in installed_columns()]


def _refusal(error: SurveyError | MemoryError) -> dict[str, Any]:
    if isinstance(error, MemoryError) or is_lack_of_memory(error):
        return {"error": "memory"}
    return {
        "error": type(error).__name__,
        "message": error.message[:_LONGEST_MESSAGE],
        "hint": error.hint,
        "unknown": is_unknown_name(error),
    }
