"""The statement of ``survey sql``: given on the command line, or read from a file or a pipe."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

import typer

from catalog.bounds import Readable, TooLargeError, read_at_most
from survey.errors import SettingsError
from survey.text import format_duration

#: Bytes of the longest statement that is read; a pipe or a device may have no end.
_MOST_BYTES = 2**24


def statement_of(query: str | None, file: Path | None, seconds: float) -> str:
    """Return the statement given, or that of a file or of standard input.

    Parameters
    ----------
    query : str or None
        The statement; - is standard input, as is None without a file.
    file : Path or None
        The file that holds it, which may be a pipe; - is standard input.
    seconds : float
        How long the whole of a file may take to come.

    Raises
    ------
    SettingsError
        If there are two, or it cannot be read, is too long or does not come.
    """
    if query is not None and file is not None:
        raise SettingsError("there are two statements: QUERY and --file", hint="give one of them")
    if file is None and query not in (None, "-"):
        return query
    if file is None or str(file) == "-":
        return _text(typer.get_binary_stream("stdin"), "standard input")
    try:
        # Without waiting: opening a pipe would, until somebody writes to it.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _text(_Arriving(descriptor, seconds), f"--file {file}")
        finally:
            os.close(descriptor)
    except TimeoutError:
        raise SettingsError(
            f"--file {file} did not come to its end in {format_duration(seconds)}",
            hint="check what writes it, or allow it more with --timeout",
        ) from None
    except OSError as error:
        raise SettingsError(f"--file {file} cannot be read: {error.strerror}") from None


def _text(stream: Readable, what: str) -> str:
    try:
        return read_at_most(stream, _MOST_BYTES, what).decode()
    except UnicodeDecodeError:
        raise SettingsError(f"{what} is no text in UTF-8") from None
    except TooLargeError as error:
        raise SettingsError(str(error), hint="give one statement") from None


class _Arriving:
    """What arrives at a descriptor, in bounded time."""

    def __init__(self, descriptor: int, seconds: float) -> None:
        self._descriptor, self._end = descriptor, time.monotonic() + seconds
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, once there are any; none at the end."""
        left = max(0.0, self._end - time.monotonic())
        if not self._poll.poll(left * 1000):
            raise TimeoutError
        return os.read(self._descriptor, size)
