"""The driver in a process of its own, which is started again when it dies."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

from jobs.service.driver import DriverSettings

#: Seconds before a driver that died is started again, doubled each time; and the longest.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

#: Seconds that a driver which is told to stop may take.
STOP_SECONDS = 60.0


class DriverProcess:
    """Keeps a driver running, as a context manager.

    Parameters
    ----------
    target : callable
        Drives a home; a function of a module, for a process that imports it anew.
    settings : DriverSettings
        What it is given.
    """

    def __init__(self, target: Callable[[DriverSettings], None], settings: DriverSettings) -> None:
        self._target, self._settings = target, settings
        self._stopping, self._over = multiprocessing.Pipe()
        self._thread = threading.Thread(target=self._keep, name="driver's keeper", daemon=True)

    def __enter__(self) -> DriverProcess:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.close()
        self._thread.join()

    def _keep(self) -> None:
        """Run drivers, one after another, until this is over."""
        pause = FIRST_PAUSE
        while True:
            # Anew, not forked: this process has threads.
            process = multiprocessing.get_context("spawn").Process(
                target=self._target, args=(self._settings,), name="driver"
            )
            began = time.monotonic()
            try:
                process.start()
            except OSError as error:
                # Such as without memory, for which the driver before may have ended, too.
                end = f"cannot start: {error.strerror or error}"
            else:
                if self._over in wait([process.sentinel, self._over]):
                    _end(process)
                    return
                process.join()
                end = f"ended with exit code {process.exitcode}"
            if time.monotonic() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            # Whether or not anybody can be informed, the next driver is started.
            with suppress(Exception):
                self._settings.say(f"the driver {end}; it is started again in {pause:g} s")
            if wait([self._over], pause):
                return
            pause = min(LONGEST_PAUSE, 2 * pause)


def _end(process: BaseProcess) -> None:
    """End a driver: as it is told to, or else killed."""
    process.terminate()
    process.join(STOP_SECONDS)
    process.kill()
    process.join()


def stop_with_parent() -> None:
    """End this process once the one that started it is gone: as SIGTERM does, or else killed."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, name="parent's end", daemon=True).start()
