"""What a command says beside its table: lines that are safe on any terminal."""

from __future__ import annotations

import logging
import os
import sys
from io import TextIOWrapper
from pathlib import Path

import typer

from survey.text import printable, printable_lines, shortened

#: Characters of the longest line of an error: a value in it may be anything.
_LONGEST_LINE = 2_000


def say(*lines: str, err: bool = True) -> None:
    """Write lines to standard error, or to standard output.

    Parameters
    ----------
    lines : str
        One line each: a line break in a name is shown and not made.
    err : bool
        Whether to write to standard error.
    """
    for line in lines:
        _echo(printable(line), err=err)


def _echo(line: str, *, err: bool) -> None:
    try:
        typer.echo(line, err=err)
    except OSError:
        if not err:
            raise
        from jobs.unread_stream import discard_standard_error

        discard_standard_error()


def complain(message: str, hint: str | None, *, lines: bool = False) -> None:
    """Write an error and its hint to standard error, each on a line of its own.

    Parameters
    ----------
    message : str
        What happened.
    hint : str or None
        What to do next.
    lines : bool
        Whether the message has lines of its own.
    """
    parts = message.split("\n") if lines else [message]
    text = "error: " + "\n".join(shortened(part, _LONGEST_LINE) for part in parts)
    _echo(typer.style(text, fg=typer.colors.RED) if _has_colours() else text, err=True)
    if hint:
        say(shortened(f"hint: {hint}", _LONGEST_LINE))


def _has_colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in ("dumb", "unknown")


class _SafeFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable_lines(super().format(record))


def make_streams_safe() -> None:
    """Let no name or closed stream end the program.

    A name ends it by what a terminal cannot show, or by what a log writes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            file = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the end
            setattr(sys, name, file)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_SafeFormatter())
