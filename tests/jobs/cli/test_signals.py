"""Signals that end a scan, and one that must not: a terminal's end under nohup."""

from __future__ import annotations

import os
import signal

import pytest

from jobs.cli.signals import termination_interrupts


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_processes_interrupts_a_scan(number):
    # Not what the tests were started with: under nohup one of them is ignored.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), termination_interrupts():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_under_nohup_a_scan_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with termination_interrupts():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
