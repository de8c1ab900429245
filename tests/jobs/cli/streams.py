"""Streams that stand for a terminal."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """A stream that people type into or read."""

    def isatty(self) -> bool:
        return True
