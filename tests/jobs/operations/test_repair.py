"""A damaged home is made usable again: nothing that can be read is lost, nothing is overwritten."""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest import mock

import duckdb
import pytest
from filelock import FileLock

from catalog import open_home as open_home_module
from catalog.home import Home, segment_paths
from catalog.open_home import open_home
from catalog.registry import registry as registry_module
from catalog.registry.address import record_url
from catalog.registry.registry import Registry
from catalog.registry.repair import registry_damage
from catalog.registry.rows import JobEntry
from catalog.store import merged_segments, undo
from catalog.store import repair as store_repair
from catalog.store.arrow_rows import batch_table, network_table, run_table
from catalog.store.reader import query, run_states
from catalog.store.records import BatchRecord, NetworkRecord
from catalog.store.repair import repair_store, store_damage
from catalog.store.segments import write_segment
from catalog.store.upgrade import migrations
from catalog.store.writer import Writer
from jobs.operations.doctor import CHECKS
from jobs.operations.repair import repair
from survey.errors import SettingsError, StoreError
from survey.network_measures.base import CurvePoint, NetworkScore
from survey.results import BatchScores
from tests.acceptance.command import survey
from tests.catalog.records import SITES, batch, run, stored

pytestmark = pytest.mark.slow(seconds=8)

RUNS, BATCHES = 6, 40

