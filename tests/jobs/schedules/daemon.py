"""A process that looks for what is due again and again, at moments that its caller names.

``python -m tests.jobs.schedules.daemon HOME FIRST STEP COUNT KILL``: the clock begins at FIRST and
moves by STEP seconds, COUNT times; with KILL above 0 the process kills itself at that event of a
scan. Prints the due time and the end of each run.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path

from catalog.open_home import open_home
from jobs.runners.local import LocalRunner
from jobs.scan.reporter import Reporter
from jobs.schedules.tick import tick
from tests.jobs.jobs import ON_CPU


class KillsItself(Reporter):
    """Kills the process at an event, as no handler can prevent."""

    def __init__(self, at: int) -> None:
        self.left = at

    def event(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def main(home: str, first: str, step: str, count: str, kill: str) -> None:
    opened = open_home(Path(home), create=False)
    for number in range(int(count)):
        now = datetime.fromisoformat(first) + timedelta(seconds=float(step) * number)
        reporter = KillsItself(int(kill))
        for ran in tick(opened, lambda: LocalRunner(ON_CPU), reporter, now=lambda now=now: now):
            if ran.ended.left is None:
                due = ran.tick
                print(ran.schedule.name, due.due_at.isoformat(), due.state, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
