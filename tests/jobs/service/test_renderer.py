"""Processes that compute answers: they end with their service."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SERVICE = """
import os, time
from jobs.service.renderer import Renderer

if __name__ == "__main__":
    renderer = Renderer()
    print(*(renderer.compute(os.getpid, quick=quick) for quick in (True, False)), flush=True)
    time.sleep(600)
"""


@pytest.mark.slow(seconds=5)
def test_no_process_outlives_a_service_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(SERVICE)
    service = subprocess.Popen(
        [sys.executable, str(tmp_path / "service.py")], stdout=subprocess.PIPE, text=True
    )
    assert service.stdout is not None
    processes = [int(pid) for pid in service.stdout.readline().split()]
    assert len(set(processes)) == 2
    service.kill()
    service.wait()
    service.stdout.close()
    end = time.monotonic() + 30
    left = processes
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left = [pid for pid in processes if Path(f"/proc/{pid}").exists()]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []
