"""Rows for the stores' tests: runs, batches and scores whose numbers tell where they came from."""

from __future__ import annotations

import dataclasses
from typing import Any

from catalog.home import Home
from catalog.store.reader import query
from catalog.store.records import RunRecord
from catalog.store.schema import METRICS
from survey.results import BatchScores, SiteScore

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
    """Return an ok score; keyword arguments replace any field."""
    plain = SiteScore(
        batch=batch,
        site=site,
        site_name=f"layer{site}.relu#1",
        activation="relu",
        call=1,
        graph_depth=site + 1,
        role="main",
        repeat=1,
        layout="N,C,*,*",
        spatial="8x8",
        channels=16,
        images=512,
        affinity=affinity,
        status="ok",
        reason=None,
        raw_affinity=affinity,
        **{column.name: 0.25 for column in METRICS},
        input_variance=1.0,
        output_variance=0.5,
        constant_fraction=0.0,
        flags=(),
    )
    return dataclasses.replace(plain, **values)


def batch(number: int = 0, affinity: float = 0.5, sites: int = SITES) -> BatchScores:
    scores = tuple(score(number, site, affinity) for site in range(sites))
    return BatchScores(number, 512, scores, 512, 400, 500, 1.5)


def stored(home: Home, sql: str = EVERYTHING) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = query(home, sql).to_pylist()
    return rows
