"""The interruption of a scan by a signal, also one that is swallowed where it arrives.

Python raises it wherever the signal happens to come. A callback drops what is raised in it, and
DuckDB puts an error of its own in the place of what ended its statement. So it is remembered, too.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

#: The signals that came. A list: a handler may take no lock.
_CAME: list[int] = []


@contextlib.contextmanager
def termination_interrupts() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt for the length of a scan.

    One that is ignored stays ignored: under nohup a scan outlives its terminal, and as a script's
    background job it outlives Ctrl-C (SIGINT, which Python leaves ignored then).
    """

    def interrupt(number: int, _frame: FrameType | None) -> None:
        _CAME.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {
        number: signal.signal(number, interrupt)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        with interruptions_kept():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _CAME.clear()


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if a signal came and what it raised was dropped."""
    if _CAME:
        raise KeyboardInterrupt


@contextlib.contextmanager
def interruptions_kept() -> Iterator[None]:
    """Raise KeyboardInterrupt in the place of an error that comes after a signal."""
    try:
        yield
    except Exception as error:
        if _CAME:
            raise KeyboardInterrupt from error
        raise
