"""The driver in a process of its own, which outlives neither its service nor its patience."""

from __future__ import annotations

import errno
import os
import queue
import signal
import subprocess
import sys
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from catalog.home import Home
from jobs.runners.local import LocalRunner
from jobs.service import driver_process
from jobs.service.driver import DriverSettings, drive
from tests.style.repository import ROOT
from tests.waiting import PATIENCE_SECONDS

#: How long a driver that was told to stop is waited for.
PATIENCE = 2.0

#: A process whose child is stopped with it, and goes on although it is told to stop.
STUBBORN = f"""
import multiprocessing, os, signal, time
from jobs.service import driver_process

driver_process.STOP_SECONDS = {PATIENCE}

def go_on():
    signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
    driver_process.stop_with_parent()
    print(os.getpid(), flush=True)
    while True:
        time.sleep(0.01)

multiprocessing.get_context("fork").Process(target=go_on).start()
"""


@pytest.mark.slow(seconds=2)
def test_a_driver_that_does_not_stop_with_its_service_is_killed():
    service = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with service:
        assert service.stdout is not None
        driver = int(service.stdout.readline())
        try:
            killed = time.monotonic()
            service.kill()
            # The driver holds the other end, so that this ends with it.
            printed, _ = service.communicate(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            os.kill(driver, signal.SIGKILL)
            raise
    assert printed == "told\n"
    assert time.monotonic() - killed >= PATIENCE


def test_a_driver_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    def put_and_fail(line: str) -> None:
        lines.put(line)
        raise OSError(errno.EIO, "Input/output error")

    lines = queue.Queue[str]()
    monkeypatch.setattr(driver_process, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(SpawnProcess, "start", refuse)
    settings = DriverSettings(Home(tmp_path), LocalRunner, put_and_fail)
    with driver_process.DriverProcess(drive, settings):
        shown = [lines.get(timeout=PATIENCE_SECONDS) for _ in range(3)]
    assert all("temporarily unavailable" in line for line in shown)
