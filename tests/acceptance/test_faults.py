"""Kills in the middle: what was finished is kept, and nothing is measured twice or missing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from tests.acceptance.command import (
    PATIENCE_SECONDS,
    ROOT,
    counted,
    measured,
    once,
    rows,
    start,
    survey,
    survey_process,
    until,
)

#: Each scan lasts the better part of a minute.
pytestmark = pytest.mark.long

#: Networks that wait: no scan is over before its test has seen where it is.
ZOO = (
    "run",
    *(f"-mpython:tests.acceptance.patient:{name}" for name in ("first", "second", "third")),
    *("-m", "python:tests.acceptance.patient:fourth"),
    *("-d", "digits:heldout", "--images-per-score", "32", "--trust"),
)

#: Batches of one of its runs, the last of them partial.
ZOO_BATCHES = 12

#: A scan that lasts more than a minute, in many small batches.
LONG = (
    *("run", "-m", "python:tests.acceptance.patient:slowest"),
    *("-m", "python:tests.acceptance.patient:slower", "--images-per-score", "32", "--trust"),
)

#: Asks again and again through the command line, so that the answers span most of a minute.
ASKING = """
import sys, time
from pathlib import Path
from tests.acceptance.command import survey

sys.stdin.readline()
for _ in range(50):
    asked = ("sql", "SELECT count(*) AS n FROM batch_scores", "--format", "csv")
    print(survey(*asked, home=Path(sys.argv[1])).stdout.split()[-1], flush=True)
    time.sleep(0.9)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The zoo measured by a single process without a fault."""
    return once(
        *(tmp_path_factory, worker_id, "undisturbed"),
        lambda home: survey(*ZOO, "--runner", "local", home=home),
    )


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A file that the second network of the zoo waits for to be removed, after some batches."""
    file = tmp_path / "gate"
    file.touch()
    return file


def in_second_model(states):
    """True when one run is done and a second has durable batches."""
    going = [state for state in states.values() if state.status == "running"]
    done = [state for state in states.values() if state.status == "done"]
    return len(done) == 1 and any(state.batches_done >= 2 for state in going)


def assert_same(home: Path, undisturbed: Path) -> None:
    ours, theirs = measured(home), measured(undisturbed)
    keys = [(row["run_id"], row["batch"], row["site"]) for row in ours]
    assert len(set(keys)) == len(keys)
    assert keys == [(row["run_id"], row["batch"], row["site"]) for row in theirs]
    for mine, its in zip(ours, theirs, strict=True):
        assert mine == {
            name: pytest.approx(value, abs=1e-9) if isinstance(value, float) else value
            for name, value in its.items()
        }
    assert counted(home) == counted(undisturbed)


@pytest.mark.slow(seconds=30)
@pytest.mark.ray
def test_a_killed_scan_goes_on_where_it_stopped(tmp_path, gate, undisturbed):
    home = tmp_path / "home"
    scan = start(*ZOO, home=home, PATIENT_GATE=str(gate))
    until(in_second_model, home, scan)
    os.kill(scan.pid, signal.SIGKILL)
    scan.communicate()
    gate.unlink()
    before = {
        (row["run_id"], row["batch"]): row["recorded_at"]
        for row in rows("SELECT run_id, batch, recorded_at FROM batches", home)
    }
    assert len(before) >= ZOO_BATCHES + 2
    assert "interrupted" in survey("status", home=home).stdout
    ended = survey_process(*ZOO, home=home)
    assert "3 of 4 jobs to measure, 1 already measured and skipped" in ended.stderr
    after = {
        (row["run_id"], row["batch"]): row["recorded_at"]
        for row in rows("SELECT run_id, batch, recorded_at FROM batches", home)
    }
    assert {key: after[key] for key in before} == before
    assert_same(home, undisturbed)


@pytest.mark.slow(seconds=30)
@pytest.mark.ray
def test_a_killed_worker_is_replaced(tmp_path, gate, undisturbed):
    home = tmp_path / "home"
    scan = start(*ZOO, home=home, PATIENT_GATE=str(gate))
    until(in_second_model, home, scan)
    registry = Registry(open_home(home, create=False))
    (running,) = [job for job in registry.jobs() if job.state == "running"]
    os.kill(registry.attempts.of(running.key)[-1].pid, signal.SIGKILL)
    gate.unlink()
    _, err = scan.communicate(timeout=PATIENCE_SECONDS)
    assert scan.returncode == 0, err
    assert "retry" in err
    outcomes = [attempt.outcome for attempt in registry.attempts.of(running.key)]
    registry.close()
    assert outcomes == ["lost", "done"]
    assert_same(home, undisturbed)


@pytest.mark.slow(seconds=60)
@pytest.mark.ray
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_scan_says_so_and_goes_on(number, tmp_path, gate, undisturbed):
    home = tmp_path / "home"
    scan = start(*ZOO, home=home, PATIENT_GATE=str(gate))
    until(in_second_model, home, scan)
    os.kill(scan.pid, number)
    _, err = scan.communicate(timeout=PATIENCE_SECONDS)
    assert scan.returncode == 130
    assert "interrupted" in err
    assert "Traceback" not in err
    assert "SIGTERM received" not in err
    survey(*ZOO, "--runner", "local", home=home)
    assert_same(home, undisturbed)


