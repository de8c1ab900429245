"""Measures of whole networks are stored, replaced by later ones, and read before any merge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from catalog.home import Home
from catalog.open_home import open_home
from catalog.store.reader import query, run_states
from catalog.store.records import NetworkRecord, details_of
from catalog.store.schema import NETWORK_CURVES, NETWORK_SCORES
from catalog.store.upgrade import migrations
from catalog.store.writer import Writer
from survey.network_measures.base import CurvePoint, NetworkScore, conventions
from tests.catalog.records import run, stored

ROWS = "SELECT * FROM network_scores ORDER BY run_id, measure"

CURVES = "SELECT * FROM network_curves ORDER BY ALL"


def record(run_id: str = "r1", **values: NetworkScore) -> NetworkRecord:
    return NetworkRecord(run_id, 1, values)


def test_a_measure_keeps_its_value_error_samples_and_details(home: Home) -> None:
    # JSON has no word for what is not finite.
    details = {"log10_paths": 2.5, "conventions": {"gate": [float("nan"), -float("inf")]}}
    given = {
        "plain": NetworkScore(7.0),
        "estimated": NetworkScore(1.5, None, 0.25, 512, details),
        "unknown": NetworkScore(None, "the call of fold is not one whose paths are known"),
        "infinite": NetworkScore(float("inf")),
        "unsure": NetworkScore(2.0, standard_error=float("nan")),
    }
    met: list[list[dict[str, Any]]] = []
    with Writer.open(home) as writer:
        writer.write([run()], network=[record(**given)])
        met.append(stored(home, ROWS))
        writer.merge()
        met.append(stored(home, ROWS))
    assert met[0] == met[1]
    rows = {row.pop("measure"): row for row in met[0]}
    assert rows["plain"]["value"] == 7.0
    assert {rows[name]["status"] for name in ("plain", "estimated")} == {"ok"}
    estimated = rows["estimated"]
    assert (estimated["standard_error"], estimated["samples"]) == (0.25, 512)
    assert json.loads(estimated["details"], parse_constant=pytest.fail) == {
        "log10_paths": 2.5,
        "conventions": {"gate": [None, None]},
    }
    assert rows["unknown"]["status"] == rows["infinite"]["status"] == "undefined"
    assert rows["unknown"]["reason"] == given["unknown"].reason
    assert rows["infinite"]["value"] is None
    unsure = rows["unsure"]
    assert (unsure["value"], unsure["status"], unsure["reason"]) == (2.0, "ok", None)
    assert unsure["standard_error"] is None


@pytest.mark.parametrize(
    ("stored_text", "known"),
    [
        ('{"conventions": {"gate": "a sum"}}', ("gate: a sum",)),
        *((text, ()) for text in (None, "", "{", "[1]", '{"conventions": [1]}', "[" * 100_000)),
    ],
)
def test_details_that_are_none_of_ours_are_left_out(
    stored_text: str | None, known: tuple[str, ...]
) -> None:
    assert conventions(details_of(stored_text)) == known


@pytest.mark.parametrize("merged", [False, True])
def test_the_latest_of_a_run_and_measure_counts(home: Home, *, merged: bool) -> None:
    first = NetworkScore(1.0, version=1)
    with Writer.open(home) as writer:
        writer.write([run()], network=[record(one=first, two=replace(first, value=2.0))])
        if merged:
            writer.merge()
        writer.write(
            network=[record(one=NetworkScore(3.0, version=2)), record("r2", one=NetworkScore(4.0))]
        )
        for _ in range(2):
            rows = [(r["run_id"], r["measure"], r["value"]) for r in stored(home, ROWS)]
            assert rows == [("r1", "one", 3.0), ("r1", "two", 2.0), ("r2", "one", 4.0)]
            writer.merge()
    states = run_states(home)
    assert states["r1"].measures == {"one": 2, "two": 1}
    assert set(states) == {"r1"}


@pytest.mark.parametrize("merged", [False, True])
def test_a_curve_comes_and_goes_with_its_score(home: Home, *, merged: bool) -> None:
    def curve(*values: float) -> NetworkScore:
        points = (CurvePoint(float(x), y, 0.5) for x, y in enumerate(values))
        return NetworkScore(1.0, curve=tuple(points))

    def points() -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in stored(home, CURVES)]

    first = [("r1", "one", 0, 0.0, 7.0, 0.5), ("r1", "one", 1, 1.0, None, 0.5)]
    other = ("r1", "two", 0, 0.0, 9.0, 0.5)
    with Writer.open(home) as writer:
        nan = float("nan")
        writer.write([run()], network=[record(one=curve(7.0, nan), two=curve(9.0))])
        assert points() == [*first, other]
        if merged:
            writer.merge()
            assert points() == [*first, other]
        writer.write(network=[record(one=curve(3.0)), record("r2", one=curve())])
        for _ in range(2):
            assert points() == [("r1", "one", 0, 0.0, 3.0, 0.5), other]
            writer.merge()
        writer.write(network=[record(one=NetworkScore(None, "no curve any more"))])
        for _ in range(2):
            assert points() == [other]
            writer.merge()


def test_a_store_without_the_new_columns_is_read_and_upgraded(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home", create=True)
    home.signatures.unlink()
    with duckdb.connect(home.signatures) as old:
        for migration in migrations()[:3]:
            old.execute(migration.sql)
            old.execute(
                "INSERT INTO migrations VALUES (?, ?, now())", [migration.version, migration.name]
            ).fetchall()
        old.execute("INSERT INTO network_scores VALUES ('r0', 'one', 1.5, 'ok', NULL)").fetchall()
    before, lacking = query(home, ROWS), query(home, CURVES)
    assert before.column_names == list(NETWORK_SCORES.names)
    open_home(home.path, create=True)
    after = query(home, ROWS)
    for table in (lacking, query(home, CURVES)):
        assert (table.column_names, table.num_rows) == (list(NETWORK_CURVES.names), 0)
    assert before.to_pylist() == after.to_pylist()
    assert (after["value"].to_pylist(), after["samples"].to_pylist()) == ([1.5], [None])
