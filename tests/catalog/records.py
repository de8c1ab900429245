"""Rows for the stores' tests: runs, batches and scores whose numbers tell where they came from."""

from __future__ import annotations

import dataclasses
from typing import Any

from catalog.home import Home
from catalog.registry.attempts import AttemptEnd, AttemptStart
from catalog.registry.registry import Registry
from catalog.registry.rows import AttemptOutcome, JobState
from catalog.store.reader import query
from catalog.store.records import RunRecord
from catalog.store.schema import METRIC_COLUMNS
from survey.results import BatchScores, Site, SiteScore

SITES = 3

#: Every stored batch and score, in one order: what two homes are compared by.
EVERYTHING = """
SELECT run_id, batch, attempt, end_position, skipped_names, site, site_name, affinity, status,
  reason, raw_affinity, role, spatial, cka, flags, notes
FROM batches LEFT JOIN batch_scores USING (run_id, batch) ORDER BY ALL
"""


def run(run_id: str = "r1", status: str = "running", **values: Any) -> RunRecord:
    basics = {"attempt": 1, "architecture": "resnet20", "source": "small"}
    return RunRecord(
        run_id=run_id,
        status=status,
        **{**basics, "checkpoint": "bundled", "dataset": "digits", **values},
    )


def score(batch: int = 0, site: int = 0, affinity: float = 0.5, **values: Any) -> SiteScore:
    """Return an ok score; keyword arguments replace any field, of its site too, or metric."""
    place = Site(f"layer{site}.relu#1", "relu", 1, site + 1, "main", 1, "N,C,*,*", "8x8")
    plain = SiteScore(
        batch=batch,
        site=site,
        place=place,
        channels=16,
        images=512,
        affinity=affinity,
        status="ok",
        reason=None,
        raw_affinity=affinity,
        metrics={column.name: 0.25 for column in METRIC_COLUMNS},
        input_variance=1.0,
        output_variance=0.5,
        constant_fraction=0.0,
        flags=(),
    )
    return changed(plain, **values)


def changed(row: SiteScore, **values: Any) -> SiteScore:
    """Return a score with other values of its fields, its site's fields or its metrics."""
    fields = {name: values.pop(name) for name in list(values) if name in SiteScore.__slots__}
    of_site = {name: values.pop(name) for name in list(values) if hasattr(row.place, name)}
    place = dataclasses.replace(row.place, **of_site)
    return dataclasses.replace(row, place=place, metrics={**row.metrics, **values}, **fields)


def batch(number: int = 0, affinity: float = 0.5, sites: int = SITES) -> BatchScores:
    scores = tuple(score(number, site, affinity) for site in range(sites))
    return BatchScores(number, 512, scores, 512, 400, 500, 1.5)


def stored(home: Home, sql: str = EVERYTHING) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query(home, sql).to_pylist()
    return rows


def begin(registry: Registry, key: str) -> int:
    """Begin an attempt at a job that is not cancelled, and return its number."""
    (number,) = registry.attempts.start([AttemptStart(key)])
    assert number is not None
    return number


def end(
    registry: Registry,
    key: str,
    number: int,
    outcome: AttemptOutcome,
    leaves: JobState | None = None,
    **how: Any,
) -> None:
    """End the only attempt at a job that runs; ``leaves`` for one of several."""
    states: dict[str, JobState] = {"done": "done", "failed": "failed"}
    after = leaves or states.get(outcome, "todo")
    registry.attempts.finish([AttemptEnd(key, number, outcome, after, **how)])
