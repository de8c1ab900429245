"""What there is to notice after a run: its end, signatures that moved, results that were stale.

The sentences are those of ``survey drift``, ``survey plan`` and ``survey schedule``.
"""

from __future__ import annotations

import json
import logging
from datetime import datetime
from typing import Any

from catalog.home import Home
from catalog.registry.claims import Settlement
from catalog.registry.rows import EventKind, Submission, Tick
from catalog.store.reader import query_rows
from jobs.planning.plan import Plan
from jobs.planning.staleness import summary

#: Rows of drift that a notice holds, and stale runs that it names.
MOST_ROWS = 50

#: A kind of event, its sentence, and what else it tells.
Notice = tuple[EventKind, str, dict[str, Any]]

#: What became of a run.
Settled = Settlement | Tick | Submission

_COUNTS = ("measured", "failed", "skipped")

_LOG = logging.getLogger(__name__)

_FINISHED = "SELECT count(*) AS runs FROM runs WHERE status = 'done' AND finished_at >= $since"


def end_notice(title: str, settled: Settled) -> Notice:
    """Return that a survey came to its end, or failed."""
    kind: EventKind = "failed" if settled.state == "failed" else "finished"
    counts = {name: getattr(settled, name) for name in _COUNTS}
    return kind, f"{title}: {outcome_of(settled)}", {**counts, "reason": settled.reason}


def outcome_of(settled: Settled) -> str:
    """Return what became of a run: the reason, and its counts of jobs unless it failed."""
    counts = ((name, getattr(settled, name)) for name in _COUNTS)
    known = ", ".join(f"{count} {name}" for name, count in counts if count is not None)
    shown = known if settled.state == "done" or not settled.reason else ""
    return "; ".join(filter(None, (settled.state, shown, settled.reason)))


def drift_notice(home: Home, since: datetime | None) -> Notice | None:
    """Return what moved among the runs that finished since a moment; None if nothing did."""
    if since is None or not query_rows(home, _FINISHED, {"since": since})[0]["runs"]:
        return None
    # Imported only when something was measured: pandas and scipy take a second.
    from analysis.answers.drift import SignatureDrift
    from analysis.answers.material import Material

    try:
        answer = SignatureDrift(Material(home.path), since=since.isoformat())
        if not answer.alarm:
            return None
        rows = json.loads(answer.rows.head(MOST_ROWS).to_json(orient="records"))
        detail = {"rows": rows, "details": list(answer.details())}
        return "drift", answer.finding(), detail
    except Exception:  # noqa: BLE001 - logged with its traceback
        # What was measured is good all the same.
        _LOG.exception("whether signatures moved is not known")
        return None


def stale_notice(plan: Plan) -> Notice | None:
    """Return which results are stale and are measured again; None where none are."""
    stale = {run_id: reason for run_id, reason in plan.reasons.items() if reason.stale}
    if not stale:
        return None
    titles = {job.run_id: job.title for job in plan.jobs}
    rows = [
        {"run_id": run_id, "before": reason.run_id, "title": titles[run_id], "why": str(reason)}
        for run_id, reason in list(stale.items())[:MOST_ROWS]
    ]
    return "stale", summary(stale.values()), {"rows": rows}
