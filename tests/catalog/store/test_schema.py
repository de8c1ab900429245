"""The signature store's schema is declared once, told in sentences and reached by migrations."""

from __future__ import annotations

import dataclasses
import hashlib

import duckdb
import pyarrow as pa
import pytest

from catalog.home import Home
from catalog.open_home import open_home
from catalog.store import schema
from catalog.store import views as view_module
from catalog.store.arrow_rows import BATCH_SCHEMA, RUN_SCHEMA
from catalog.store.queries import (
    batch_affinities,
    run_costs,
    run_progress,
    run_sites,
    signatures_overview,
)
from catalog.store.reader import query
from catalog.store.records import BatchRecord, RunRecord
from catalog.store.upgrade import migrations
from catalog.store.views import VIEWS
from catalog.store.writer import Writer
from survey.errors import NewerError, StoreError
from survey.metrics import QUANTITIES, RESERVED
from survey.settings import MeasureSettings
from tests.catalog.records import SITES, batch, run, score

ENTRIES = (*schema.TABLES, *VIEWS)

#: The number of the migration that changed the views last, and a digest of them.
VIEWS_SINCE = (7, "125421f8c23e5a14")

CATALOG = {
    "tables": "SELECT table_name, comment, estimated_size FROM duckdb_tables()",
    "views": "SELECT view_name, comment, sql FROM duckdb_views() WHERE NOT internal",
    "columns": "SELECT table_name, column_index, column_name, data_type, comment, is_nullable,"
    " column_default FROM duckdb_columns() WHERE NOT internal",
    "constraints": "SELECT table_name, constraint_type, constraint_text FROM duckdb_constraints()",
}


def catalog_of(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: connection.execute(f"{sql} ORDER BY ALL").fetchall() for name, sql in CATALOG.items()
    }


def test_a_new_store_has_exactly_the_declared_schema(home: Home) -> None:
    with duckdb.connect(home.signatures) as made:
        before = catalog_of(made)
        for view in VIEWS:
            made.execute(f"CREATE OR REPLACE VIEW {view.name} AS\n{view.sql}").fetchall()
        for entry in ENTRIES:
            for statement in schema.comments(entry):
                made.execute(statement).fetchall()
        assert catalog_of(made) == before


