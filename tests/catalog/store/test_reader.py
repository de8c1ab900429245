"""Readers see everything acknowledged, once, and untrusted SQL reaches nothing else."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from catalog.home import Home
from catalog.store import connection as connection_module
from catalog.store.connection import writing
from catalog.store.queries import run_sites
from catalog.store.reader import query, reading, run_row, run_states
from catalog.store.records import BatchRecord, Span
from catalog.store.schema import METRIC_COLUMNS
from catalog.store.undo import undoing
from catalog.store.writer import Writer
from survey.errors import SettingsError, StoreError, UnknownName
from tests.catalog.homes import new_home
from tests.catalog.records import SITES, batch, run, score, stored

pytestmark = pytest.mark.slow(seconds=10)

ROOT = Path(__file__).resolve().parents[3]

READER = f"""
import sys
from pathlib import Path
from catalog.store.connection import writing
from catalog.home import Home
from catalog.store.reader import query
home, last = Home(Path(sys.argv[1])), 0
for _ in range(15):
    sql = '''SELECT (SELECT count(*) FROM batches) AS batches,
      (SELECT count(*) FROM batch_scores) AS scores,
      (SELECT count(DISTINCT (run_id, batch, site)) FROM batch_scores) AS different'''
    row = query(home, sql).to_pylist()[0]
    assert row["scores"] == row["different"] == row["batches"] * {SITES}, row
    assert row["batches"] >= last, (row, last)
    last = row["batches"]
"""

OTHER = "import duckdb, sys; duckdb.connect(sys.argv[1]).close()"

HOLDER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print("open", flush=True)
sys.stdin.readline()
"""


@contextmanager
def python(code: str, argument: Path) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code, str(argument)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_unmerged_and_merged_rows_read_alike(home: Home) -> None:
    rng = np.random.default_rng(7)
    expected: dict[int, tuple[int, float]] = {}
    with Writer.open(home) as writer:
        for step in range(60):
            number, attempt = int(rng.integers(12)), int(rng.integers(1, 4))
            affinity = step / 1000
            writer.write(
                batches=[BatchRecord("r1", attempt, batch(number, affinity), 512 * (number + 1))]
            )
            # The highest attempt wins; at equal attempt the first stays.
            if attempt > expected.get(number, (0, 0.0))[0]:
                expected[number] = (attempt, affinity)
            if rng.random() < 0.1:
                writer.merge()
        before = stored(home)
        writer.merge()
        assert stored(home) == before
    assert len(before) == len(expected) * SITES
    assert {row["batch"]: (row["attempt"], row["affinity"]) for row in before} == expected


@pytest.mark.parametrize("merge_between", [True, False])
def test_the_row_of_a_run_is_the_last_word_of_its_last_attempt(
    home: Home, merge_between: bool
) -> None:
    rows = [(1, "running"), (1, "failed"), (2, "running"), (2, "done"), (2, "running"), (1, "done")]
    met = []
    with Writer.open(home) as writer:
        for attempt, status in rows:
            writer.write([run(attempt=attempt, status=status, job_key=f"{attempt}{status}")])
            if merge_between:
                writer.merge()
            met += [row["job_key"] for row in stored(home, "SELECT job_key FROM runs")]
    assert met == ["1running", "1failed", "2running", "2done", "2done", "2done"]
    assert run_row(home, "r1").status == "done"


def test_signatures_average_finished_runs_alone(home: Home) -> None:
    values = [0.2, 0.5, 0.6]
    with Writer.open(home) as writer:
        for run_id, status in (("r1", "done"), ("r2", "running")):
            for number, value in enumerate(values):
                unscored = score(number, 1, status="constant", affinity=None, reason="dead")
                scores = (score(number, 0, value), unscored)
                one = dataclasses.replace(batch(number), scores=scores)
                writer.write(batches=[BatchRecord(run_id, 1, one, 512)])
            writer.write([run(run_id, status)])
        writer.write([run("r3", "failed", stage="load", error="no such file")])
        scored, unscored = stored(home, "SELECT * FROM signatures ORDER BY site")
        failures = stored(home, "SELECT * FROM failures ORDER BY run_id, batch")
    assert scored["affinity"] == pytest.approx(np.mean(values))
    assert scored["affinity_std"] == pytest.approx(np.std(values, ddof=1))
    assert scored["affinity_se"] == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert scored["batches"] == 3
    assert (unscored["affinity"], unscored["batches"]) == (None, 0)
    assert len(failures) == 2 * len(values) + 1
    assert failures[-1]["reason"] == "no such file"


