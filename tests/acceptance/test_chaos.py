"""Random kills of workers and drivers: in the end the rows are those of a survey left in peace."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from tests.acceptance.command import start, survey_process
from tests.acceptance.test_clusters import SURVEY, alone, machine, started
from tests.acceptance.test_faults import assert_same

__all__ = ["alone", "machine"]

#: How often each is killed. A driver's end costs more time: its workers have to start again.
KILLS = {"driver": 4, "worker": 26}


def is_worker(pid: int) -> bool:
    """Tell whether a process is one of Ray's workers still: its number may be another's by now."""
    try:
        return b"ray::Worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def workers_of(registry: Registry) -> list[int]:
    """Return the processes that are at work on a survey now."""
    return [pid for pid in started(registry) if is_worker(pid)]


def begun(home: Path, scan: subprocess.Popen[str]) -> Registry:
    """Wait for a survey's home, whose store comes after its registry."""
    while not (home / "signatures.duckdb").exists():
        assert scan.poll() is None, scan.communicate()
        time.sleep(0.2)
    return Registry(open_home(home, create=False))


@pytest.mark.slow(seconds=350)
@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(1800)
def test_thirty_kills_leave_no_trace(tmp_path, alone, machine):
    """The writer lives in the driver's process: who kills one kills both."""
    home, chance = tmp_path / "home", random.Random(7)
    on_it = (*SURVEY, "--address", machine.address, "--allow-cpu-for-gpu", "--losses", "100")
    scan = start(*on_it, home=home)
    registry = begun(home, scan)
    for victim in chance.sample(list(KILLS), counts=KILLS.values(), k=sum(KILLS.values())):
        time.sleep(chance.uniform(0.0, 0.8))
        if victim == "worker":
            while not (alive := workers_of(registry)):
                assert scan.poll() is None, scan.communicate()
                time.sleep(0.2)
            os.kill(chance.choice(alive), signal.SIGKILL)
        else:
            assert scan.poll() is None, scan.communicate()
            os.kill(scan.pid, signal.SIGKILL)
            scan.communicate()
            scan = start(*on_it, home=home)
    registry.close()
    _, err = scan.communicate(timeout=1200)
    assert scan.returncode == 0, err
    assert_same(home, alone)
    ended = survey_process(*on_it, home=home)
    assert "0 of 24 jobs to measure" in ended.stderr
