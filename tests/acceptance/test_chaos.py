"""Random kills of workers and drivers: in the end the rows are those of a survey left in peace."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance.command import start, survey_process
from tests.acceptance.test_clusters import SURVEY, alone, cluster, started
from tests.acceptance.test_faults import assert_same

__all__ = ["alone", "cluster"]

KILLS = 30


def is_worker(pid: int) -> bool:
    """Tell whether a process is one of Ray's workers still: its number may be another's by now."""
    try:
        return b"ray::Worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(1800)
def test_thirty_kills_leave_no_trace(tmp_path, alone, cluster):
    """The writer lives in the driver's process: who kills one kills both."""
    home, chance = tmp_path / "home", random.Random(7)
    on_it = (*SURVEY, "--address", cluster.address, "--allow-cpu-for-gpu", "--losses", "100")
    killed: Counter[str] = Counter()
    scan = start(*on_it, home=home)
    while killed.total() < KILLS:
        time.sleep(chance.uniform(0.2, 1.5))
        assert scan.poll() is None, scan.communicate()
        if killed["driver"] < KILLS // 4 and chance.random() < 0.2:
            os.kill(scan.pid, signal.SIGKILL)
            scan.communicate()
            killed["driver"] += 1
            scan = start(*on_it, home=home)
        elif (home / "registry.sqlite").exists():
            alive = [pid for pid in started(home) if is_worker(pid)]
            if alive:
                os.kill(chance.choice(alive), signal.SIGKILL)
                killed["worker"] += 1
    _, err = scan.communicate(timeout=1200)
    assert scan.returncode == 0, err
    assert killed["driver"] >= 3
    assert_same(home, alone)
    ended = survey_process(*on_it, home=home)
    assert "0 of 24 jobs to measure" in ended.stderr
