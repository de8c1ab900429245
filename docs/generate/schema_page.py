"""The page that has a sentence on every table and column of both stores: ``docs/schema.md``.

``python -m docs.generate.schema_page`` writes it to standard output; a test holds the page to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

from sqlalchemy.dialects import sqlite

from catalog.registry.tables import METADATA
from catalog.store.schema import TABLES
from catalog.store.views import LABELLED, RUN_LABELS, VIEWS, with_labels
from docs.generate.tables import markdown_table

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
    shown = (*(with_labels(view) if view.name in LABELLED else view for view in VIEWS), RUN_LABELS)
    for kind, tables in (("view", shown), ("table", TABLES)):
        for table in tables:
            columns = ((f"`{c.name}`", c.type, c.sentence) for c in table.columns)
            yield _entry(f"{kind} `{table.name}`", table.sentence, columns)


def _registry() -> Iterator[str]:
    yield "## The registry: `registry.sqlite`\n"
    dialect = sqlite.dialect()
    for table in METADATA.sorted_tables:
        columns = ((f"`{c.name}`", c.type.compile(dialect), c.comment or "") for c in table.columns)
        yield _entry(f"table `{table.name}`", table.comment or "", columns)


def _entry(title: str, sentence: str, columns: Iterable[Sequence[str]]) -> str:
    table = markdown_table(["column", "type", "meaning"], columns)
    return f"### {title}\n\n{sentence}\n\n{table}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