def test_a_change_of_a_view_comes_with_a_migration(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = {quantity.name for quantity in QUANTITIES}
    # Metrics are added to views without one.
    monkeypatch.setattr(view_module, "METRIC_COLUMNS", ())
    declared = [
        (view.name, view.sentence, view.sql, [c for c in view.columns if c.name not in metrics])
        for view in view_module.views()
    ]
    number, digest = VIEWS_SINCE
    assert number <= len(migrations())
    assert hashlib.sha256(repr(declared).encode()).hexdigest()[:16] == digest, (
        "add a file below migrations that says what changed, and its number and this digest here"
    )


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    assert [m.version for m in migrations()] == list(range(1, len(migrations()) + 1))


def test_a_new_home_records_its_migrations(home: Home) -> None:
    rows = query(home, "SELECT version, name FROM migrations ORDER BY version").to_pylist()
    assert rows == [{"version": m.version, "name": m.name} for m in migrations()]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_declared_columns_are_those_of_the_store_and_of_arrow(
    home: Home, entry: schema.Relation
) -> None:
    described = query(home, f"DESCRIBE {entry.name}").to_pylist()
    types = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ"}
    met = {r["column_name"]: types.get(r["column_type"], r["column_type"]) for r in described}
    # The columns of later metrics come last in a store, beside the others where they are declared.
    assert met == {column.name: column.type for column in entry.columns}


def test_a_run_record_is_a_row_of_runs() -> None:
    fields = {field.name for field in dataclasses.fields(RunRecord)}
    assert fields == set(schema.RUNS.names) == set(RUN_SCHEMA.names)


def test_a_site_score_is_a_row_of_batch_scores() -> None:
    nested = BATCH_SCHEMA.field("scores").type.value_type
    assert isinstance(nested, pa.StructType)
    assert {"run_id", "batch", *(field.name for field in nested)} == set(schema.BATCH_SCORES.names)
    assert all(hasattr(score(), field.name) for field in nested)


def test_the_columns_of_the_metrics_are_what_the_metrics_declare() -> None:
    columns = {column.name: column for column in schema.BATCH_SCORES.columns}
    for quantity in QUANTITIES:
        assert columns[quantity.name].sentence == quantity.sentence
        assert columns[quantity.name].type == "DOUBLE"


def test_no_other_column_can_have_the_name_of_a_metric() -> None:
    of_scores = {
        *schema.BATCH_SCORES.names,
        *(name for view in VIEWS if "cka" in view.names for name in view.names),
    }
    assert of_scores - RESERVED - {q.name for q in QUANTITIES} == set()


def test_every_setting_is_a_column_of_runs_in_order() -> None:
    # Which metrics were chosen is a list, in the column `settings`; the others say so in `notes`.
    fields = dataclasses.fields(MeasureSettings)
    settings = [field.name for field in fields if field.name != "metrics"]
    assert [name for name in schema.RUNS.names if name in settings] == settings


@pytest.mark.parametrize("merged", [True, False])
def test_comments_reach_the_reader(home: Home, merged: bool) -> None:
    with Writer.open(home) as writer:
        writer.write([run()])
        if merged:
            writer.merge()
        rows = query(
            home,
            "SELECT comment FROM duckdb_columns()"
            " WHERE table_name = 'signatures' AND column_name = 'affinity_se'"
            " AND database_name = $database",
            {"database": "signatures" if merged else "temp"},
        ).to_pylist()
    assert rows == [{"comment": "Standard error: deviation over the root of batches."}]


def test_the_statements_of_the_file_run(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write([run(status="done", seconds=1.0, images=512)])
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
    (overview,) = signatures_overview(home).to_pylist()
    assert (overview["run_id"], overview["sites"], overview["batches"]) == ("r1", SITES, 1)
    assert run_sites(home, "r1")["batches"].to_pylist() == [1] * SITES
    assert run_costs(home)["images"].to_pylist() == [512]
    assert [row["batches"] for row in run_progress(home)] == [1]
    assert batch_affinities(home, ["r1", "r2"])["affinity"].to_pylist() == [0.5] * SITES


def test_a_newer_store_is_refused(home: Home) -> None:
    with duckdb.connect(home.signatures) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, 'later', now())").fetchall()
    for attempt in (lambda: query(home, "SELECT 1"), lambda: open_home(home.path, create=True)):
        with pytest.raises(NewerError, match="999") as caught:
            attempt()
        assert "upgrade" in str(caught.value.hint)


def test_a_foreign_or_corrupt_file_is_refused(home: Home) -> None:
    home.signatures.unlink()
    with duckdb.connect(home.signatures) as connection:
        connection.execute("CREATE TABLE others (x INTEGER)").fetchall()
    with pytest.raises(StoreError, match="migrations"):
        query(home, "SELECT 1")
    for content in (b"", b"not a store " * 1000):
        home.signatures.write_bytes(content)
        with pytest.raises(StoreError, match=home.signatures.name) as caught:
            query(home, "SELECT 1")
        assert caught.value.hint
        assert home.signatures.read_bytes() == content


def test_a_store_without_its_scores_is_refused(home: Home) -> None:
    columns = "version INTEGER, name VARCHAR, applied_at TIMESTAMPTZ"
    home.signatures.unlink()
    with duckdb.connect(home.signatures) as connection:
        connection.execute(f"CREATE TABLE migrations ({columns})").fetchall()
        connection.execute("INSERT INTO migrations VALUES (1, 'first', now())").fetchall()
    with pytest.raises(StoreError):
        open_home(home.path, create=True)
