"""The console script ``survey``, which an interruption ends without a traceback from its start."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line."""
    # Until a verb can say what an interruption leaves behind, the process just ends. One that was
    # started with interruptions ignored goes on ignoring them.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from jobs.cli.main import main as run

    run()
