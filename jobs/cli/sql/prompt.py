"""The prompt of ``survey sql``: statements of one line or more, each ended by a semicolon."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from jobs.cli.sql.interruptions import Interruptions
from jobs.cli.terminal import say

if TYPE_CHECKING:
    from jobs.operations.sql_query import SqlQuery

_HELP = """\
A statement may have several lines and ends with a semicolon.
.tables         the tables and views, with what a row of each is
.schema [NAME]  the columns of one of them, or of all
.help           this
.quit           leave, as Ctrl-D does; Ctrl-C ends a query, or drops what was typed"""

_TABLES = """
SELECT name, max(comment) AS "one row" FROM (
  SELECT table_name AS name, comment FROM duckdb_tables()
  UNION ALL SELECT view_name, comment FROM duckdb_views() WHERE NOT internal)
WHERE NOT starts_with(name, 'spooled_') GROUP BY name ORDER BY name
"""

# A name may be stored and shown anew; the shown one, which is temporary, has the columns.
_COLUMNS = """
SELECT {place} column_name AS "column", arg_max(data_type, internal_order) AS type,
  max(comment) AS meaning
FROM (SELECT *, (database_name = 'temp')::INT AS internal_order FROM duckdb_columns())
WHERE NOT internal AND NOT starts_with(table_name, 'spooled_') AND {chosen}
GROUP BY table_name, column_name ORDER BY table_name, max(column_index)
"""

#: Text and comments, in which a semicolon ends nothing; the last of each kind may be open.
_QUOTED = re.compile(
    r"\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/"
    r"|(\$\w*\$).*?\1|(\b[eE]'|['\"]|/\*|\$\w*\$).*",
    re.DOTALL,
)

#: Lines of the history that are kept.
_HISTORY_LINES = 1000


class Ask(Protocol):
    """Makes queries of statements."""

    def __call__(self, statement: str, *, cut: bool = True) -> SqlQuery:
        """Return a query whose result is cut to the terminal's width, or as wide as it is."""


def run_prompt(ask: Ask, write: Callable[[SqlQuery], None], history: Path) -> None:
    """Read statements from the terminal and answer each, until the end of the input.

    Parameters
    ----------
    ask : Ask
        Makes the query of a statement.
    write : callable
        Writes the result of a query; what it raises for one ends none of the others.
    history : Path
        The file of lines typed before.
    """
    say("Statements end with a semicolon; .help lists what else there is.")
    interruptions = Interruptions()
    with interruptions.handled(), _line_editing(history):
        for text in _statements(interruptions.line):
            query = _query_of_command(text, ask) if text.startswith(".") else ask(text)
            if query is None:
                say(*_HELP.splitlines())
            else:
                interruptions.answer(query, write)


def is_complete(text: str) -> bool:
    """Return whether a text ends with a semicolon that is no part of a text or a comment."""
    return _QUOTED.sub(lambda part: "'" if part[2] else " ", text).rstrip().endswith(";")


def _statements(line: Callable[[str], str]) -> Iterator[str]:
    """Yield statements and commands as they are typed."""
    lines: list[str] = []
    while True:
        try:
            lines.append(line("   ...> " if lines else "survey> "))
        except EOFError:
            say("", err=False)
            return
        except KeyboardInterrupt:
            say("", err=False)
            lines = []
            continue
        text = "\n".join(lines).strip()
        if text.rstrip("; ") in (".quit", ".exit"):
            return
        if is_complete(text) or text.startswith("."):
            yield text
        if not text or is_complete(text) or text.startswith("."):
            lines = []


def _query_of_command(text: str, ask: Ask) -> SqlQuery | None:
    """Return the query that answers a command; None where none does."""
    command, _, name = text.rstrip("; ").partition(" ")
    if command == ".tables":
        return ask(_TABLES, cut=False)
    if command != ".schema":
        return None
    quoted = name.strip().replace("'", "''")
    chosen = f"lower(table_name) = lower('{quoted}')" if quoted else "true"
    place = "" if quoted else 'table_name AS "table",'
    return ask(_COLUMNS.format(place=place, chosen=chosen), cut=False)


@contextmanager
def _line_editing(history: Path) -> Iterator[None]:
    """Edit lines with the arrow keys, complete names with Tab, and keep what was typed."""
    try:
        import readline
    except ImportError:
        # Some builds of Python have none: lines are then typed as they are.
        yield
        return
    readline.set_history_length(_HISTORY_LINES)
    with suppress(OSError):
        readline.read_history_file(history)
    readline.set_completer_delims(" \t\n()[],;=<>+-*/'\"")
    readline.set_completer(_Completer().complete)
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        # A history that cannot be written is no reason to end with an error.
        with suppress(OSError):
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            readline.write_history_file(history)
            history.chmod(0o600)


class _Completer:
    """Completes the names of tables, views, columns and commands of the prompt."""

    def __init__(self) -> None:
        from catalog.store.schema import TABLES
        from catalog.store.views import VIEWS

        entries = (*TABLES, *VIEWS)
        columns = {name for entry in entries for name in entry.names}
        self._names = sorted({*columns, *(entry.name for entry in entries), ".tables", ".schema"})

    def complete(self, begun: str, number: int) -> str | None:
        """Return the numbered name that begins as what was typed; None after the last."""
        fitting = [name for name in self._names if name.startswith(begun.lower())]
        return fitting[number] if number < len(fitting) else None
