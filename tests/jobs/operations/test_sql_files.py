"""Files of the user's own: read by what they are, bounded, and in nobody's place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from catalog.open_home import open_home
from catalog.store import user_tables as module
from catalog.store.reader import reading
from catalog.store.user_tables import load, user_tables
from jobs.operations.sql_query import QueryLimits, SqlQuery
from survey.errors import SettingsError

pytestmark = pytest.mark.slow(seconds=4)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_home(tmp_path_factory.mktemp("tables") / "home", create=True).path


@pytest.fixture
def connection(home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with reading(open_home(home, create=False), labels={}) as opened:
        yield opened


def test_a_table_may_have_any_name(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n", encoding="utf-8")
    load(connection, user_tables([f"incoming={path}", f"rows={path}"]), 10**9)
    assert connection.execute("SELECT incoming.a FROM incoming JOIN rows USING (a)").fetchall()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "model,top1,day\nx,0.5,2026-01-02\ny,1,2026-01-03\n"),
        ("b.csv", "model;top1;day\nx;0.5;2026-01-02\ny;1;2026-01-03\n"),
        ("c*?.tsv", "model\ttop1\tday\nx\t0.5\t2026-01-02\ny\t1\t2026-01-03\n"),
        ("d.PARQUET", ""),
    ],
)
def test_a_file_is_a_table_with_types(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    # Not to be read in the place of one with such a name.
    (tmp_path / "cut.tsv").write_text("other\n1\n", encoding="utf-8")
    if not text:
        rows = "(VALUES ('x', 0.5::DOUBLE, DATE '2026-01-02'), ('y', 1, DATE '2026-01-03'))"
        with duckdb.connect() as other:
            other.execute(
                f"COPY (FROM {rows} AS t (model, top1, day)) TO '{path}' (FORMAT parquet)"
            ).fetchall()
    load(connection, user_tables([f"mine={path}"]), 10**9)
    sql = "SELECT model, typeof(top1), top1, year(day) FROM MINE ORDER BY model"
    assert connection.execute(sql).fetchall() == [
        ("x", "DOUBLE", 0.5, 2026),
        ("y", "DOUBLE", 1.0, 2026),
    ]


def test_no_line_of_a_file_is_left_out(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """The comma in a note makes no other columns of the lines from there on."""
    notes = ("good", "fair", "bad, very", "ok, really", "ok, so")
    text = "\n".join(["run_id,note", *(f"r{number},{note}" for number, note in enumerate(notes))])
    (tmp_path / "notes.csv").write_text(text, encoding="utf-8")
    (tmp_path / "notes.tsv").write_text(text.replace(",", "\t"), encoding="utf-8")
    load(connection, user_tables([f"mine={tmp_path}/notes.csv"]), 10**9)
    rows = connection.execute("FROM mine").fetchall()
    assert [str(first)[:2] for first, *_ in rows] == [f"r{number}" for number in range(5)]
    with pytest.raises(SettingsError, match="cannot be read"):
        load(connection, user_tables([f"tabbed={tmp_path}/notes.tsv"]), 10**9)
    # Neither what looks like a comment, nor a header below blank lines.
    (tmp_path / "marks.csv").write_text("\n \nsite,top1\n#1,0.5\n#2,0.25\n3,0.75")
    load(connection, user_tables([f"marks={tmp_path}/marks.csv"]), 10**9)
    assert connection.execute("FROM marks").fetchall() == [("#1", 0.5), ("#2", 0.25), ("3", 0.75)]


def test_what_cannot_be_a_table_is_named_with_what_can(
    connection: duckdb.DuckDBPyConnection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    monkeypatch.setattr(module, "LARGEST_BYTES", 1000)
    for name, content in [
        ("good.csv", b"a,b\n1,2\n"),
        ("large.csv", b"a,b\n" + b"1,2\n" * 400),
        ("notes.txt", b"a,b\n1,2\n"),
        ("bytes.csv", bytes(range(256)) * 3),
        ("text.parquet", b"a,b\n1,2\n"),
    ]:
        (tmp_path / name).write_bytes(content)
    for texts, message in [
        (["x"], "NAME=FILE"),
        (["a-b=good.csv"], "NAME=FILE"),
        (["x=none.csv"], "does not exist"),
        (["x=."], "is no file"),
        (["x=notes.txt"], ".csv, .tsv, .parquet"),
        (["x=large.csv"], "at most 1 kB"),
        (["x=good.csv", "X=good.csv"], "two files"),
        (["select=good.csv"], "a word of SQL"),
        (["Natural=good.csv"], "a word of SQL"),
        (["Runs=good.csv"], "a table or view of the store"),
        (["latest_signatures=good.csv"], "a table or view of the store"),
        (["run_labels=good.csv"], "a table or view of the store"),
        (["duckdb_tables=good.csv"], "a table or view of the store"),
        (["x=bytes.csv"], "cannot be read"),
        (["x=text.parquet"], f"{tmp_path}/text.parquet"),
    ]:
        placed = [text.replace("=", f"={tmp_path}/") for text in texts]
        with subtests.test(texts=texts), pytest.raises(SettingsError) as caught:
            load(connection, user_tables(placed), 10**9)
        assert message in caught.value.message


def test_a_query_joins_what_it_was_given_and_reads_no_other_file(
    home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text("model,top1\nx,0.5\n", encoding="utf-8")
    opened, tables = open_home(home, create=False), user_tables([f"mine={path}"])
    sql = "SELECT model, top1 FROM mine LEFT JOIN runs ON architecture = model"
    assert b"".join(SqlQuery(opened, sql, "csv", tables=tables)) == b'"model","top1"\n"x",0.5\n'
    with pytest.raises(SettingsError, match="disabled"):
        b"".join(SqlQuery(opened, f"FROM '{path}'", "csv", tables=tables))


def test_a_file_that_grows_when_it_is_read_is_refused(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    with duckdb.connect() as other:
        other.execute(
            f"COPY (SELECT repeat('x', 1000000) AS x FROM range(300)) TO '{path}'"
        ).fetchall()
    assert path.stat().st_size < 1_000_000
    tables = user_tables([f"mine={path}"])
    query = SqlQuery(
        open_home(home, create=False), "SELECT 1", "csv", QueryLimits(memory_gb=0.1), None, tables
    )
    with pytest.raises(SettingsError, match="100 MB"):
        b"".join(query)
