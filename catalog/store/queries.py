"""The named queries of ``queries.sql``, for the command line and the demo."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.home import Home
from catalog.store.reader import query, query_rows
from survey.errors import UnknownName

if TYPE_CHECKING:
    import pyarrow as pa

_ENTRY = re.compile(r"^-- name: (\w+)\n-- (.+)\n((?:(?!-- name:).*\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """One query that has a name."""

    #: Its name.
    name: str
    #: What it gives, in a sentence.
    sentence: str
    #: Its statement.
    sql: str


@cache
def named_queries() -> dict[str, NamedQuery]:
    """Return every named query, by name."""
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    entries = [
        NamedQuery(name, sentence, sql.strip().rstrip(";"))
        for name, sentence, sql in _ENTRY.findall(text)
    ]
    return {entry.name: entry for entry in entries}


def named_query(name: str) -> NamedQuery:
    """Return one named query; raise UnknownName for any other name."""
    known = named_queries()
    if name not in known:
        raise UnknownName("query", name, known)
    return known[name]


def signatures_overview(home: Home) -> pa.Table:
    """Return one row a run: what it is, how far it came, its accuracy and range of affinities."""
    return query(home, named_query("signatures_overview").sql)


def run_sites(home: Home, run_id: str) -> pa.Table:
    """Return one run's signature site by site, with its spread over batches."""
    return query(home, named_query("run_sites").sql, {"run_id": run_id})


def run_costs(home: Home) -> pa.Table:
    """Return what each finished run took: work, images, seconds, device, memory."""
    return query(home, named_query("run_costs").sql)


def run_progress(home: Home) -> list[dict[str, Any]]:
    """Return how far every run is: quick, for those who look often."""
    return query_rows(home, named_query("run_progress").sql)


def batch_affinities(home: Home, run_ids: Sequence[str]) -> pa.Table:
    """Return every batch score of some runs, in the order of batches and sites."""
    return query(home, named_query("batch_affinities").sql, {"run_ids": list(run_ids)})
