"""An interruption while the command line starts ends it without a traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

#: Runs the command line, and says when an interruption is the business of the entry.
ENTRY = """
import signal, sys
from jobs.entry import main

change = signal.signal

def changed(*arguments):
    signal.signal = change
    change(*arguments)
    print("the interpreter is up", flush=True)

signal.signal, sys.argv = changed, ["survey", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.1, 0.2, 0.3, 0.5])
def test_an_early_interruption_prints_no_traceback(delay: float, tmp_path: Path) -> None:
    # A plan of seconds: it takes longer than the latest interruption.
    names = ("--model", "timm:*", "--home", str(tmp_path / "home"))
    with subprocess.Popen(
        [sys.executable, "-c", ENTRY, "plan", *names],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, problems = process.communicate(timeout=60)
    assert process.returncode in (-signal.SIGINT, 130)
    assert "Traceback" not in problems


#: Ends a command line that has printed much, registered an end and made what takes long to free.
ENDING = """
import atexit, sys
from jobs import entry
import jobs.cli.main

class Freed:
    def __del__(self): print("freed")

def run():
    global kept
    kept = Freed()
    atexit.register(print, "closed")
    print("x" * 100_000)
    sys.exit(int(sys.argv[1]))

jobs.cli.main.main = run
entry.main()
"""


@pytest.mark.parametrize("code", [0, 130])
def test_the_end_keeps_the_code_and_the_output_and_frees_nothing(code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert done.stdout.split() == ["x" * 100_000, "closed"]
    assert done.stderr == ""
