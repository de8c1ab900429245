"""Metrics of packages that are not installed here: stored, read and merged as ours are."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import duckdb
import pytest

from catalog.home import Home
from catalog.open_home import open_home
from catalog.store import reader, schema
from catalog.store.projection import Projection
from catalog.store.queries import run_sites
from catalog.store.records import BatchRecord
from catalog.store.upgrade import add_metrics, make_store, migrations
from catalog.store.views import VIEWS
from catalog.store.writer import Writer
from survey.errors import SettingsError
from survey.results import BatchScores
from tests.catalog.records import batch, run, score, stored

pytestmark = pytest.mark.slow(seconds=8)

ALL = "SELECT batch, site, cka, toy FROM batch_scores ORDER BY ALL"


def with_toy(number: int) -> BatchScores:
    scores = (score(number, 0, toy=float(number)), score(number, 1, toy=None), score(number, 2))
    return BatchScores(number, 512, scores, 512, 400, 500, 1.5)


@pytest.mark.parametrize("merges", [(), (0,), (1,), (2,), (0, 1, 2)])
def test_segments_with_and_without_a_metric_read_alike_before_and_after_merging(
    home: Home, merges: tuple[int, ...]
) -> None:
    with Writer.open(home) as writer:
        for number, one in enumerate((batch(0), with_toy(1), batch(2))):
            writer.write(batches=[BatchRecord("r1", 1, one, 512 * number)])
            if number in merges:
                writer.merge()
        writer.write([run(status="done")])
        met = stored(home, ALL)
        (mean, *_) = stored(home, "SELECT toy, cka FROM signatures ORDER BY site")
    assert [row["toy"] for row in met] == [None] * 3 + [1.0, None, None] + [None] * 3
    assert {row["cka"] for row in met} == {0.25}
    assert mean == {"toy": 1.0, "cka": 0.25}
    assert stored(home, ALL) == met
    assert stored(home, "SELECT toy FROM layer_scores WHERE toy = 1") == [{"toy": 1.0}]
    assert run_sites(home, "r1")["toy"].to_pylist() == [1.0, None, None]


def test_a_metric_that_is_no_number_is_null_with_a_note(home: Home) -> None:
    one = BatchScores(0, 512, (score(toy=float("nan")),), 512, 400, 500, 1.5)
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, one, 512)])
    assert stored(home, "SELECT toy, notes FROM batch_scores") == [
        {"toy": None, "notes": ["toy: not finite"]}
    ]


def test_a_column_that_is_lacking_is_added_and_read_as_null_until_then(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        writer.write([run(status="done")])
    with pytest.raises(SettingsError, match="toy"):
        stored(home, "SELECT toy FROM signatures")
    toy = schema.Column("toy", "DOUBLE", "What the toy measures.")
    monkeypatch.setattr(schema, "installed_columns", lambda: (toy,))
    with monkeypatch.context() as patch:
        opened = mock.Mock(wraps=reader.connect_reading)
        patch.setattr(reader, "connect_reading", opened)
        with pytest.raises(SettingsError, match="afinity"):
            stored(home, "SELECT afinity FROM signatures")
        assert opened.call_count == 1
    for view in ("batch_scores", "signatures", "latest_signatures", "layer_scores"):
        assert {row["toy"] for row in stored(home, f"SELECT toy FROM {view}")} == {None}
    with duckdb.connect(home.signatures) as connection:
        add_metrics(connection)
        add_metrics(connection)
        versions = connection.execute("SELECT version FROM migrations").fetchall()
    assert versions == [(migration.version,) for migration in migrations()]
    monkeypatch.undo()
    sql = "SELECT table_name, comment FROM duckdb_columns() WHERE column_name = 'toy' ORDER BY 1"
    assert [tuple(row.values()) for row in stored(home, sql)] == [
        ("batch_scores", "What the toy measures."),
        ("latest_signatures", "Mean over batches. What the toy measures."),
        ("layer_scores", "What the toy measures."),
        ("signatures", "Mean over batches. What the toy measures."),
    ]
    assert {row["toy"] for row in stored(home, "SELECT toy FROM signatures")} == {None}


def test_an_older_store_keeps_its_metrics_in_the_views_read_as_it_is_and_upgraded(
    home: Home,
) -> None:
    home.signatures.unlink()
    with duckdb.connect(home.signatures) as connection:
        first, *_ = migrations()
        connection.execute(first.sql).fetchall()
        connection.execute("INSERT INTO migrations VALUES (1, 'first', now())").fetchall()
        connection.execute("ALTER TABLE batch_scores ADD COLUMN toy DOUBLE").fetchall()
        connection.execute(
            "INSERT INTO runs BY NAME SELECT 'r1' AS run_id, 'done' AS status, 'relative' AS ridge"
        ).fetchall()
        connection.execute(
            "INSERT INTO batch_scores BY NAME SELECT 'r1' AS run_id, batch, 0 AS site,"
            " batch AS toy, 0.5 AS affinity, if(batch = 1, ['few_images', 'ridge'], []) AS flags"
            " FROM (VALUES (1), (2)) AS two (batch)"
        ).fetchall()
    sql = "SELECT toy, flags, affinity FROM latest_signatures"
    expected = [{"toy": 1.5, "flags": ["few_images"], "affinity": 0.5}]
    assert stored(home, sql) == expected
    assert stored(home, "SELECT max(version) AS v FROM migrations") == [{"v": 1}]
    open_home(home.path, create=True)
    assert stored(home, "SELECT count(*) AS n FROM migrations") == [{"n": len(migrations())}]
    assert stored(home, sql) == expected


def test_a_store_that_lacks_a_metric_of_ours_reads_and_gets_its_column(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write([run(status="done")], [BatchRecord("r1", 1, batch(0), 512)])
    whole = stored(home, "FROM signatures ORDER BY site")
    with duckdb.connect(home.signatures) as connection:
        for view in VIEWS:
            connection.execute(f"DROP VIEW {view.name}").fetchall()
        connection.execute("ALTER TABLE batch_scores DROP COLUMN entropy_change").fetchall()
    lacking = [row | {"entropy_change": None} for row in whole]
    assert stored(home, "FROM signatures ORDER BY site") == lacking
    with Projection(home, lambda _: {}).reading() as connection:
        rows = connection.sql("SELECT entropy_change, cka FROM signatures").fetchall()
    assert set(rows) == {(None, 0.25)}
    open_home(home.path, create=True)
    with Writer.open(home) as writer:
        writer.write([run("r2", status="done")], [BatchRecord("r2", 1, batch(0), 512)])
        writer.merge()
    assert stored(home, "FROM signatures WHERE run_id = 'r1' ORDER BY site") == lacking
    (value,) = {
        row["entropy_change"] for row in stored(home, "FROM signatures WHERE run_id = 'r2'")
    }
    assert value == 0.25


def test_a_new_store_has_every_installed_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = schema.Column("toy", "DOUBLE", "What the toy measures.")
    monkeypatch.setattr(schema, "installed_columns", lambda: (toy,))
    make_store(tmp_path / "new.duckdb")
    with duckdb.connect(tmp_path / "new.duckdb") as connection:
        names = [name for name, *_ in connection.execute("DESCRIBE signatures").fetchall()]
    assert names[-1] == "toy"


def test_a_metric_may_have_a_word_of_sql_for_its_name(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved = schema.Column("select", "DOUBLE", "What the toy measures.")
    monkeypatch.setattr(schema, "installed_columns", lambda: (reserved,))
    one = BatchScores(0, 512, (score(select=0.5),), 512, 400, 500, 1.5)
    with Writer.open(home) as writer:
        writer.write([run(status="done")], [BatchRecord("r1", 1, one, 512)])
        waiting = stored(home, 'SELECT "select" FROM signatures')
        writer.merge()
    assert waiting == stored(home, 'SELECT "select" FROM signatures') == [{"select": 0.5}]
    assert run_sites(home, "r1")["select"].to_pylist() == [0.5]
