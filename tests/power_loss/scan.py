"""A small survey whose system calls are recorded: ``python -m tests.power_loss.scan HOME``.

Every event that is reported, and so durable, is announced by a write to standard output, which
stands in the record between the calls before and after it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from unittest import mock

from catalog.open_home import open_home
from catalog.store.records import BatchRecord
from jobs.planning.definition import parse_definition
from jobs.planning.job import Job
from jobs.run import run_survey
from jobs.runners.events import Event, Finished
from jobs.runners.local import LocalRunner
from jobs.runners.options import RunnerOptions
from jobs.scan.reporter import Reporter

SURVEY = {
    "models": [{"name": name} for name in ("small:digits_vgg7", "small:digits_plain14")],
    "datasets": [{"name": "digits", "limit": 384}],
}
SETTINGS = {"images_per_score": 32}

#: Merges are so frequent that a small survey has several, of some segments each.
MERGE_SECONDS = 0.15


class Announcing(Reporter):
    """Announces what is durable, a line of JSON each."""

    def event(self, job: Job, event: Event) -> None:
        if isinstance(event, BatchRecord):
            announce(run=job.run_id, batch=event.batch.batch)
        elif isinstance(event, Finished):
            announce(run=job.run_id, done=True)


def announce(**what: object) -> None:
    """Write a line at once, in one call."""
    os.write(1, json.dumps(what).encode() + b"\n")


def scan(path: Path, reporter: Reporter) -> None:
    """Measure what the home does not hold yet."""
    home = open_home(path, create=True)
    definition = parse_definition(SURVEY, "power loss", Path(), SETTINGS)
    run_survey(home, definition, LocalRunner(RunnerOptions(device="cpu", threads=1)), reporter)


def main(path: Path) -> None:
    """Measure the survey in a new home."""
    with mock.patch("catalog.store.writer.SECONDS_DUE", MERGE_SECONDS):
        scan(path, Announcing())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
