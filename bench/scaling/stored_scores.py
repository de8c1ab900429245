"""Queries of a store of 100 million scores, beside a scan of the columns that each reads.

``python -m bench.scaling.stored_scores [HOME] [RUNS]`` makes the home where there is none, on 20 GB
of disk: 10,000 runs of 49 sites and 210 batches, of which the store multiplies those of
``bench.large_home``. Then it asks every query of docs/queries.md that needs no tag and no file, as
a reader does. It prints the processor seconds of each beside those of the scans in its plans, which
read every value of the same columns and do no more than hash it.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from bench.large_home import BATCHES, make_home
from catalog.home import Home
from catalog.store.reader import reading

RUNS = 10_000

#: How many times as many batches a run has here.
TIMES = 15

#: Times a scan that a query may take.
GOAL = 5

#: What the queries name, and what there is of it here.
NAMES = {
    "digits_vgg7": "resnet_0",
    "digits_resnet14": "resnet_0",
    "digits_plain14": "vgg_1",
    "bundled": "file:/srv/weights/resnet_0/epoch_0.pth",
    "init:0": "file:/srv/weights/resnet_0/epoch_1.pth",
}

#: A pivot is two statements, of which EXPLAIN shows the second: the first asks for the columns.
_PIVOT = re.compile(r"PIVOT (\(.+\))\s+ON (\w+)", re.DOTALL)

QUERIES = Path(__file__).parents[2] / "docs" / "queries.md"

#: Batches of other numbers, with affinities that differ a little.
_MORE = f"""
INSERT INTO batch_scores
SELECT * EXCLUDE (copy) REPLACE (
  (batch + {BATCHES} * copy)::INTEGER AS batch,
  affinity + 0.01 * (random() - 0.5) * affinity * (1 - affinity) AS affinity)
FROM batch_scores CROSS JOIN (SELECT range + 1 AS copy FROM range({TIMES - 1}))
"""


def large_store(path: Path, runs: int) -> Home:
    """Return a home of so many runs, made unless it is there."""
    if path.exists():
        return make_home(path, runs)
    made = make_home(path.with_name(f"{path.name}.growing"), runs)
    with duckdb.connect(made.signatures) as connection:
        # Not once more where an earlier start was ended behind it.
        batches = connection.execute("SELECT max(batch) + 1 FROM batch_scores").fetchall()
        if batches == [(BATCHES,)]:
            connection.execute(_MORE).fetchall()
    return make_home(made.path.rename(path), runs)


def documented() -> Iterator[tuple[int, str]]:
    """Yield the number of each documented query, and its statement, of models that are here."""
    blocks = re.findall(r"```sql\n(.*?)```", QUERIES.read_text(encoding="utf-8"), re.DOTALL)
    for number, statement in enumerate(blocks, 1):
        if "tags[" not in statement and "robustness" not in statement:
            for documented, here in NAMES.items():
                statement = statement.replace(f"'{documented}'", f"'{here}'")  # noqa: PLW2901
            yield number, statement


def scans(connection: duckdb.DuckDBPyConnection, statement: str) -> list[list[str]]:
    """Return the columns of each scan of stored scores in a statement's plans."""

    def of(node: dict[str, Any]) -> Iterator[list[str]]:
        details = node.get("extra_info", {})
        if str(details.get("Table", "")).endswith("main.batch_scores"):
            read = details.get("Projections", [])
            yield [read] if isinstance(read, str) else read
        for child in node.get("children", []):
            yield from of(child)

    pivot = _PIVOT.match(statement)
    assert pivot or "PIVOT" not in statement, statement
    first = [f"SELECT DISTINCT {pivot[2]} FROM {pivot[1]}"] if pivot else []
    plans = (
        json.loads(connection.execute(f"EXPLAIN (FORMAT JSON) {each}").fetchall()[0][1])
        for each in (*first, statement)
    )
    return [columns for plan in plans for root in plan for columns in of(root)]


def processor_seconds(connection: duckdb.DuckDBPyConnection, statement: str) -> float:
    """Return what a statement takes, over all threads."""
    started = time.process_time()
    connection.sql(statement).to_arrow_table()
    return time.process_time() - started


def scan_seconds(connection: duckdb.DuckDBPyConnection, columns: list[str]) -> float:
    """Return what reading every value of some columns of the scores takes."""
    read = ", ".join(f"bit_xor(hash({name}))" for name in columns)
    statement = f"SELECT {read} FROM batch_scores"
    # Once before: what is read first comes from the disk.
    return [processor_seconds(connection, statement) for _ in range(2)][1]


def main(path: Path, runs: int) -> None:
    """Print a line a query."""
    with reading(large_store(path, runs)) as connection:
        scores = connection.execute("SELECT count(*) FROM batch_scores").fetchall()[0][0]
        print(f"| query, {scores:,} scores | s | scans, s | times | goal |\n|---|---|---|---|---|")
        for number, statement in documented():
            scanned = sum(scan_seconds(connection, each) for each in scans(connection, statement))
            seconds = processor_seconds(connection, statement)
            # Some queries read no score.
            beside = f"{seconds / scanned:.1f} | {GOAL}" if scanned else " | "
            print(f"| {number} | {seconds:.2f} | {scanned:.2f} | {beside} |", flush=True)


if __name__ == "__main__":
    # The temporary folder may be in memory.
    with tempfile.TemporaryDirectory(dir=".") as made_here:
        place = Path(sys.argv[1]) if sys.argv[1:] else Path(made_here) / "home"
        main(place, int(sys.argv[2]) if sys.argv[2:] else RUNS)
