"""A child process, which ends once the process that started it is gone."""

from __future__ import annotations

import multiprocessing
import os
from threading import Thread


def end_with_parent() -> None:
    """End this process once the one that started it is gone, even if that was killed."""
    Thread(target=_wait, name="parent's end", daemon=True).start()


def _wait() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(0)
