"""A home that version 0.1.0 wrote at commit 1e4bcd2 opens, reads the same, and goes on.

It holds a finished run, a scan that was killed after four of fifteen batches, and what that version
read of both; ``finished`` is what it then measured to the end.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import rows, survey

PACKED = Path(__file__).with_name("home-1e4bcd2.tar.xz")

ORDERS = {
    "runs": ("runs", "run_id"),
    "batches": ("batches", "run_id, batch"),
    "scores": ("batch_scores WHERE site % 5 = 0", "run_id, batch, site"),
    "signatures": ("signatures", "run_id, site"),
}

#: The ridge that was the default then.
RIDGE = ("--ridge", "absolute")
HALF_DONE = ("-m", "small:digits_plain26", "-d", "digits", "--images-per-score", "128", *RIDGE)


@pytest.fixture
def old_home(tmp_path: Path) -> Path:
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "survey-home"


def expected(home: Path) -> dict[str, list[dict[str, Any]]]:
    content: dict[str, list[dict[str, Any]]] = json.loads((home / "expected.json").read_text())
    return content


def read(home: Path, name: str) -> list[dict[str, Any]]:
    """Return what the expectation has of a table, read now."""
    table, order = ORDERS[name]
    columns = ", ".join(expected(home)[name][0])
    return rows(f"SELECT {columns} FROM {table} ORDER BY {order}", home)


def test_it_reads_as_it_did(old_home: Path) -> None:
    for name in ORDERS:
        assert read(old_home, name) == expected(old_home)[name]
    # Metrics that it did not know have no values.
    (known,) = rows("SELECT count(cka) AS cka, count(stable_rank) AS new FROM signatures", old_home)
    assert known["cka"] > known["new"] == 0
    states = json.loads(survey("status", "--format", "json", home=old_home).stdout)
    assert {(row["state"], row["batches"]) for row in states} == {("interrupted", 4), ("done", 4)}


def test_what_it_measured_is_stale_and_kept_beside_what_is_measured_now(old_home: Path) -> None:
    again = ("-m", "small:digits_vgg7", "-d", "digits[:256]", "--images-per-score", "64", *RIDGE)
    planned = survey("plan", *again, home=old_home).stdout
    assert "measuring version changed" in planned
    survey("run", *again, "--runner", "local", home=old_home)
    assert_kept_beside(old_home, ("done", 4))


@pytest.mark.slow(seconds=20)
@pytest.mark.long
def test_a_scan_that_was_killed_is_measured_to_the_same_end(old_home: Path) -> None:
    survey("run", *HALF_DONE, "--micro-batch", "8", "--runner", "local", home=old_home)
    whole = assert_kept_beside(old_home, ("done", 15))
    signature = [row for row in read(old_home, "signatures") if row["run_id"] == whole]
    for now, then in zip(signature, expected(old_home)["finished"], strict=True):
        assert now["site_name"] == then["site_name"]
        assert now["affinity"] == pytest.approx(then["affinity"], abs=1e-6)
        assert now["r2_heldout"] == pytest.approx(then["r2_heldout"], abs=1e-5)


def assert_kept_beside(home: Path, new: tuple[str, int]) -> str:
    """Hold every old row against what was there before; return the id of the one new run."""
    before = expected(home)
    ids = {run["run_id"] for run in before["runs"]}
    after = {run["run_id"]: run for run in read(home, "runs")}
    assert [after[run["run_id"]] for run in before["runs"]] == before["runs"]
    for name in ("batches", "scores"):
        assert [row for row in read(home, name) if row["run_id"] in ids] == before[name]
    (added,) = after.keys() - ids
    assert (after[added]["status"], after[added]["batches"]) == new
    return str(added)
