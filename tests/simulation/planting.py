"""Faults planted in the product: a function or text of a module with a part of it replaced."""

from __future__ import annotations

import inspect
import sys
import textwrap
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pkgutil import resolve_name
from unittest import mock


@dataclass(frozen=True)
class Fault:
    """One fault, by the change of source that makes it."""

    name: str
    #: A function or a text, as ``module:attribute`` or ``module:Class.method``.
    place: str
    #: What stands there, and what would be wrong in its place; several pairs.
    changes: tuple[tuple[str, str], ...]

    def planted(self) -> AbstractContextManager[object]:
        """Return a patch that plants the fault."""
        whole = resolve_name(self.place)
        source = whole if isinstance(whole, str) else textwrap.dedent(inspect.getsource(whole))
        for old, new in self.changes:
            assert old in source, f"{self.place} has changed: no {old!r}"
            source = source.replace(old, new)
        owner, _, name = self.place.replace(":", ".").rpartition(".")
        if isinstance(whole, str):
            return mock.patch(f"{owner}.{name}", source)
        names = dict(vars(sys.modules[whole.__module__]))
        exec(compile(source, self.place, "exec"), names)
        return mock.patch(f"{owner}.{name}", names[name])


FAULTS = (
    Fault(
        "no sync",
        "catalog.store.writer:write_segment",
        (("os.fsync(file.fileno())", "pass"),),
    ),
    Fault(
        "sync after acknowledging",
        "catalog.store.writer:write_segment",
        (
            ("unfinished.replace(path)\n        sync_folder(spool)", "unfinished.replace(path)"),
            ("    unfinished = path", "    sync_folder(spool)\n    unfinished = path"),
        ),
    ),
    Fault(
        "rename before sync",
        "catalog.store.writer:write_segment",
        (
            ("unfinished.replace(path)\n        sync_folder(spool)", "pass"),
            (
                "as file:\n",
                "as file:\n            unfinished.replace(path)\n            sync_folder(spool)\n",
            ),
        ),
    ),
    Fault(
        "checksum ignored",
        "catalog.store.segments:read_segment",
        (("if not content or checksum(content) != stated:", "if not content:"),),
    ),
    Fault(
        "segment merged twice",
        "catalog.store.writer:merge_segments",
        (("if segment.name not in names", ""),),
    ),
    Fault(
        "attempt number ignored",
        "catalog.store.staging:_STAGE",
        (
            ("ORDER BY attempt DESC, place)", "ORDER BY place DESC)"),
            ("AND old.attempt >= new.attempt", "AND false"),
        ),
    ),
    Fault("lock not taken", "catalog.store.writer:Writer.open", (("lock.acquire()", "pass"),)),
    Fault(
        "late word believed",
        "jobs.scan.recorder:Recorder.record",
        (("if event.attempt not in progress.running:", "if False:"),),
    ),
    Fault(
        "row of a cancelled job kept",
        "jobs.scan.recorder:Recorder.withdraw",
        (("progress.close()", "list(progress.running)"),),
    ),
    Fault(
        "batch counted before durable",
        "jobs.scan.recorder:Recorder.record",
        (
            ("    self._persist()\n    return reported", "    return reported"),
            ("    reported = []\n", "    self._persist()\n    reported = []\n"),
        ),
    ),
    Fault(
        "retry without a bound",
        "jobs.scan.recorder:Recorder._counted",
        (("if progress.losses < self._most_losses:", "if True:"),),
    ),
    Fault(
        "due time run twice",
        "catalog.registry.claims:_taken",
        ((", table.c.claim == row.claim, table.c.state == state", ""),),
    ),
)
