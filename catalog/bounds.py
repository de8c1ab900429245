"""Bounds on what comes out of a file that a stranger may have made.

What a file declares about itself is no bound: a directory lies, a compressed stream has no end. The
readers here count what really comes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import tomllib
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

#: How many times its own size the content of a file may have; weights and pictures hardly shrink.
MOST_EXPANSION = 10
#: What any file may give beyond that, in bytes: small files of headers shrink more.
SPARE_BYTES = 2**24
#: Bytes asked for at a time: some decompressors make as much as they are asked for at once.
_PIECE_BYTES = 2**20
#: Parts of the longest key of TOML, such as ``a.b.c``, that is read.
MOST_PARTS = 50
_PART = r"""(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MOST_PARTS}}}")


class TooLargeError(ValueError):
    """More comes out of a file than may."""


class Readable(Protocol):
    """What gives bytes, at most as many as it is asked for."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; none at the end."""


def allowance(packed_bytes: int) -> int:
    """Return how many bytes may come out of a file of so many bytes."""
    return MOST_EXPANSION * packed_bytes + SPARE_BYTES


def read_at_most(stream: Readable, limit: int, what: str) -> bytes:
    """Return a stream's content to its end.

    Parameters
    ----------
    stream : Readable
        The stream; nothing is read far beyond the limit.
    limit : int
        Most bytes that it may have.
    what : str
        What it is called in the error.

    Raises
    ------
    TooLargeError
        If there are more.
    """
    bounded, pieces = AtMost(stream, limit, what), []
    while piece := bounded.read(_PIECE_BYTES):
        pieces.append(piece)
    return b"".join(pieces)


def pass_over(stream: Readable, limit: int, what: str) -> None:
    """Read a stream to its end, and so have it check itself; see ``read_at_most``."""
    bounded = AtMost(stream, limit, what)
    while bounded.read(_PIECE_BYTES):
        pass


class AtMost:
    """A stream that gives at most so many bytes in all.

    Parameters
    ----------
    stream : Readable
        Where they come from.
    limit : int
        Most bytes that it may have.
    what : str
        What it is called in the error.
    """

    def __init__(self, stream: Readable, limit: int, what: str) -> None:
        self._stream, self._left, self.limit, self._what = stream, limit, limit, what

    def read(self, size: int, /) -> bytes:
        """Return the next bytes.

        Raises
        ------
        TooLargeError
            If there are more than the limit in all.
        """
        # One byte more than is left shows a longer stream.
        content = self._stream.read(min(size, self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise TooLargeError(f"{self._what} holds more than {self.limit:,} bytes")
        return content


def open_file(path: Path) -> BufferedReader:
    """Open an ordinary file to read it; nothing else, which might never end or never begin.

    Raises
    ------
    OSError
        If it cannot be opened, or is a pipe, a device, a socket or a folder.
    """
    # Without waiting: opening a pipe would, until somebody writes to it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        kind = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, f"it is {kind_of(kind)}, not a file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_json(path: Path, most_bytes: int) -> Any:
    """Return what a JSON file holds; see ``parse_json``.

    Parameters
    ----------
    path : Path
        The file.
    most_bytes : int
        Most bytes that it may have.

    Raises
    ------
    OSError
        As ``open_file``.
    ValueError
        If it has more bytes, or holds something else.
    """
    with open_file(path) as file:
        return parse_json(read_at_most(file, most_bytes, str(path)))


def parse_json(text: str | bytes) -> Any:
    """Return what JSON holds.

    Raises
    ------
    ValueError
        If it is none, or its values are nested deeper than Python follows.
    """
    try:
        return json.loads(text)
    except RecursionError as problem:
        raise ValueError("its values are nested too deep") from problem


def parse_toml(text: str) -> dict[str, Any]:
    """Return what TOML holds.

    Raises
    ------
    ValueError
        If it is none, its lists and tables are nested deeper than Python follows, or a key has more
        than ``MOST_PARTS`` parts.
    """
    # tomllib takes memory that grows with the square of a key's parts: 200 kB took all there was.
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as problem:
        raise ValueError("its lists and tables are nested too deep") from problem


def kind_of(mode: int) -> str:
    """Return what a file is that is no ordinary one, by its mode."""
    kinds = {
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "of another kind")
