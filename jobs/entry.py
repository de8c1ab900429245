"""The console script ``survey``: it ends at once, and without a traceback from its start."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Run the command line."""
    codes: list[int] = []
    # What is registered first is called last.
    atexit.register(_end_at_once, codes)
    # Until a verb can say what an interruption leaves behind, the process just ends. One that was
    # started with interruptions ignored goes on ignoring them.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from jobs.cli.main import main as run

    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, int):
            codes.append(end.code)
        raise


def _end_at_once(codes: list[int]) -> None:
    """End the process without freeing every object, which takes a third of torch's import."""
    # Where there is no exit code, or a stream cannot be written, Python ends it and says why.
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        for code in codes:
            os._exit(code)


if __name__ == "__main__":
    main()
