"""Signals that end a scan wherever they arrive, and one that must not: a terminal's end."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref

import duckdb
import pytest
import typer

from jobs.cli.verb import INTERRUPTED, verb
from jobs.scan.interruption import dropped_interruptions_raised, termination_interrupts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
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


def test_an_interruption_of_a_statement_is_an_interruption():
    @verb
    def endless() -> None:
        """Ask what takes hours."""
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        many = "range(1000000000)"
        with duckdb.connect() as store:
            store.execute(f"SELECT count(*) FROM {many} a, {many} b WHERE a.range < 0").fetchall()

    # A verb that scans nothing: what DuckDB raises gets as far as the exit codes.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(typer.Exit) as caught:
            endless()
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value.exit_code == INTERRUPTED


def test_an_interruption_that_a_callback_drops_comes_again(capsys: pytest.CaptureFixture[str]):
    class Module:
        """What a weak reference may refer to."""

    @verb
    def importing() -> None:
        """Take the place of an import, in whose callbacks Python drops what is raised."""
        module = Module()
        reference = weakref.ref(module, lambda _: os.kill(os.getpid(), signal.SIGINT))
        del module
        assert reference() is None
        time.sleep(30)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    try:
        with pytest.raises(typer.Exit) as caught:
            importing()
    finally:
        signal.signal(signal.SIGINT, before)
    assert caught.value.exit_code == INTERRUPTED
    assert time.monotonic() - began < 20
    assert "ignored" not in capsys.readouterr().err


def test_a_scan_under_nohup_is_ended_by_a_termination_that_a_callback_drops():
    class Module:
        """What a weak reference may refer to."""

    def scan() -> None:
        with dropped_interruptions_raised(), termination_interrupts():
            module = Module()
            kept = weakref.ref(module, lambda _: os.kill(os.getpid(), signal.SIGTERM))
            del module
            assert kept() is None
            time.sleep(10)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # As of a script's job in the background.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(KeyboardInterrupt):
            scan()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_any_other_error_of_that_class_is_not():
    @verb
    def broken() -> None:
        """Fail."""
        raise RuntimeError("another")

    with pytest.raises(RuntimeError, match="another"):
        broken()