def test_metrics_average_over_the_batches_that_have_a_value(home: Home) -> None:
    names = [column.name for column in METRIC_COLUMNS]
    values = np.random.default_rng(1).uniform(size=(3, len(names)))
    values[1, ::2] = np.nan
    with Writer.open(home) as writer:
        for number, row in enumerate(values):
            known = {n: None if np.isnan(v) else v for n, v in zip(names, row, strict=True)}
            whole = score(number, 0, role="gate", repeat=2, **known)
            bare = score(number, 1, **dict.fromkeys(names), notes=("cka: no variance",))
            writer.write(
                batches=[
                    BatchRecord(
                        "r1", 1, dataclasses.replace(batch(number), scores=(whole, bare)), 512
                    )
                ]
            )
        writer.write([run(status="done", pooling="pre")])
        scored, bare_row = stored(home, "SELECT * FROM signatures ORDER BY site")
        shown = run_sites(home, "r1").to_pylist()
    assert [scored[name] for name in names] == pytest.approx(np.nanmean(values, axis=0))
    assert {bare_row[name] for name in names} == {None}
    assert (scored["role"], scored["repeat"], scored["pooling"]) == ("gate", 2, "pre")
    assert [row["notes"] for row in shown] == [[], ["cka: no variance"]]
    # What `survey show` reads is the view's own, site by site.
    for row, seen in zip((scored, bare_row), shown, strict=True):
        assert set(names) <= set(seen)
        assert {name: row[name] for name in seen if name in row} == {
            name: pytest.approx(value) if isinstance(value, float) else value
            for name, value in seen.items()
            if name in row
        }


def test_one_batch_has_no_deviation(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0, 0.25), 512)])
        writer.write([run(status="done")])
    for row in stored(home, "SELECT * FROM signatures"):
        assert (row["affinity"], row["affinity_std"], row["affinity_se"]) == (0.25, None, None)


def test_a_run_is_as_far_as_its_batches_whatever_order_they_came_in(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write([run()])
        writer.write([run("r2")])
        for number in (7, 1, 3, 0, 8):
            writer.write(
                batches=[
                    BatchRecord("r1", 2, batch(number), 600 * (number + 1), (f"{number}.jpg",))
                ]
            )
            if number == 3:
                writer.merge()
        writer.write(batches=[BatchRecord("r1", 3, batch(3), 2400)])
        writer.write(batches=[BatchRecord("orphan", 1, batch(1), 1024)])
        states = run_states(home)
    state = states["r1"]
    assert (state.status, state.attempt, state.batches_done) == ("running", 3, 5)
    assert state.done == (Span(0, 2, 1200), Span(3, 4, 2400), Span(7, 9, 5400))
    assert (state.images, state.top1_hits, state.seconds) == (5 * 512, 5 * 400, 7.5)
    # Batch 3 was measured again, and passed over nothing.
    assert state.skipped_names == ("0.jpg", "1.jpg", "7.jpg", "8.jpg")
    assert state.skipped_images == 4
    assert (states["r2"].batches_done, states["r2"].done) == (0, ())
    assert (states["orphan"].done, states["orphan"].status) == ((Span(1, 2, 1024),), "running")


def test_what_measured_a_batch_is_stored_with_it(home: Home) -> None:
    values = {"micro_batch": 32, "threads": 4, "device_name": "H100", "hostname": "node7"}
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512, **values)])
        writer.write(batches=[BatchRecord("r1", 1, batch(1), 1024)])
        rows = stored(home, f"SELECT {', '.join(values)} FROM batches ORDER BY batch")
    assert rows == [values, dict.fromkeys(values)]


