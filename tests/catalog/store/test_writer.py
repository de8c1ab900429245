"""The writer loses nothing it acknowledged, doubles nothing, and lets no bad number in."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import io
import itertools
import math
import os
import socket
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa
import pytest

from catalog.home import Home
from catalog.store import segments, writer_lock
from catalog.store import writer as writer_module
from catalog.store.arrow_rows import RUN_SCHEMA, batch_table, run_table, storable
from catalog.store.connection import connect_reading
from catalog.store.reader import query, run_row
from catalog.store.records import BatchRecord
from catalog.store.segments import UNFINISHED
from catalog.store.writer import Writer
from catalog.store.writer_lock import writing_process
from survey.errors import StoreError
from survey.results import SiteScore
from tests.catalog.records import SITES, batch, run, score, stored

pytestmark = pytest.mark.slow(seconds=12)

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize(
    ("batches", "sites", "lives"),
    [
        pytest.param(1, SITES, 6, id="one"),
        pytest.param(100, 49, 3, id="five-thousand-rows", marks=pytest.mark.long),
    ],
)
def test_a_writer_killed_again_and_again_loses_and_doubles_nothing(
    home: Home, batches: int, sites: int, lives: int
) -> None:
    feed = [str(lives), str(batches), str(sites)]
    killing = subprocess.run(
        [sys.executable, "-m", "tests.catalog.store.kill_writer", str(home.path), *feed],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killing.returncode == 0, killing.stderr
    acknowledged, met = int(killing.stdout), met_batches(home)
    with Writer.open(home) as writer:
        writer.merge()
        assert met_batches(home) == met
        assert not list(home.spool.iterdir())
    # One call beyond may be there: written, but killed before it was acknowledged.
    assert len(met) in (acknowledged, acknowledged + batches)
    for number, row in enumerate(met):
        assert (row["batch"], row["scores"], row["sites"]) == (number, sites, sites)
        # Each batch is that of its own attempt, whole, and never its replay.
        assert row["lowest"] == row["highest"] == row["attempt"] / 1000
    # A run's row is never ahead of the batches it was written with.
    (row,) = stored(home, "SELECT batches FROM runs")
    assert acknowledged <= row["batches"] <= len(met)
    assert acknowledged > 10 * batches


def met_batches(home: Home) -> list[dict[str, Any]]:
    """Return every batch with what its scores add up to."""
    return stored(
        home,
        """SELECT batch, attempt, count(*) AS scores, count(DISTINCT site) AS sites,
             min(affinity) AS lowest, max(affinity) AS highest
           FROM batches LEFT JOIN batch_scores USING (run_id, batch)
           GROUP BY ALL ORDER BY ALL""",
    )


def test_what_is_written_is_in_the_spool_at_once(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(n), 512 * n) for n in range(5)])
        assert len(list(home.spool.iterdir())) == 1
        assert len(stored(home)) == 5 * SITES
        with duckdb.connect(home.signatures, read_only=True) as raw:
            assert raw.execute("SELECT count(*) FROM batches").fetchall() == [(0,)]


def test_runs_and_batches_of_one_call_are_one_segment(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write()
        assert not list(home.spool.iterdir())
        writer.write([run(), run(status="done")], [BatchRecord("r2", 1, batch(0), 512)])
        assert len(list(home.spool.iterdir())) == 1
        assert stored(home, "SELECT run_id, status FROM runs") == [
            {"run_id": "r1", "status": "done"}
        ]
        assert len(stored(home)) == SITES


def test_a_merged_segments_name_is_known_while_it_is_there_and_for_a_day(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known_after(run_id: str) -> int:
        writer.write([run(run_id)])
        writer.merge()
        return len(stored(home, "SELECT name FROM segments"))

    def let_days_pass() -> None:
        with duckdb.connect(home.signatures) as raw:
            raw.execute("UPDATE segments SET merged_at = merged_at - to_days(2)").fetchall()

    with Writer.open(home) as writer:
        with monkeypatch.context() as patch:
            patch.setattr("catalog.store.writer._leave_spool", _crash)
            with pytest.raises(KeyboardInterrupt):
                known_after("r1")
        let_days_pass()
        assert known_after("r2") == 2
        let_days_pass()
        assert known_after("r3") == 1
        assert known_after("r4") == 2
    assert len(stored(home, "SELECT * FROM runs")) == 4


def test_a_segment_left_after_its_merge_is_merged_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        writer.write([run(status="done")])
        with monkeypatch.context() as patch:
            patch.setattr("catalog.store.writer._leave_spool", _crash)
            with pytest.raises(KeyboardInterrupt):
                writer.merge()
        assert len(list(home.spool.iterdir())) == 2
        assert len(stored(home)) == SITES
        assert writer.merge() == 0
    assert not list(home.spool.iterdir())
    assert len(stored(home)) == SITES


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_late_writer_of_an_earlier_attempt_replaces_nothing(home: Home) -> None:
    for merging in (True, False):
        with Writer.open(home) as writer:
            name = f"r{merging}"
            writer.write(batches=[BatchRecord(name, 2, batch(0, 0.2), 512)])
            if merging:
                writer.merge()
            writer.write(batches=[BatchRecord(name, 1, batch(0, 0.1), 512)])
            writer.write(batches=[BatchRecord(name, 2, batch(0, 0.3), 512)])
    assert {row["affinity"] for row in stored(home)} == {0.2}


def test_one_writer_at_a_time(home: Home) -> None:
    with (
        Writer.open(home),
        pytest.raises(StoreError, match=str(os.getpid())) as caught,
    ):
        Writer.open(home)
    assert "--home" in str(caught.value.hint)
    with Writer.open(home) as writer:
        pass
    assert not home.writer_note.exists()
    with pytest.raises(StoreError, match=str(home.path)):
        writer.write([run()])


def test_the_lock_tells_whether_a_writer_is_at_work_and_not_its_note(home: Home) -> None:
    assert writing_process(home) is None
    with Writer.open(home):
        note = home.writer_note.read_text(encoding="utf-8").strip()
        assert writing_process(home) == note
        assert str(os.getpid()) in note
        assert socket.gethostname() in note
    # A killed writer's note, with a number that another process has by now.
    home.writer_note.write_text(note, encoding="utf-8")
    assert writing_process(home) is None
    with home.writer_lock.open("rb") as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (asking, fcntl.LOCK_UN)).start()
        Writer.open(home).close()


def test_a_clock_set_back_does_not_bring_an_earlier_row_back(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = itertools.count(2 * 10**18, -(10**9))
    monkeypatch.setattr(segments.time, "time_ns", lambda: next(moments))
    with Writer.open(home) as writer:
        writer.write([run(status="running")])
        writer.write([run(status="done")])
    assert [row["status"] for row in query(home, "SELECT status FROM runs").to_pylist()] == ["done"]


def test_what_a_killed_writer_left_unfinished_is_swept_away(home: Home) -> None:
    leftover = home.spool / f"1-1-1.arrow{UNFINISHED}"
    leftover.write_bytes(b"half")
    assert stored(home) == []
    with Writer.open(home):
        assert not leftover.exists()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_full_or_failing_disk_leaves_nothing_half_written(
    home: Home, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    with Writer.open(home) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(segments.os, "fsync", fail)
            with pytest.raises(StoreError, match=str(home.spool)) as caught:
                writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        assert ("disk space" in str(caught.value.hint)) == (number == errno.ENOSPC)
        assert not list(home.spool.iterdir())
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
    assert len(stored(home)) == SITES


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.99, None])
def test_a_broken_segment_is_named(home: Home, kept: float | None) -> None:
    rows = run_table([run()]), batch_table([BatchRecord("r1", 1, batch(0), 512)])
    broken = segments.write_segment(home.spool, *rows)
    content = broken.read_bytes()
    broken.write_bytes(b"no segment" if kept is None else content[: int(kept * len(content))])
    with pytest.raises(StoreError, match=broken.name) as caught:
        query(home, "SELECT 1")
    assert "spool" in str(caught.value.hint)
    with Writer.open(home) as writer:
        with pytest.raises(StoreError, match=broken.name):
            writer.merge()
        broken.unlink()


def test_a_segment_that_a_failing_disk_changed_is_refused(home: Home) -> None:
    rows = run_table([run()]), batch_table([BatchRecord("r1", 1, batch(0), 512)])
    path = segments.write_segment(home.spool, *rows)
    content = path.read_bytes()
    for place in range(0, len(content), 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(StoreError, match="checksum"):
            segments.read_segment(path)


def test_a_segment_with_an_empty_stream_of_runs_is_read(home: Home) -> None:
    """Earlier versions wrote both streams, whether or not they had rows."""
    batches = batch_table([BatchRecord("r1", 1, batch(0), 512)])
    content = io.BytesIO()
    for table in (RUN_SCHEMA.empty_table(), batches):
        with pa.ipc.new_stream(content, table.schema) as stream:
            stream.write_table(table)
    checksum = zlib.crc32(content.getvalue()).to_bytes(4, "little")
    path = home.spool / "1-1-1.arrow"
    path.write_bytes(content.getvalue() + checksum)
    read = segments.read_segment(path)
    assert read.batches.equals(batches)
    assert read.runs.num_rows == 0
    assert len(stored(home)) == SITES


@pytest.mark.slow(seconds=2)
def test_a_merge_writes_nothing_anew_that_is_stored(home: Home) -> None:
    # A little more than one of DuckDB's row groups a merge, which leaves one that is nearly empty.
    one, met = batch(sites=500), []
    batches = [dataclasses.replace(one, batch=n) for n in range(260)]
    with Writer.open(home) as writer:
        for number in range(2):
            writer.write(batches=[BatchRecord(f"r{number}", 1, one, 512) for one in batches])
            writer.merge()
            with duckdb.connect(home.signatures, read_only=True) as raw:
                met.append(raw.execute(ROW_GROUPS).fetchall())
    assert [sum(rows for _, rows in groups) for groups in met] == [130_000, 260_000]
    assert met[1][: len(met[0])] == met[0]


#: How the scores are divided in the store's file.
ROW_GROUPS = """
SELECT row_group_id, sum(count)::BIGINT FROM pragma_storage_info('batch_scores')
WHERE column_name = 'site' AND segment_type = 'INTEGER' GROUP BY ALL ORDER BY ALL
"""


def test_merging_falls_due_by_number_and_by_time(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(writer_module.time, "monotonic", lambda: clock[0])
    with Writer.open(home) as writer:
        clock[0] += 100
        assert writer.merge_if_due() == 0
        writer.merge()
        writer.write(batches=[BatchRecord("r1", 1, batch(0), 512)])
        assert writer.merge_if_due() == 0
        clock[0] += writer_module.SECONDS_DUE
        assert writer.merge_if_due() == 1
        monkeypatch.setattr(writer_module, "SEGMENTS_DUE", 3)
        clock[0] += writer_module.SECONDS_DUE / 4
        for number in range(1, 4):
            assert writer.merge_if_due() == 0
            writer.write(batches=[BatchRecord("r1", 1, batch(number), 512)])
        assert writer.merge_if_due() == 3


def test_a_long_spool_is_merged_in_parts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "SEGMENTS_A_MERGE", 4)
    with Writer.open(home) as writer:
        for number in range(10):
            writer.write(batches=[BatchRecord("r1", 1, batch(number), 512)])
        assert writer.merge() == 10
    assert len(stored(home)) == 10 * SITES


#: Where a segment's table of batches has their scores.
BAD = [
    (score(affinity=math.nan), "nonfinite", None),
    (score(affinity=math.inf), "nonfinite", None),
    (score(input_variance=math.inf), "nonfinite", 0.5),
    (score(affinity=1.5, raw_affinity=1.5), "out_of_range", 1.5),
    (score(affinity=-0.1, raw_affinity=None), "out_of_range", -0.1),
    (score(affinity=None), "failed", None),
    (score(affinity=math.nan, raw_affinity=math.nan, status="constant"), "constant", None),
    (score(affinity=0.4, status="failed", raw_affinity=None), "failed", None),
]


@pytest.mark.parametrize(("given", "status", "raw"), BAD)
def test_a_number_that_is_none_is_null_with_a_reason(
    home: Home, given: SiteScore, status: str, raw: float | None
) -> None:
    one = dataclasses.replace(batch(0), scores=(given,), seconds=math.nan)
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, one, 512)])
        writer.write([run(status="done")])
        (row,) = stored(home, "SELECT * FROM batch_scores")
        assert stored(home, "SELECT seconds FROM batches") == [{"seconds": None}]
    assert (row["affinity"], row["status"], row["raw_affinity"]) == (None, status, raw)
    assert row["reason"] or given.affinity == 0.4
    assert all(math.isfinite(value) for value in row.values() if isinstance(value, float))
    assert stored(home, "SELECT affinity FROM signatures") == [{"affinity": None}]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_metric_that_is_no_number_is_null_with_a_note_and_spoils_nothing_else(
    home: Home, value: float
) -> None:
    given = score(cka=value, r2_heldout=value, norm=None, notes=("norm: overflow",))
    with Writer.open(home) as writer:
        writer.write(
            batches=[BatchRecord("r1", 1, dataclasses.replace(batch(0), scores=(given,)), 512)]
        )
        (row,) = stored(home, "SELECT * FROM batch_scores")
    assert (row["cka"], row["r2_heldout"], row["cka_debiased"]) == (None, None, 0.25)
    assert row["notes"] == ["norm: overflow", "cka: not finite", "r2_heldout: not finite"]
    assert (row["affinity"], row["status"], row["reason"]) == (0.5, "ok", None)


def test_bad_numbers_among_many_good_ones_change_nothing_else(home: Home) -> None:
    bad = [given for given, _, _ in BAD]
    mixed = [score(affinity=0.001 * n) for n in range(200)]
    mixed[50:50] = [*bad, score(cka=math.nan), score(affinity=None, status="failed")]
    scores = tuple(dataclasses.replace(given, site=n) for n, given in enumerate(mixed))
    one = dataclasses.replace(batch(0), scores=scores)
    with Writer.open(home) as writer:
        writer.write(batches=[BatchRecord("r1", 1, one, 512)])
        rows = stored(home, "SELECT * EXCLUDE run_id FROM batch_scores ORDER BY site")
    fit = [storable(given) for given in scores]
    expected = [{name: getattr(one, name) for name in rows[0]} for one in fit]
    for row in expected:
        row |= {name: list(row[name]) for name in ("flags", "notes")}
    assert rows == expected


def test_a_good_score_is_stored_as_it_is() -> None:
    assert storable(score()) == score()


def test_a_run_with_a_number_that_is_none_says_so(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write([run(status="done", measured_top1=math.nan, gflops=math.inf, seconds=2.0)])
    record = run_row(home, "r1")
    assert (record.measured_top1, record.gflops, record.seconds) == (None, None, 2.0)
    assert all(name in str(record.error) for name in ("measured_top1", "gflops"))


def _no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_a_file_system_without_locks_is_no_busy_writer(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise duckdb.IOException("Could not set lock on file: Conflicting lock is held in PID 0")

    monkeypatch.setattr(fcntl, "flock", _no_locks)
    with pytest.raises(StoreError, match="cannot be locked: No locks") as caught:
        Writer.open(home)
    assert "lock service" in str(caught.value.hint)
    monkeypatch.setattr(fcntl, "lockf", _no_locks)
    monkeypatch.setattr(duckdb, "connect", refused)
    for forbidden in (None, PermissionError(errno.EACCES, "Permission denied")):
        # Who may not write to the home, as the process of a query, is answered the same.
        monkeypatch.setattr(
            writer_lock, "TemporaryFile", mock.Mock(side_effect=forbidden or TemporaryFile)
        )
        with (
            pytest.raises(StoreError, match="cannot be locked: No locks"),
            connect_reading(home.signatures),
        ):
            pass
