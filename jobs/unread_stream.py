"""Standard error that cannot be written any more: its reader has gone, or its disk is full."""

from __future__ import annotations

import os
import sys

from rich.console import Console


def discard_standard_error() -> None:
    """Have everything that is written to standard error go nowhere from here on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())
    os.close(nowhere)


class ErrorConsole(Console):
    """A console on standard error, which goes on in silence once that cannot be written.

    What it shows is beside the work: that must not end with its reader, terminal or disk.
    """

    def __init__(self) -> None:
        # Whatever colours the environment asks for: what moves the cursor belongs in no file.
        terminal = sys.stderr.isatty()
        super().__init__(stderr=True, highlight=False, markup=False, force_terminal=terminal)

    def on_broken_pipe(self) -> None:
        """Go on in silence."""
        self.quiet = True
        discard_standard_error()

    def _check_buffer(self) -> None:
        # The library expects no other error than that of a pipe.
        try:
            super()._check_buffer()
        except OSError:
            self.on_broken_pipe()
