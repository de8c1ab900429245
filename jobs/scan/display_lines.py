"""The lines that displays print of a scan: its plan, its workers, and how each job ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobs.runners.events import Event, Failed, Finished, Halved, Lost, Measuring, Skipped
from survey.text import counted, format_duration

if TYPE_CHECKING:
    from jobs.planning.estimate import Estimate
    from jobs.planning.job import Job
    from jobs.planning.plan import Plan
    from jobs.planning.worker_layout import Devices


def opening(plan: Plan) -> str:
    """Return how many jobs are measured, why, how many are skipped, and what to know of them."""
    # These bring the stores, which an idle schedule does not need.
    from jobs.planning.score_images import notices
    from jobs.planning.staleness import summary

    todo, done, held = len(plan.todo), len(plan.done), len(plan.held)
    skipped = f", {done} already measured and skipped" if done else ""
    waiting = f", {held} parked or cancelled (survey retry takes them up again)" if held else ""
    lacking = f", {len(plan.lacking)} lack a file" if plan.lacking else ""
    whole = len(plan.jobs) + len(plan.lacking)
    line = f"{todo} of {whole} jobs to measure{skipped}{waiting}{lacking}"
    batches = counted(sum(plan.kept.values()), "batch", "batches")
    goes_on = f"{len(plan.kept)} to go on: {batches} kept" if plan.kept else ""
    known = (goes_on, *notices(plan.jobs, plan.loadable, plan.automatic))
    return "\n".join(filter(None, (line, summary(plan.reasons.values()), *known)))


def closing(job: Job, event: Event) -> str:
    """Return how a job, or an attempt at it, ended, in one line."""
    if isinstance(event, Halved):
        until = f"in {event.measure}" if event.measure else "from here on"
        return f"memory  {job.run_id} {job.title}: micro-batch {event.micro_batch} {until}"
    if isinstance(event, Finished):
        return f"done    {job.run_id} {job.title}"
    if isinstance(event, Skipped):
        name = "" if event.name in event.reason else f"{event.name}: "
        return f"skipped {event.run_id} image {name}{event.reason}"
    state = "failed " if isinstance(event, Failed) else "retry  "
    message = event.message if isinstance(event, (Failed, Lost)) else ""
    return f"{state} {job.run_id} {job.title}: {message}"


def under_way(job: Job, event: Measuring) -> str:
    """Return a job, and how far one of its measures is."""
    return f"{job.title}: {event.measure} {event.fraction:.0%}"


def cancelling(job: Job) -> str:
    """Return that a job was cancelled, in one line."""
    return f"cancel  {job.run_id} {job.title}"


def batches_of(job: Job) -> int:
    """Return how many batches a job has, a partial last one included."""
    return -(-job.images // job.settings.score_images)


def workers_line(devices: Devices) -> str:
    """Return the number of workers, their device and their threads."""
    workers, threads = counted(devices.workers, "worker"), counted(devices.threads, "thread")
    return f"{workers} on {devices.kind}, {threads} each"


def measures_line(estimates: Mapping[str, Estimate]) -> str | None:
    """Return how long the missing measures of whole networks may take; None where none are."""
    seconds = [each.measure_seconds for each in estimates.values() if each.measures]
    if not seconds:
        return None
    low, high = format_duration(min(seconds)), format_duration(max(seconds))
    each = low if low == high else f"{low} to {high}"
    return f"measures of {counted(len(seconds), 'whole network')}: about {each} each"