TABLES = ("runs", "batches", "batch_scores", "network_scores", "network_curves")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with finished runs, all but the last segment merged, and the jobs of them."""
    home = open_home(tmp_path_factory.mktemp("measured") / "home", create=True)
    with Writer.open(home) as writer:
        for name in (f"r{number}" for number in range(RUNS)):
            rows = [BatchRecord(name, 1, batch(n, n / 100), 512 * (n + 1)) for n in range(BATCHES)]
            writer.write(batches=rows)
            finished = run(name, "done", job_key=f"key-{name}", batches=BATCHES, sites=SITES)
            writer.write([finished])
        writer.merge()
    with Registry(home) as registry:
        survey = registry.record_survey("mine", {"models": ["small:*"]})
        registry.add_jobs(survey, [entry(f"r{number}") for number in range(RUNS)])
    return home.path


def entry(name: str) -> JobEntry:
    return JobEntry(f"key-{name}", name, "resnet20", "small", "bundled", "digits", {})


@pytest.fixture
def home(measured: Path, tmp_path: Path) -> Home:
    return Home(Path(shutil.copytree(measured, tmp_path / "home")))


def everything(home: Home) -> list[dict[str, object]]:
    return stored(home, "SELECT run_id, batch, site, affinity FROM batch_scores ORDER BY ALL")


def read_all(home: Home) -> None:
    for table in ("runs", "batches", "batch_scores", "segments"):
        query(home, f"FROM {table}")


def truncate(path: Path, fraction: float) -> None:
    os.truncate(path, int(fraction * path.stat().st_size))


def scribble(path: Path, fraction: float) -> None:
    with path.open("r+b") as file:
        file.seek(int(fraction * path.stat().st_size))
        file.write(random.Random(7).randbytes(3000))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": lambda path: truncate(path, 0),
    "headless": lambda path: scribble(path, 0),
    "half": lambda path: truncate(path, 0.5),
    "almost whole": lambda path: truncate(path, 0.8),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_log_gives_a_damaged_store_back_whole(home: Home, damage: str) -> None:
    before = everything(home)
    assert len(before) == RUNS * BATCHES * SITES
    DAMAGES[damage](home.signatures)
    damaged = home.signatures.read_bytes() if home.signatures.exists() else None
    if damaged is not None:
        with pytest.raises(StoreError) as caught:
            read_all(home)
        assert "doctor --repair" in str(caught.value.hint)
    repair(home.path)
    assert everything(home) == before
    assert {state.status for state in run_states(home).values()} == {"done"}
    asides = list(home.path.glob("signatures.duckdb.damaged-*"))
    assert [path.read_bytes() for path in asides] == [damaged] * (damaged is not None)
    assert {finding.state for finding in repair(home.path)} == {"ok"}
    assert list(home.path.glob("signatures.duckdb*damaged-*")) == asides


def test_a_store_whose_log_is_there_is_not_made_empty(home: Home) -> None:
    before = everything(home)
    home.signatures.unlink()
    home.registry.unlink()
    with pytest.raises(StoreError) as caught:
        open_home(home.path, create=True)
    assert "doctor --repair" in str(caught.value.hint)
    assert not home.signatures.exists()
    # A repair would take an empty one for whole.
    assert not home.registry.exists()
    repair(home.path)
    assert everything(open_home(home.path, create=True)) == before


@pytest.mark.parametrize("sites", [30, pytest.param(3000, marks=pytest.mark.long)])
def test_without_the_log_what_can_be_read_is_kept_and_no_batch_is_torn(
    home: Home, sites: int
) -> None:
    with Writer.open(home) as writer:
        # Of many sites more than a row group of scores: some can be read and others not.
        writer.write(
            batches=[BatchRecord("big", 1, batch(n, 0.5, sites), n + 1) for n in range(90)]
        )
        writer.write([run("big", "done", batches=90, sites=sites, job_key="key-big")])
        writer.merge()
    shutil.rmtree(home.merged)
    before = {tuple(row.values()) for row in everything(home)}
    whole = home.signatures.read_bytes()
    outcomes = set()
    for fraction in (0.3, 0.6, 0.9):
        home.signatures.write_bytes(whole)
        scribble(home.signatures, fraction)
        findings = repair(home.path)
        after = {tuple(row.values()) for row in everything(home)}
        assert after <= before
        counts = stored(
            home,
            """SELECT run_id, count(*) AS scores FROM batches JOIN batch_scores
            USING (run_id, batch) GROUP BY run_id, batch""",
        )
        assert {(r["run_id"] == "big", r["scores"]) for r in counts} <= {(True, sites), (False, 3)}
        assert sum(int(str(row["scores"])) for row in counts) == len(after)
        states = run_states(home)
        for name, state in states.items():
            complete = 90 if name == "big" else BATCHES
            assert state.status != "done" or state.batches_done == complete
        if len(after) < len(before):
            assert "attention" in {finding.state for finding in findings}
        outcomes.add("all" if len(after) == len(before) else "some" if after else "none")
    assert "some" in outcomes


def test_rows_that_replaced_others_are_kept(home: Home) -> None:
    """Their ids go beyond the number of rows."""
    with Writer.open(home) as writer:
        for status in ("running", "done"):
            for name in ("s0", "s1", "s2"):
                writer.write([run(name, status)])
                writer.merge()
    shutil.rmtree(home.merged)
    before = run_states(home)
    assert repair_store(home).lost["runs"] == 0
    assert run_states(home) == before


def damage_last_block(home: Home, table: str) -> None:
    """Overwrite a part of the last block that holds rows of this table only."""
    blocks = (
        "SELECT block_id FROM pragma_storage_info(?) WHERE block_id >= 0 ORDER BY row_group_id DESC"
    )
    with duckdb.connect(home.signatures, read_only=True) as store:
        used = {name: store.execute(blocks, [name]).fetchall() for name in TABLES}
    last = used.pop(table)
    ((block,), *_) = (block for block in last if not any(block in other for other in used.values()))
    with home.signatures.open("r+b") as file:
        file.seek(3 * 4096 + block * 262_144 + 1000)
        file.write(random.Random(7).randbytes(3000))


def test_a_partial_batch_without_scores_is_whole(home: Home) -> None:
    partial = BatchScores(BATCHES, 100, (), 100, 80, 90, 1.5)
    with Writer.open(home) as writer:
        for name in ("s0", "s1", "s2"):
            rows = [BatchRecord(name, 1, batch(n, n / 7), 512 * (n + 1)) for n in range(BATCHES)]
            last = BatchRecord(name, 1, partial, 512 * BATCHES + 100)
            writer.write([run(name, "done", batches=BATCHES + 1, sites=SITES)], [*rows, last])
            writer.merge()
    shutil.rmtree(home.merged)
    damage_last_block(home, "batch_scores")
    repair_store(home)
    states = run_states(home)
    done = {name for name, state in states.items() if state.status == "done"}
    assert done == {f"r{number}" for number in range(RUNS)} | {"s0", "s1"}
    # The third's partial batch stays, without any that lost its scores.
    assert {states[name].batches_done for name in ("s0", "s1")} == {BATCHES + 1}
    assert states["s2"].batches_done == 1


@pytest.mark.parametrize(("table", "rows"), [("runs", 1), ("batch_scores", SITES * BATCHES)])
def test_a_damaged_block_costs_the_rows_of_one_merge(home: Home, table: str, rows: int) -> None:
    with Writer.open(home) as writer:
        for name in ("s0", "s1", "s2"):
            records = [BatchRecord(name, 1, batch(n, n / 7), n + 1) for n in range(BATCHES)]
            writer.write([run(name, "done", batches=BATCHES, sites=SITES)], records)
            writer.merge()
    shutil.rmtree(home.merged)
    damage_last_block(home, table)
    assert repair_store(home).lost == {**dict.fromkeys(TABLES, 0), table: rows}
    assert [state.status for state in run_states(home).values()].count("done") == RUNS + 3 - 1


@pytest.fixture
def curved(home: Home) -> Home:
    """A home without its log, and with measures of a network, one of which is a curve."""
    points = tuple(CurvePoint(float(x), x / 2) for x in range(5))
    scores = {"plain": NetworkScore(1.0), "curved": NetworkScore(2.0, curve=points)}
    with Writer.open(home) as writer:
        writer.write(network=[NetworkRecord("r0", 1, scores)])
        writer.merge()
    shutil.rmtree(home.merged)
    return home


def scores_and_points(home: Home) -> list[tuple[object, object]]:
    rows = "SELECT measure, point FROM network_scores LEFT JOIN network_curves USING (measure)"
    return [(row["measure"], row["point"]) for row in stored(home, f"{rows} ORDER BY ALL")]


@pytest.mark.parametrize("points", [0, 3])
def test_a_curve_is_kept_whole_or_measures_are_computed_again(
    curved: Home, monkeypatch: pytest.MonkeyPatch, points: int
) -> None:
    repair_store(curved)
    assert scores_and_points(curved) == [*(("curved", n) for n in range(5)), ("plain", None)]
    copy = store_repair._copy

    def part(
        connection: duckdb.DuckDBPyConnection, table: str, first: int, stop: int, least: int
    ) -> None:
        copy(connection, table, first, points if table == "network_curves" else stop, least)

    monkeypatch.setattr(store_repair, "_copy", part)
    repair_store(curved)
    assert scores_and_points(curved) == []


def test_a_store_from_before_the_curves_is_not_damaged(curved: Home) -> None:
    with duckdb.connect(curved.signatures) as older:
        older.execute("DROP TABLE network_curves; DELETE FROM migrations WHERE version > 4")
    assert store_damage(curved.signatures) is None
    repair_store(curved)
    assert scores_and_points(curved) == [("curved", None), ("plain", None)]


def test_an_older_store_is_migrated_before_the_spool_is_merged(home: Home) -> None:
    """Opening the home, which migrates it, is refused until its registry is repaired."""
    home.signatures.unlink()
    with duckdb.connect(home.signatures) as older:
        for migration in migrations()[:-1]:
            older.execute(migration.sql)
            values = [migration.version, migration.name]
            older.execute("INSERT INTO migrations VALUES (?, ?, now())", values).fetchall()
    write_segment(home.spool, run_table([run("waiting")]), batch_table([]), network_table([]))
    scribble(home.registry, 0.0)
    with pytest.raises(StoreError, match="registry"):
        open_home(home.path, create=True)
    repair(home.path)
    assert stored(home, "SELECT run_id FROM runs") == [{"run_id": "waiting"}]
    open_home(home.path, create=True)


def test_an_unreadable_segment_leaves_the_spool_and_the_rest_is_merged(home: Home) -> None:
    with Writer.open(home) as writer:
        for name in ("s1", "s2"):
            writer.write([run(name)])
        broken, _ = segment_paths(home.spool)
        content = broken.read_bytes()
        broken.write_bytes(content[:-9])
        writer.close = lambda: None  # type: ignore[method-assign]
        writer._lock.release()
    with pytest.raises(StoreError) as caught:
        query(home, "FROM runs")
    assert "doctor --repair" in str(caught.value.hint)
    findings = repair(home.path)
    assert any(broken.name in finding.detail for finding in findings)
    assert [path.read_bytes() for path in home.spool.iterdir()] == [content[:-9]]
    names = {row["run_id"] for row in stored(home, "SELECT run_id FROM runs")}
    assert "s2" in names
    assert "s1" not in names


@pytest.mark.parametrize("damage", ["empty", "half", "removed"])
def test_a_damaged_registry_is_made_again_from_itself_and_the_store(
    home: Home, damage: str
) -> None:
    DAMAGES[damage](home.registry)
    with pytest.raises(StoreError) as caught, Registry(home) as registry:
        registry.jobs()
    damaged = home.registry.read_bytes() if home.registry.exists() else None
    assert "doctor --repair" in str(caught.value.hint)
    findings = repair(home.path)
    assert "labels" in {finding.check for finding in findings}
    with Registry(home) as registry:
        jobs = {job.run_id: job for job in registry.jobs()}
        # It goes on: another survey, and attempts at its jobs.
        registry.add_jobs(registry.record_survey("new", {}), [entry("r0"), entry("r99")])
    assert set(jobs) == {f"r{number}" for number in range(RUNS)}
    assert {job.key for job in jobs.values()} == {f"key-{name}" for name in jobs}
    asides = list(home.path.glob("registry.sqlite.damaged-*"))
    assert [path.read_bytes() for path in asides] == [damaged] * (damaged is not None)


def test_a_registry_damaged_in_one_table_keeps_the_others(home: Home) -> None:
    with sqlite3.connect(home.registry) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = raw.execute("SELECT rootpage FROM sqlite_master WHERE name = 'jobs'").fetchone()
        (size,) = raw.execute("PRAGMA page_size").fetchone()
    with home.registry.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(bytes(size))
    repair(home.path)
    with Registry(home) as registry:
        assert registry.record_survey("mine", {"models": ["small:*"]}) == 1
        assert {job.state for job in registry.jobs()} == {"done"}


@pytest.mark.parametrize("torn", [(3, -4), (3, -1)])
def test_rows_between_damaged_pages_of_a_registry_are_kept(
    home: Home, torn: tuple[int, ...]
) -> None:
    value = "x" * 60
    rows = [(f"run{number}", "note", json.dumps(value)) for number in range(1000)]
    with closing(sqlite3.connect(home.registry)) as raw:
        raw.executemany("INSERT INTO run_tags (run_id, name, value) VALUES (?, ?, ?)", rows)
        raw.commit()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        (size,) = raw.execute("PRAGMA page_size").fetchone()
    content = bytearray(home.registry.read_bytes())
    pages = [
        page
        for start in range(0, len(content), size)
        if (page := slice(start, start + size)) and value.encode() in content[page]
    ]
    lost = sum(content[pages[number]].count(value.encode()) for number in torn)
    for number in torn:
        content[pages[number]] = bytes(size)
    home.registry.write_bytes(content)
    assert "attention" in {each.state for each in repair(home.path) if each.check == "run_tags"}
    with Registry(home) as registry:
        assert len(registry.labels.all()) == len(rows) - lost


def test_a_repair_that_fails_midway_leaves_the_damaged_store_in_its_place(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate(home.signatures, 0.8)
    damaged, before = home.signatures.read_bytes(), sorted(home.path.iterdir())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("catalog.store.repair._replay", full)
    with pytest.raises(StoreError, match="No space"):
        repair(home.path)
    assert home.signatures.read_bytes() == damaged
    (aside,) = set(home.path.iterdir()) - set(before)
    assert aside.read_bytes() == damaged


def test_the_command_says_what_it_did_as_json(home: Home) -> None:
    truncate(home.signatures, 0.8)
    ended = survey("doctor", "--repair", "--json", home=home.path)
    rows = json.loads(ended.stdout)
    (aside,) = home.path.glob("signatures.duckdb.damaged-*")
    assert any(str(aside) in row["detail"] for row in rows)
    assert any(f"{RUNS} runs" in row["detail"] for row in rows)


def test_a_repair_waits_for_no_scan_and_makes_no_home(home: Home, tmp_path: Path) -> None:
    with Writer.open(home), pytest.raises(StoreError, match="another scan"):
        repair(home.path)
    with pytest.raises(SettingsError, match="no home"):
        repair(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_home_is_not_opened_for_writing_while_it_is_repaired(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(home.merged)
    home.signatures.unlink()
    monkeypatch.setattr(open_home_module, "OPENING_SECONDS", 0.0)
    replay, met = store_repair._replay, []

    def with_another(store: Path, log: list[Path]) -> tuple[int, int]:
        with pytest.raises(StoreError) as caught:
            open_home(home.path, create=True)
        met.append(caught.value)
        return replay(store, log)

    monkeypatch.setattr(store_repair, "_replay", with_another)
    repair(home.path)
    assert len(met) == 1
    read_all(home)


def test_a_registry_that_a_service_has_open_is_not_replaced(home: Home) -> None:
    scribble(home.registry, 0.0)
    damaged = home.registry.read_bytes()
    with FileLock(home.driver_lock), pytest.raises(StoreError, match="service"):
        repair(home.path)
    assert home.registry.read_bytes() == damaged
    assert not list(home.path.glob("*.damaged-*"))
    repair(home.path)
    assert list(home.path.glob("registry.sqlite.damaged-*"))


def test_a_store_that_may_be_made_whole_is_not_replaced_while_others_open_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    truncate(home.signatures, 0.5)
    damaged = home.signatures.read_bytes()
    undo.undo_path(home.signatures).write_bytes(b"x")
    monkeypatch.setattr(undo, "recover", lambda _: False)
    with pytest.raises(StoreError, match="other processes"):
        repair(home.path)
    assert home.signatures.read_bytes() == damaged


def test_a_registry_on_a_server_is_left_to_its_tools(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Registry(home) as registry:
        jobs = registry.jobs()
    home.registry.unlink()
    record_url(Home(home.path, "postgresql+psycopg://u@localhost/zoo"))
    served = mock.MagicMock()
    served.__enter__.return_value.jobs.return_value = jobs
    monkeypatch.setattr(registry_module, "Registry", lambda _: served)
    states = {finding.check: finding.state for finding in repair(home.path)}
    assert (states["registry"], "labels" in states) == ("ok", False)
    assert not home.registry.exists()


def test_the_log_keeps_the_newest_segments_within_its_bounds(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [path.name for path in segment_paths(home.merged)]
    assert len(names) == 2 * RUNS
    monkeypatch.setattr(merged_segments, "KEPT_SEGMENTS", 10)
    merged_segments.prune(home.merged)
    assert [path.name for path in segment_paths(home.merged)] == names[-10:]
    size = sum(path.stat().st_size for path in segment_paths(home.merged)[-4:])
    monkeypatch.setattr(merged_segments, "KEPT_BYTES", size)
    merged_segments.prune(home.merged)
    assert [path.name for path in segment_paths(home.merged)] == names[-4:]
    for path in segment_paths(home.merged)[:3]:
        os.utime(path, (0, 0))
    merged_segments.prune(home.merged)
    assert [path.name for path in segment_paths(home.merged)] == names[-1:]


def test_the_doctor_reports_what_a_repair_would_mend(home: Home) -> None:
    def states() -> dict[str, str]:
        try:
            return {each.check: each.state for each in CHECKS["home"](home.path)}
        except StoreError:
            return {"signatures": "broken"}

    assert "broken" not in states().values()
    whole, met = home.signatures.read_bytes(), 0
    # Of most blocks no count reads a byte.
    for place in range(3 * 4096 + 5000, len(whole), 262_144):
        torn = bytes(each ^ 255 for each in whole[place : place + 64])
        home.signatures.write_bytes(whole[:place] + torn + whole[place + 64 :])
        if store_damage(home.signatures) is not None:
            assert states()["signatures"] == "broken"
            met += 1
    home.signatures.write_bytes(whole)
    assert met
    with sqlite3.connect(home.registry) as registry:
        tables = "SELECT rootpage FROM sqlite_schema WHERE name = 'run_tags'"
        (page,), (size,) = (
            registry.execute(sql).fetchone() for sql in (tables, "PRAGMA page_size")
        )
    with home.registry.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"x" * size)
    assert states() | {"registry": "broken"} == states()


def test_a_registry_that_is_written_between_two_copies_of_its_files_is_whole(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    copyfile = shutil.copyfile
    with closing(sqlite3.connect(home.registry)) as writer:
        rows = [(f"run{number}", "name", "x" * 500) for number in range(2000)]
        writer.executemany("INSERT INTO run_tags (run_id, name, value) VALUES (?, ?, ?)", rows)
        writer.commit()

        def then_written(source: Path, target: Path) -> None:
            copyfile(source, target)
            if source == home.registry:
                writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                writer.execute("DELETE FROM run_tags WHERE run_id < 'run5'")
                writer.commit()

        monkeypatch.setattr(shutil, "copyfile", then_written)
        assert registry_damage(home) is None


def test_a_registry_that_others_write_is_whole(home: Home) -> None:
    ended = threading.Event()

    def write() -> None:
        with sqlite3.connect(home.registry, timeout=30) as registry:
            for number in itertools.count():
                if ended.is_set():
                    return
                registry.execute("UPDATE jobs SET losses = ?, settings = ?", (number, "x" * 5000))
                registry.commit()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        looks = [registry_damage(home) for _ in range(100)]
    finally:
        ended.set()
        thread.join()
    assert set(looks) == {None}