def test_a_run_is_found_by_the_beginning_of_its_id(home: Home) -> None:
    record = run("abc1", skipped_names=("x.png",), parameters=7)
    with Writer.open(home) as writer:
        for one in (record, run("abd2"), run("ab")):
            writer.write([one])
    assert run_row(home, "abc") == record
    assert run_row(home, "ab").run_id == "ab"
    with pytest.raises(SettingsError, match="3"):
        run_row(home, "a")
    with pytest.raises(UnknownName, match="abx1") as caught:
        run_row(home, "abx1")
    assert "abc1" in str(caught.value.hint)


@pytest.mark.slow(seconds=4)
def test_queries_of_another_process_during_writes(home: Home) -> None:
    written = 0
    with Writer.open(home) as writer, python(READER, home.path) as reader:
        while reader.poll() is None:
            writer.write(batches=[BatchRecord("r1", 1, batch(written), 512 * (written + 1))])
            written += 1
            if written % 20 == 0:
                writer.merge()
        assert reader.wait() == 0, reader.stderr and reader.stderr.read()
    assert len(stored(home)) == written * SITES


def test_no_merge_comes_between_a_readers_look_at_the_headers_and_its_lock(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, merged = duckdb.connect, []

    def connect_during_a_merge(*args: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        if "read_only" in options:
            merged.append(writer.merge())
        return connect(*args, **options)

    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        monkeypatch.setattr(duckdb, "connect", connect_during_a_merge)
        assert len(stored(home)) == SITES
        assert merged == [0]
        with undoing(home.signatures):
            monkeypatch.setattr(connection_module, "WAIT_SECONDS", 0.1)
            with pytest.raises(StoreError, match="held by a writer"):
                query(home, "SELECT 1")
        assert merged == [0]
        assert writer.merge() == 1
        assert len(stored(home)) == SITES


def test_a_writer_that_only_tries_takes_no_lock_from_its_process_s_reader(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        with reading(home):
            assert writer.merge() == 0
            with python(OTHER, home.signatures) as other:
                assert other.wait() == 1
        assert writer.merge() == 1
        with python(OTHER, home.signatures) as other:
            assert other.wait() == 0


def test_a_connection_held_open_elsewhere_never_stops_the_writer(home: Home) -> None:
    with Writer.open(home) as writer, python(HOLDER, home.signatures) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "open\n"
        for number in range(30):
            writer.write(batches=[BatchRecord("r1", 1, batch(number), 512 * (number + 1))])
            assert writer.merge() == 0
        assert len(stored(home)) == 30 * SITES
        holder.communicate("done\n")
        assert writer.merge() == 30
    assert not list(home.spool.iterdir())
    assert len(stored(home)) == 30 * SITES


def test_a_reader_of_the_writers_own_process_never_stops_it(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        with reading(home), reading(home) as second:
            assert writer.merge() == 0
            count = second.sql("SELECT count(*) AS n FROM batches").to_arrow_table()
            assert count["n"].to_pylist() == [1]
        assert writer.merge() == 1


UNTRUSTED = [
    "SELECT * FROM read_csv('{file}')",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM '{file}'",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM read_parquet('{home}/spool/*.arrow')",
    "COPY runs TO '{folder}/out.csv'",
    "COPY runs TO '{home}/spool/1-1-1.arrow'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "COPY (SELECT 1) TO '{home}/signatures.duckdb'",
    "COPY (SELECT 1) TO '{home}/signatures.duckdb.wal' (FORMAT csv)",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{home}/signatures.duckdb.wal' (FORMAT csv)",
    "COPY (SELECT 1) TO '{home}/signatures.duckdb.tmp/out.csv'",
    "SELECT * FROM read_blob('{home}/signatures.duckdb')",
    "EXPORT DATABASE '{folder}/out'",
    "ATTACH '{folder}/out.duckdb' AS other",
    "ATTACH '{home}/signatures.duckdb' AS again",
    "INSTALL httpfs",
    "LOAD '{folder}/x.so'",
    "SELECT * FROM read_csv('https://example.org/x.csv')",
    "SET enable_external_access = true",
    "SET disabled_filesystems = ''",
    "SET lock_configuration = false",
    "RESET lock_configuration",
    "SET memory_limit = '900GB'",
    "SET allowed_directories = ['{folder}']",
    "PRAGMA threads = 64",
    "PRAGMA profiling_output = '{folder}/out.json'",
    "CALL enable_logging(storage = 'file', storage_path = '{folder}/out')",
    "CREATE PERSISTENT SECRET s (TYPE s3)",
    "INSERT INTO signatures.main.segments VALUES ('x', now())",
    "DELETE FROM signatures.main.runs",
    "DROP TABLE signatures.main.runs",
    "CREATE TABLE signatures.main.mine (x INTEGER)",
    "SELECT * FROM secret_of_python",
    "CREATE TEMP TABLE mine AS SELECT 1",
    "VACUUM",
    "BEGIN",
    "PREPARE mine AS SELECT 1",
]


@pytest.fixture(scope="module", params=[True, False], ids=["merged", "unmerged"])
def besieged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Home]:
    """A home with a file beside it: all statements try the same one, since none may change it."""
    folder = tmp_path_factory.mktemp("besieged")
    (folder / "secret.csv").write_text("a\n1\n")
    home = new_home(folder / "home")
    with Writer.open(home) as writer:
        writer.write([run()])
        if request.param:
            writer.merge()
        yield home
    assert stored(home, "SELECT run_id FROM runs") == [{"run_id": "r1"}]


@pytest.mark.slow(seconds=6)
@pytest.mark.parametrize("statement", UNTRUSTED)
def test_untrusted_sql_reaches_nothing(besieged: Home, statement: str) -> None:
    secret_of_python = duckdb.sql("SELECT 1 AS x")
    assert secret_of_python is not None
    folder = besieged.path.parent
    there = sorted(folder.rglob("*"))
    sql = statement.format(file=folder / "secret.csv", folder=folder, home=besieged.path)
    with pytest.raises(SettingsError):
        query(besieged, sql)
    assert sorted(folder.rglob("*")) == there


@pytest.mark.parametrize(("sql", "count"), [("SELECT 1; SELECT 2", 2), ("", 0), ("-- hm", 0)])
def test_one_statement_is_allowed(home: Home, sql: str, count: int) -> None:
    with pytest.raises(SettingsError, match=str(count)):
        query(home, sql)


@pytest.mark.parametrize("merged", [True, False])
def test_a_wrong_name_comes_with_a_suggestion(home: Home, merged: bool) -> None:
    with Writer.open(home) as writer:
        writer.write([run()])
        if merged:
            writer.merge()
        for sql, meant in (
            ("SELECT * FROM signature", "signatures"),
            ("SELECT afinity FROM signatures", "affinity"),
        ):
            with pytest.raises(SettingsError) as caught:
                query(home, sql)
            assert meant in str(caught.value.hint)
    with pytest.raises(SettingsError, match="SELCT"):
        query(home, "SELCT 1")


def test_a_missing_or_busy_store_is_named(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="nothing"):
        query(Home(tmp_path / "nothing"), "SELECT 1")
    monkeypatch.setattr(connection_module, "WAIT_SECONDS", 0.1)
    with duckdb.connect(home.signatures), pytest.raises(StoreError, match=r"0\.1"):
        query(home, "SELECT 1")


def test_duckdb_draws_no_progress_bar_among_the_output(home: Home) -> None:
    setting = "SELECT current_setting('enable_progress_bar') AS shown"
    assert stored(home, setting) == [{"shown": False}]
    with writing(home.signatures) as connection:
        assert connection
        assert connection.execute(setting).fetchall() == [(False,)]
