"""The writer loses nothing it acknowledged, doubles nothing, and lets no bad number in."""

from __future__ import annotations

import dataclasses
import errno
import math
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from catalog import segments, spool
from catalog.home import Home
from catalog.runs import BatchRecord
from catalog.segments import UNFINISHED, storable
from catalog.spool import Writer
from catalog.store import query, run_row
from survey.errors import StoreError
from survey.signature import SiteScore
from tests.catalog.records import SITES, batch, run, score, stored

ROOT = Path(__file__).resolve().parents[2]


def test_a_writer_killed_again_and_again_loses_and_doubles_nothing(home: Home) -> None:
    killing = subprocess.run(
        [sys.executable, "-m", "tests.catalog.kill_writer", str(home.path), "12"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killing.returncode == 0, killing.stderr
    acknowledged = int(killing.stdout)
    before = stored(home)
    with Writer.open(home) as writer:
        writer.merge()
        assert stored(home) == before
        assert not list(home.spool.iterdir())
    # One batch beyond may be there: written, but killed before it was acknowledged.
    batches = len(before) // SITES
    assert acknowledged <= batches <= acknowledged + 1
    met = [(row["batch"], row["site"]) for row in before]
    assert met == [(number, site) for number in range(batches) for site in range(SITES)]
    # Each batch is that of its own attempt, whole, and never its replay.
    assert all(row["affinity"] == row["attempt"] / 1000 for row in before)
    assert acknowledged > 30


def test_what_is_written_is_in_the_spool_at_once(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write_batches([BatchRecord("r1", 1, batch(n), 512 * n) for n in range(5)])
        assert len(list(home.spool.iterdir())) == 1
        assert len(stored(home)) == 5 * SITES
        with duckdb.connect(home.signatures, read_only=True) as raw:
            assert raw.execute("SELECT count(*) FROM batches").fetchall() == [(0,)]


def test_a_segment_left_after_its_merge_is_merged_once(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer.open(home) as writer:
        writer.write_batch("r1", 1, batch(0), 512)
        writer.write_run(run(status="done"))
        with monkeypatch.context() as patch:
            patch.setattr(spool, "_remove", _crash)
            with pytest.raises(KeyboardInterrupt):
                writer.merge()
        assert len(list(home.spool.iterdir())) == 2
        assert len(stored(home)) == SITES
        assert writer.merge() == 0
    assert not list(home.spool.iterdir())
    assert len(stored(home)) == SITES


def _crash(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_late_writer_of_an_earlier_attempt_replaces_nothing(home: Home) -> None:
    for merging in (True, False):
        with Writer.open(home) as writer:
            name = f"r{merging}"
            writer.write_batch(name, 2, batch(0, 0.2), 512)
            if merging:
                writer.merge()
            writer.write_batch(name, 1, batch(0, 0.1), 512)
            writer.write_batch(name, 2, batch(0, 0.3), 512)
    assert {row["affinity"] for row in stored(home)} == {0.2}


def test_one_writer_at_a_time(home: Home) -> None:
    with (
        Writer.open(home),
        pytest.raises(StoreError, match=f"process {os.getpid()}, since 20") as caught,
    ):
        Writer.open(home)
    assert "--home" in str(caught.value.hint)
    with Writer.open(home) as writer:
        pass
    assert not home.writer_note.exists()
    with pytest.raises(StoreError, match="closed"):
        writer.write_run(run())


def test_what_a_killed_writer_left_unfinished_is_swept_away(home: Home) -> None:
    leftover = home.spool / f"batch-1-1-1.parquet{UNFINISHED}"
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
            with pytest.raises(StoreError, match="could not be written") as caught:
                writer.write_batch("r1", 1, batch(0), 512)
        assert ("disk space" in str(caught.value.hint)) == (number == errno.ENOSPC)
        assert not list(home.spool.iterdir())
        writer.write_batch("r1", 1, batch(0), 512)
    assert len(stored(home)) == SITES


def test_a_broken_segment_is_named(home: Home) -> None:
    broken = home.spool / "batch-00000000000000000001-1-000000.parquet"
    broken.write_bytes(b"not parquet")
    with pytest.raises(StoreError, match=broken.name) as caught:
        query(home, "SELECT 1")
    assert "spool" in str(caught.value.hint)


def test_merging_falls_due_by_number_and_by_time(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(spool.time, "monotonic", lambda: clock[0])
    with Writer.open(home) as writer:
        clock[0] += 100
        assert writer.merge_if_due() == 0
        writer.merge()
        writer.write_batch("r1", 1, batch(0), 512)
        assert writer.merge_if_due() == 0
        clock[0] += spool.SECONDS_DUE
        assert writer.merge_if_due() == 1
        monkeypatch.setattr(spool, "SEGMENTS_DUE", 3)
        clock[0] += spool.SECONDS_DUE / 4
        for number in range(1, 4):
            assert writer.merge_if_due() == 0
            writer.write_batch("r1", 1, batch(number), 512)
        assert writer.merge_if_due() == 3


def test_a_long_spool_is_merged_in_parts(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "SEGMENTS_A_MERGE", 4)
    with Writer.open(home) as writer:
        for number in range(10):
            writer.write_batch("r1", 1, batch(number), 512)
        assert writer.merge() == 10
    assert len(stored(home)) == 10 * SITES


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
        writer.write_batch("r1", 1, one, 512)
        writer.write_run(run(status="done"))
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
        writer.write_batch("r1", 1, dataclasses.replace(batch(0), scores=(given,)), 512)
        (row,) = stored(home, "SELECT * FROM batch_scores")
    assert (row["cka"], row["r2_heldout"], row["cka_debiased"]) == (None, None, 0.25)
    assert row["notes"] == ["norm: overflow", "cka: not finite", "r2_heldout: not finite"]
    assert (row["affinity"], row["status"], row["reason"]) == (0.5, "ok", None)


def test_a_good_score_is_stored_as_it_is() -> None:
    assert storable(score()) == score()


def test_a_run_with_a_number_that_is_none_says_so(home: Home) -> None:
    with Writer.open(home) as writer:
        writer.write_run(run(status="done", measured_top1=math.nan, gflops=math.inf, seconds=2.0))
    record = run_row(home, "r1")
    assert (record.measured_top1, record.gflops, record.seconds) == (None, None, 2.0)
    assert record.error == "not finite: measured_top1, gflops"
