"""The interruption of a verb or a scan by a signal, also one that is dropped where it arrives.

Python raises it wherever the signal happens to come. A callback drops what is raised in it, and
DuckDB puts an error of its own in the place of what ended its statement. So an interruption that
was dropped is raised again, and in a scan it is remembered, too.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

#: The signals that came. A list: a handler may take no lock.
_CAME: list[int] = []

#: After this long a dropped interruption is raised again: within its callback it would be dropped.
_CALLBACK_SECONDS = 0.02


@contextlib.contextmanager
def dropped_interruptions_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt again where it was dropped, as in the callback of a weak reference.

    Python reports what it drops to ``sys.unraisablehook``; importing has such callbacks.
    """
    report, timers = sys.unraisablehook, list[threading.Timer]()

    def raise_again(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            report(dropped)
            return
        # A signal of its own: it ends a wait, too.
        again = (threading.main_thread().ident, _CAME[-1] if _CAME else signal.SIGINT)
        timers.append(threading.Timer(_CALLBACK_SECONDS, signal.pthread_kill, again))
        timers[-1].start()

    sys.unraisablehook = raise_again
    try:
        yield
    finally:
        sys.unraisablehook = report
        for timer in timers:
            timer.cancel()


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