@pytest.mark.slow(seconds=75)
@pytest.mark.ray
def test_readers_never_disturb_a_scan(tmp_path):
    home = tmp_path / "home"
    asking = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(home)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        scan = start(*LONG, home=home)
        until(lambda states: states, home, scan)
        holder = connected(home / "signatures.duckdb")
        began = time.monotonic()
        printed, problems = asking.communicate("now\n")
    finally:
        asking.kill()
        asking.communicate()
    assert asking.returncode == 0, problems
    answers = [int(line) for line in printed.split()]
    assert len(answers) == 50
    assert answers == sorted(answers)
    assert answers[-1] > answers[0]
    time.sleep(max(0.0, 60 - (time.monotonic() - began)))
    holder.execute("SELECT count(*) FROM runs").fetchall()
    holder.close()
    _, err = scan.communicate(timeout=PATIENCE_SECONDS)
    assert scan.returncode == 0, err
    records = rows(
        """SELECT run_id, count(*) AS n, count(DISTINCT (batch, site)) AS keys
           FROM batch_scores JOIN runs USING (run_id) WHERE runs.status = 'done' GROUP BY 1""",
        home,
    )
    assert [(row["n"], row["keys"]) for row in records] == [(56 * 20, 56 * 20)] * 2
    # A fast machine ends the scan while the store is still held: the next one takes the rest in.
    again = survey(*LONG, home=home)
    assert "2 already measured and skipped" in again.stderr
    assert not list((home / "spool").iterdir())


def connected(path: Path) -> duckdb.DuckDBPyConnection:
    """Open the store read-only as any program may, trying again while the writer merges."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return duckdb.connect(str(path), read_only=True)
        except duckdb.IOException:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.slow(seconds=15)
@pytest.mark.ray
def test_ray_and_this_process_measure_the_same(tmp_path, undisturbed):
    home = tmp_path / "home"
    survey_process(*ZOO, home=home)
    assert_same(home, undisturbed)


@pytest.mark.slow(seconds=15)
def test_two_scans_do_not_share_a_home(tmp_path):
    home = tmp_path / "home"
    scan = start(*LONG, "--runner", "local", home=home)
    try:
        until(lambda states: states, home, scan)
        ended = survey_process(*LONG, "--runner", "local", home=home, code=3)
        assert "another scan is writing" in ended.stderr
        assert "hint:" in ended.stderr
        jobs = json.loads(survey("status", "--format", "json", home=home).stdout)
        assert "running" in {job["state"] for job in jobs}
    finally:
        scan.terminate()
        scan.communicate(timeout=PATIENCE_SECONDS)
    assert scan.returncode == 130


#: Networks that end or stop their process, the first time or always.
NASTY = """
import ctypes, os, pathlib, time
import torch
from torch import nn

class Nasty(nn.Module):
    def __init__(self, act, once):
        super().__init__()
        self.inner = nn.Sequential(nn.Flatten(), nn.Linear(192, 8), nn.ReLU(), nn.Linear(8, 10))
        self.act, self.once = act, once

    def forward(self, x):
        mark = pathlib.Path(__file__).with_suffix(f".{self.act}")
        if not self.once or not mark.exists():
            mark.touch()
            if self.act == "crash":
                ctypes.string_at(0)
            if self.act == "hang":
                time.sleep(3600)
        y = self.inner(x)
        return y * float("nan") if self.act == "nan" else y

def made(act, once):
    torch.manual_seed(0)
    return Nasty(act, once)

def crashes(): return made("crash", False)
def hangs(): return made("hang", True)
def nan(): return made("nan", False)
def good(): return made("nothing", False)

for each in (crashes, hangs, nan, good):
    each.survey = {"size": 8, "classes": 10}
"""


@pytest.mark.slow(seconds=50)
@pytest.mark.ray
def test_networks_that_crash_hang_or_give_nan_do_not_end_a_scan(tmp_path):
    home = tmp_path / "home"
    (tmp_path / "nasty.py").write_text(NASTY)
    names = ("crashes", "hangs", "nan", "good")
    models = [argument for name in names for argument in ("-m", f"python:nasty:{name}")]
    scan = survey_process(
        *("run", *models, "--images-per-score", "32", "--stall", "12", "--trust"),
        home=home,
        code=1,
        cwd=tmp_path,
    )
    states = {
        row["architecture"].split(":")[-1]: row
        for row in json.loads(survey("status", "--format", "json", home=home).stdout)
    }
    assert {name: row["state"] for name, row in states.items()} == {
        "crashes": "parked",
        "hangs": "done",
        "nan": "done",
        "good": "done",
    }
    assert states["hangs"]["attempts"] == 2
    assert "the worker hung" in scan.stderr
    assert "parked" in states["crashes"]["error"]
    log = survey("log", states["crashes"]["run_id"], home=home).stdout
    assert log.count("lost: the worker died") + log.count("failed at worker") == 3
    assert rows("SELECT DISTINCT measured_top1 FROM runs WHERE architecture LIKE '%nan'", home) == [
        {"measured_top1": 0.0}
    ]
    again = survey_process(
        *("run", *models, "--images-per-score", "32"), home=home, code=1, cwd=tmp_path
    )
    assert "1 parked or cancelled" in again.stderr
