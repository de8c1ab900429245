"""Anyone's SQL, each statement in a process as the product runs it, and files that it joins."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from catalog.home import Home
from catalog.store.queries import _statements as named_queries
from catalog.store.upgrade import make_store
from catalog.store.user_tables import load, user_tables
from jobs.choices import ResultFormat
from jobs.operations.sql_query import _ERRORS, QueryLimits, SqlQuery
from jobs.operations.sql_worker import main
from tests.fuzz.readers.base import Target

#: Ends that the asking process explains: too long, or more memory than it was given.
_EXPLAINED = {signal.SIGALRM, signal.SIGKILL, signal.SIGABRT}
_FORMATS: tuple[ResultFormat, ...] = ("table", "json", "csv", "parquet")


def _table(data: bytes, folder: Path) -> None:
    """A file given with ``--with``."""
    ending = "parquet" if data[:4] == b"PAR1" else "tsv" if b"\t" in data[:99] else "csv"
    path = folder / f"given.{ending}"
    path.write_bytes(data)
    with duckdb.connect(config={"memory_limit": "300MB", "threads": 1}) as connection:
        load(connection, user_tables([f"given={path}"]), 300_000_000)
        connection.sql("SELECT * FROM given LIMIT 9").fetchall()


def _statement(data: bytes, folder: Path) -> None:
    """A statement: its process ends with a report, or by what bounds it."""
    if not (folder / "signatures.duckdb").exists():
        make_store(folder / "signatures.duckdb")
    form = _FORMATS[len(data) % len(_FORMATS)]
    limits = QueryLimits(seconds=5, memory_gb=0.3, lines=100, rows=1000)
    query = SqlQuery(Home(folder), data.decode("utf-8", "replace"), form, limits, width=80)
    _check(*_answered(query.request(limits.seconds)))


def _answered(asked: str) -> tuple[int, bytes]:
    """Return how a process of the query ends, and what it reports."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        sys.stdin = io.StringIO(asked)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        # A test's own may be a file, and files are not written in a query's process.
        sys.stdout = os.fdopen(1, "w", closefd=False)
        os.dup2(theirs, 2)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        try:
            main()
        except BaseException as problem:  # noqa: BLE001 - nothing of this process goes on
            os.write(2, repr(problem).encode()[:10_000])
        os._exit(1)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        report = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), report


def _check(code: int, report: bytes) -> None:
    if -code in _EXPLAINED:
        return
    if code:
        raise UnreportedEnd(code, report)
    answer = json.loads(report.splitlines()[-1])
    assert answer.get("error", "memory") in ("memory", *_ERRORS)


class UnreportedEnd(Exception):
    """A query's process ended by itself, without a report."""


def _files() -> list[bytes]:
    file = io.BytesIO()
    table = pa.table({"name": ["a", "b"], "top1": [0.5, None], "tags": [["x"], []]})
    pq.write_table(table, file)
    return [file.getvalue(), b'name,top1\na,0.5\n"b\nc",\n', b"name\ttop1\na\t2020-01-01\n"]


def _statements() -> list[bytes]:
    others = """
SELECT * FROM runs|SELECT repeat('x', 1000) FROM range(100000)|SELECT timestamp 'infinity', 1e999
SELECT map {'a': [1, NULL]}, {'b': 'c'::BLOB}, uuid(), INTERVAL 1 MONTH, 1::HUGEINT, bitstring('01')
COPY runs TO 'x'|ATTACH 'y'|SET threads = 1|FROM read_csv('a.csv')
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t
SELECT DISTINCT ON (run_id) * FROM layer_scores WINDOW w AS (PARTITION BY run_id) QUALIFY 1
PIVOT runs ON status USING count(*)|SUMMARIZE batches|DESCRIBE signatures|SHOW TABLES
"""
    queries = [query.strip().rstrip(";") for query in named_queries().values()]
    return [each.encode() for each in [*others.strip().replace("\n", "|").split("|"), *queries]]


TARGETS = {
    "table": Target(_table, _files),
    "statement": Target(_statement, _statements, apart=True),
}
