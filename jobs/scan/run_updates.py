"""What a plan changes in the rows of runs that it does not measure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from catalog.home import Home
from catalog.store.latest_runs import MEASURED
from catalog.store.reader import query, run_row
from catalog.store.records import RunRecord, RunState
from catalog.store.writer import Writer
from jobs.planning.accuracy_check import suspicion
from jobs.planning.plan import Plan
from jobs.scan.reporter import Reporter

#: Finished runs, with the newest of the same name and settings, of other weights or images.
_REPLACED = f"""
SELECT ours.run_id, arg_max(later.run_id, later.finished_at) AS later
FROM runs AS ours JOIN runs AS later
  USING ({", ".join(MEASURED)}, settings, order_seed, status)
WHERE ours.run_id IN (SELECT unnest($ids::VARCHAR[])) AND status = 'done'
  AND later.finished_at > ours.finished_at
GROUP BY ours.run_id
"""  # noqa: S608 - declared names


def update_runs(
    home: Home, writer: Writer, plan: Plan, states: Mapping[str, RunState], reporter: Reporter
) -> None:
    """Write what a plan knows better of measured and of cancelled runs.

    Parameters
    ----------
    home : Home
        Where they lie.
    writer : Writer
        Writes their rows.
    plan : Plan
        The plan.
    states : mapping of str to RunState
        What is known of each run.
    reporter : Reporter
        Shows which runs are the newest of their names again.
    """
    changed = [*_judged(home, plan, states), *_withdrawn(home, plan, states)]
    for record, later in _returned(home, plan):
        changed.append(record)
        reporter.warned(
            f"run {record.run_id} of {record.architecture} {record.checkpoint} is the newest of its"
            f" name again, in place of {later}: its weights and images are those at hand"
        )
    if changed:
        writer.write(changed)


def _judged(home: Home, plan: Plan, states: Mapping[str, RunState]) -> Iterator[RunRecord]:
    """Yield finished runs with accuracies that the survey expects only now."""
    for job in plan.jobs:
        expected, state = job.expectation, states.get(job.run_id)
        if expected is None or state is None or state.status != "done":
            continue
        if state.expected_top1 != expected.top1:
            yield dataclasses.replace(
                run_row(home, job.run_id),
                expected_top1=expected.top1,
                expected_source=expected.source,
                suspicion=suspicion(expected, state.measured_top1, state.images),
            )


def _withdrawn(home: Home, plan: Plan, states: Mapping[str, RunState]) -> Iterator[RunRecord]:
    """Yield runs that were cancelled while no scan was under way."""
    for job in plan.held_as("cancelled"):
        state = states.get(job.run_id)
        if state is not None and state.status == "running":
            yield dataclasses.replace(run_row(home, job.run_id), status="cancelled")


def _returned(home: Home, plan: Plan) -> Iterator[tuple[RunRecord, str]]:
    """Yield finished runs whose weights and images are at hand again, each with what came after it.

    A file of weights that was put back, say, has the run that it had.
    """
    measured = sorted(job.run_id for job in plan.jobs if job.run_id in plan.done)
    if not measured:
        return
    for row in query(home, _REPLACED, {"ids": measured}).to_pylist():
        # Of two runs of a plan neither replaces the other.
        if row["later"] not in measured:
            record = run_row(home, row["run_id"])
            yield dataclasses.replace(record, finished_at=datetime.now(UTC)), row["later"]
