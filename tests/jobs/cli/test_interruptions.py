"""Ctrl-C at the prompt of ``survey sql``, at every moment between two instructions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from jobs.cli.sql import interruptions, prompt
from jobs.operations.sql_query import SqlQuery
from tests.style.repository import ROOT

FILES = (interruptions.__file__, prompt.__file__)


@dataclass
class Prompted:
    """A prompt at which one statement is typed."""

    phase: str = "before it is typed"
    #: The phase in which Ctrl-C came; None if it did not.
    came: str | None = None
    ended: bool = False

    def type(self, _: str) -> str:
        if self.phase != "before it is typed":
            raise EOFError
        self.phase = "typed"
        return "SELECT 1;"

    def ask(self, _: str, *, cut: bool = True) -> SqlQuery:
        assert cut
        return cast("SqlQuery", self)

    def end(self) -> None:
        self.ended = True

    def write(self, _: SqlQuery) -> None:
        assert self.ended == (self.came == "typed")
        self.phase = "answered"


def interrupting(prompted: Prompted, number: int) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace function that interrupts before one instruction of the prompt."""
    instructions = count()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in FILES:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        handler = signal.getsignal(signal.SIGINT)
        handled = handler is not signal.default_int_handler and callable(handler)
        if event == "opcode" and handled and next(instructions) == number:
            prompted.came = prompted.phase
            handler(signal.SIGINT, frame)
        return trace

    return trace


def test_an_interruption_ends_the_query_it_is_for_and_never_the_prompt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prompt, "_line_editing", nullcontext)
    before, phases = sys.gettrace(), set()
    for number in count():
        prompted = Prompted()
        monkeypatch.setattr("builtins.input", prompted.type)
        sys.settrace(interrupting(prompted, number))
        try:
            prompt.run_prompt(prompted.ask, prompted.write, tmp_path / "history")
        finally:
            sys.settrace(before)
        if prompted.came is None:
            break
        phases.add(prompted.came)
        # A line may be dropped whose last key came just before.
        assert prompted.phase == "answered" or prompted.came == "typed"
    assert phases == {"before it is typed", "typed", "answered"}
    assert number > 100


#: A prompt whose Ctrl-C ends no system call, as one just before the wait for a key does not.
UNSEEN = """
import _thread, readline, threading
from jobs.cli.sql.interruptions import Interruptions
interruptions = Interruptions()
with interruptions.handled():
    threading.Timer(0.5, _thread.interrupt_main).start()
    try:
        interruptions.line("> ")
    except KeyboardInterrupt:
        print("dropped")
"""


def test_an_interruption_that_ends_no_wait_needs_no_further_key() -> None:
    terminal, inner = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", UNSEEN], stdin=inner, stdout=inner, stderr=inner, cwd=ROOT
    ) as process:
        try:
            assert process.wait(60) == 0
            assert b"dropped" in os.read(terminal, 4096)
        finally:
            process.kill()
            os.close(terminal)
            os.close(inner)
