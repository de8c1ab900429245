"""Controlling jobs: retry and cancel."""

from __future__ import annotations

from collections.abc import Iterable

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobRow, JobState
from catalog.store.reader import run_states, several_runs
from survey import SettingsError, UnknownName

#: The states a person may move jobs to: from which ones, and a hint on a job in another one.
_MOVES: dict[JobState, tuple[tuple[JobState, ...], str]] = {
    "todo": (("failed", "parked", "cancelled"), "survey run does it: nothing holds it back"),
    "cancelled": (("todo", "running"), "only jobs that are not over can be cancelled"),
}


def find_job(home: Home, prefix: str) -> JobRow:
    """Return the job whose run's id is, or alone begins with, the prefix.

    Raises
    ------
    UnknownName
        If there is none.
    SettingsError
        If there are several.
    """
    with Registry(home) as registry:
        jobs = registry.jobs()
    matching = [job for job in jobs if job.run_id.startswith(prefix)]
    if not matching or not prefix:
        raise UnknownName("run", prefix, [job.run_id for job in jobs])
    first = min(matching, key=lambda job: job.run_id != prefix)
    if len(matching) > 1 and first.run_id != prefix:
        raise several_runs(prefix, [job.run_id for job in matching])
    return first


def move_jobs(home: Home, to: JobState, jobs: Iterable[JobRow] | None = None) -> list[JobRow]:
    """Queue jobs again, with their count of lost workers reset, or cancel them.

    A scan under way stops the jobs that are cancelled within seconds.

    Parameters
    ----------
    home : Home
        The home.
    to : {"todo", "cancelled"}
        The new state: ``todo`` of jobs that failed, were parked or cancelled, ``cancelled`` of
        jobs that are not over.
    jobs : iterable of JobRow, optional
        The jobs; by default all that can be moved.

    Returns
    -------
    list of JobRow
        The jobs that changed state.

    Raises
    ------
    SettingsError
        If one of the jobs cannot be moved.
    """
    from_, hint = _MOVES[to]
    named = list(jobs) if jobs is not None else None
    # Rows come before the registry: a scan killed in between has done the job all the same.
    done = {run_id for run_id, state in run_states(home).items() if state.status == "done"}
    for job in named or ():
        if job.state not in from_ or job.run_id in done:
            over = job.state == "done" or job.run_id in done
            raise SettingsError(
                f"run {job.run_id} is {'done' if over else job.state}",
                hint="what is measured stays: survey show shows it" if over else hint,
            )
    with Registry(home) as registry:
        chosen = named if named is not None else registry.jobs()
        fitting = [job for job in chosen if job.state in from_ and job.run_id not in done]
        moved = registry.set_states([job.key for job in fitting], to, from_)
    return [job for job in fitting if job.key in moved]
