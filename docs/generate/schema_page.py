"""The page that has a sentence on every table and column of both stores: ``docs/schema.md``.

``python -m docs.generate.schema_page`` writes it to standard output; a test holds the page to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from sqlalchemy.dialects import sqlite

from catalog.registry.tables import METADATA
from catalog.store.schema import TABLES, VIEWS

OPENING = """\
# What the stores hold

Made by `make docs` from the code; the signature store carries the same sentences as SQL comments:

    survey sql "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
"""


def page() -> str:
    """Return the page as Markdown."""
    return "\n".join([OPENING, *_signatures(), *_registry()])


def _signatures() -> Iterator[str]:
    yield "## The signature store: `signatures.duckdb`\n"
    for view in VIEWS:
        yield from _entry(f"view `{view.name}`", view.sentence)
        yield from _rows((c.name, c.type, c.sentence) for c in view.columns)
    for table in TABLES:
        yield from _entry(f"table `{table.name}`", table.sentence)
        yield from _rows((c.name, c.type, c.sentence) for c in table.columns)


def _registry() -> Iterator[str]:
    yield "## The registry: `registry.sqlite`\n"
    dialect = sqlite.dialect()
    for table in METADATA.sorted_tables:
        yield from _entry(f"table `{table.name}`", table.comment or "")
        yield from _rows((c.name, c.type.compile(dialect), c.comment or "") for c in table.columns)


def _entry(title: str, sentence: str) -> Iterator[str]:
    yield f"### {title}\n"
    yield f"{sentence}\n"


def _rows(columns: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    yield "| column | type | meaning |"
    yield "|---|---|---|"
    for name, kind, sentence in columns:
        yield f"| `{name}` | {kind} | {sentence} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
