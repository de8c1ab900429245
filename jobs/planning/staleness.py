"""Staleness: why a job is measured, because it is new or because something changed.

A run that finished before is compared with the job of the same source, architecture, checkpoint
name and dataset name. The key alone decides whether a job is measured; staleness names what
changed.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from catalog.home import Home
from catalog.store.reader import query
from survey import MEASURING_VERSION
from survey.settings import AUTO, PROCESSOR_PASS, unrecorded

if TYPE_CHECKING:
    from jobs.planning.job import Job

_LATEST = """
SELECT * FROM runs WHERE status = 'done'
QUALIFY row_number() OVER (
  PARTITION BY source, architecture, checkpoint, dataset
  ORDER BY finished_at DESC NULLS LAST, run_id
) = 1
"""

#: The kinds of jobs that are measured.
_NEW, _OTHERWISE, _STALE = "new", "with other settings", "stale"
_ADDED = "to get measures added"

#: What a finished run lacks that is asked for.
_MEASURES = "measures asked for"

_RENAMED = "an older version of this program named it differently"

#: Hexadecimal digits of a hash that are shown.
_DIGITS = 8

Finished = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference from the newest finished run."""

    #: One of ``checkpoint changed``, ``dataset changed``, ``transform changed``, ``settings
    #: changed``, ``measuring version changed``, ``library version changed``, ``code changed``,
    #: ``key changed`` or ``measures asked for``.
    what: str
    #: The value before and now.
    detail: str

    @property
    def chosen(self) -> bool:
        """Whether the survey asks for something else: the run is then not stale."""
        return self.what in ("settings changed", "key changed", _MEASURES)

    def __str__(self) -> str:
        """Return both, as in ``settings changed: pooling mean -> pre``."""
        return f"{self.what}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Staleness:
    """Why a job is measured."""

    #: The newest finished run of the same names; None for a job that is new.
    run_id: str | None = None
    #: The changes since; empty for a job that is new.
    changes: tuple[Change, ...] = ()

    @property
    def stale(self) -> bool:
        """Whether something changed that the survey did not ask for."""
        return any(not change.chosen for change in self.changes)

    @property
    def kind(self) -> str:
        """Which kind of job it makes."""
        if any(change.what == _MEASURES for change in self.changes):
            return _ADDED
        return _STALE if self.stale else _OTHERWISE if self.changes else _NEW

    def __str__(self) -> str:
        """Return ``new``, or every change."""
        return "; ".join(map(str, self.changes)) or "new"


def staleness(
    home: Home, jobs: Sequence[Job], added: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Staleness]:
    """Return why each job is measured, by run id.

    Parameters
    ----------
    home : Home
        The home with the finished runs.
    jobs : sequence of Job
        Jobs that are to be done.
    added : mapping of str to sequence of str, optional
        For those of them that have a finished run, the measures that it lacks, by run id.
    """
    if not jobs:
        return {}
    latest = {
        (run["source"], run["architecture"], run["checkpoint"], run["dataset"]): run
        for run in query(home, _LATEST).to_pylist()
    }
    names = {
        job.run_id: (job.source, job.architecture, job.checkpoint.reference, job.dataset)
        for job in jobs
    }
    asked = {
        run_id: Staleness(run_id, (Change(_MEASURES, ", ".join(measures)),))
        for run_id, measures in (added or {}).items()
    }
    return {
        job.run_id: asked.get(job.run_id) or compared(job, latest.get(names[job.run_id]))
        for job in jobs
    }


def compared(job: Job, run: Finished | None) -> Staleness:
    """Return the changes between a finished run's row and a job.

    Parameters
    ----------
    job : Job
        The job to be measured.
    run : mapping of str to object, or None
        The row of ``runs`` of the newest finished run of the same names.
    """
    if run is None:
        return Staleness()
    changes = tuple(_changes(job, run)) or (_otherwise(job),)
    return Staleness(run["run_id"], changes)


def _otherwise(job: Job) -> Change:
    """Return the difference from a run that is recorded like the job."""
    if job.code_sha256:
        return Change("code changed", f"a file of {job.full_name}, or {_RENAMED}")
    return Change("key changed", _RENAMED)


def summary(reasons: Iterable[Staleness]) -> str:
    """Return how many jobs are new, of other settings and stale, in one line; empty for none."""
    counts, causes = Counter[str](), Counter[str]()
    for reason in reasons:
        counts[reason.kind] += 1
        causes.update({change.what for change in reason.changes if not change.chosen})
    why = ", ".join(f"{what} {count}" for what, count in sorted(causes.items()))
    parts = [
        f"{counts[kind]} {kind}" for kind in (_NEW, _OTHERWISE, _STALE, _ADDED) if counts[kind]
    ]
    return ", ".join(parts) + (f" ({why})" if why else "")


def _changes(job: Job, run: Finished) -> Iterator[Change]:
    recorded = json.loads(run["settings"] or "{}")
    yield from _hash_change("checkpoint", run["checkpoint_sha256"], job.checkpoint_sha256)
    yield from _hash_change("dataset", run["dataset_fingerprint"], job.dataset_fingerprint)
    yield from _field_changes("transform", json.loads(run["transform"] or "{}"), job.transform)
    yield from _field_changes("settings", _comparable(recorded, job), job.settings)
    before = run["measuring_version"]
    if before != MEASURING_VERSION:
        yield Change("measuring version changed", f"{before} -> {MEASURING_VERSION}")
    yield from _library_changes(job, run, recorded.get("libraries", {}))


def _hash_change(what: str, before: str | None, now: str) -> Iterator[Change]:
    if before != now:
        detail = f"sha256 {(before or 'unknown')[:_DIGITS]} -> {now[:_DIGITS]}"
        yield Change(f"{what} changed", detail)


def _field_changes(what: str, before: Mapping[str, Any], now: Any) -> Iterator[Change]:
    """Compare fields, also those that the run's record leaves out; see ``unrecorded``."""
    differing = []
    for field in dataclasses.fields(now):
        value = _plain(getattr(now, field.name))
        old = before.get(field.name, _plain(unrecorded(field)))
        if old != value:
            differing.append(f"{field.name} {_shown(old)} -> {_shown(value)}")
    if differing:
        yield Change(f"{what} changed", ", ".join(differing))


def _comparable(recorded: dict[str, Any], job: Job) -> dict[str, Any]:
    """Return recorded settings, without those that determine no number of either."""
    settings, same = job.settings, dict(recorded)
    if recorded.get("precision") is None and settings.precision is None:
        same["least_batches"] = settings.least_batches
    if {recorded.get("micro_batch"), settings.micro_batch} == {AUTO, PROCESSOR_PASS}:
        # They have one key.
        same["micro_batch"] = settings.micro_batch
    return same


def _library_changes(job: Job, run: Finished, counted: Mapping[str, str]) -> Iterator[Change]:
    chosen = dict(job.libraries)
    for name, version in chosen.items():
        before = counted.get(name) or run.get(f"{name}_version")
        if before != version:
            detail = f"{name} {before or 'unknown'} -> {version}"
            yield Change("library version changed", detail)
        elif name not in counted:
            yield Change("key changed", f"{name} {version} counts from now on")
    for name in sorted(counted.keys() - chosen):
        yield Change("key changed", f"the version of {name} does not count any more")


def _plain(value: object) -> object:
    """Return a value as JSON gives it back."""
    if value is dataclasses.MISSING:
        return None
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
