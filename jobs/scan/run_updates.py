"""What a plan changes in the rows of runs that it does not measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.store.latest_runs import MEASURED
from catalog.store.reader import query, run_rows
from catalog.store.records import RunRecord, RunState
from catalog.store.writer import Writer
from jobs.planning.accuracy_check import Expectation, suspicion
from jobs.planning.job import Job
from jobs.planning.plan import Plan
from jobs.scan.reporter import Reporter
from survey.text import first_lines

#: Finished runs, with the newest of the same name and settings that measured something else.
_REPLACED = f"""
SELECT ours.run_id, arg_max(later.run_id, later.finished_at) AS later,
  arg_max(later.job_key, later.finished_at) AS job_key
FROM runs AS ours JOIN runs AS later
  USING ({", ".join(MEASURED)}, settings, transform, order_seed, status)
WHERE ours.run_id IN (SELECT unnest($ids::VARCHAR[])) AND status = 'done'
  AND later.finished_at > ours.finished_at
GROUP BY ours.run_id ORDER BY ours.run_id
"""  # noqa: S608 - declared names


def update_runs(
    home: Home,
    writer: Writer,
    registry: Registry,
    plan: Plan,
    states: Mapping[str, RunState],
    reporter: Reporter,
) -> None:
    """Write what a plan knows better of measured and of cancelled runs.

    Parameters
    ----------
    home : Home
        Where they lie.
    writer : Writer
        Writes their rows.
    registry : Registry
        Knows which surveys asked for them.
    plan : Plan
        The plan.
    states : mapping of str to RunState
        What is known of each run.
    reporter : Reporter
        Shows which runs are the newest of their names again.
    """
    expected = dict(_expected_anew(plan, states))
    returned = _returned(home, registry, plan)
    rows = run_rows(home, [*expected, *returned])
    for run_id, expectation in expected.items():
        rows[run_id] = _judged(rows[run_id], expectation, states[run_id])
    for run_id in returned:
        rows[run_id] = dataclasses.replace(rows[run_id], finished_at=datetime.now(UTC))
    if rows:
        writer.write(list(rows.values()))
    note_cancelled(home, writer, plan.held_as("cancelled"))
    for line in _lines([(rows[run_id], later) for run_id, later in returned.items()]):
        reporter.warned(line)


def note_cancelled(home: Home, writer: Writer, jobs: Collection[Job]) -> None:
    """Write which begun runs are cancelled: they wait for no scan."""
    rows = run_rows(home, [job.run_id for job in jobs])
    begun = [row for row in rows.values() if row.status == "running"]
    if begun:
        now = datetime.now(UTC)
        ended = [dataclasses.replace(row, status="cancelled", finished_at=now) for row in begun]
        writer.write(ended)


def _expected_anew(plan: Plan, states: Mapping[str, RunState]) -> Iterator[tuple[str, Expectation]]:
    """Yield finished runs with accuracies that the survey expects only now."""
    for job in plan.jobs:
        expected, state = job.expectation, states.get(job.run_id)
        if expected is None or state is None or state.status != "done":
            continue
        if state.expected_top1 != expected.top1:
            yield job.run_id, expected


def _judged(row: RunRecord, expected: Expectation, state: RunState) -> RunRecord:
    return dataclasses.replace(
        row,
        expected_top1=expected.top1,
        expected_source=expected.source,
        suspicion=suspicion(expected, state.measured_top1, state.images),
    )


def _returned(home: Home, registry: Registry, plan: Plan) -> dict[str, str]:
    """Return finished runs whose files are at hand again, each with the run that came after it.

    A file of weights that was put back, say, has the run that it had. What another folder's files
    of the same names gave stands for other files.
    """
    bases = {job.run_id: str(job.base) for job in plan.jobs if job.run_id in plan.done}
    if not bases:
        return {}
    returned = {}
    for row in query(home, _REPLACED, {"ids": sorted(bases)}).to_pylist():
        # Of two runs of a plan neither replaces the other.
        if row["later"] not in bases and bases[row["run_id"]] in registry.bases(row["job_key"]):
            returned[row["run_id"]] = row["later"]
    return returned


def _lines(returned: Sequence[tuple[RunRecord, str]]) -> list[str]:
    lines = [
        f"run {row.run_id} of {row.architecture} {row.checkpoint} is the newest of its name again,"
        f" in place of {later}: what it measured is at hand"
        for row, later in returned
    ]
    return first_lines(lines, "more runs are the newest again")
