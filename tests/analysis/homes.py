"""Homes with runs of made-up numbers, written as a scan writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np

from catalog.open_home import open_home
from catalog.store.records import BatchRecord, NetworkRecord
from catalog.store.writer import Writer
from survey.network_measures.base import NetworkScore
from survey.results import BatchScores, SiteScore
from tests.catalog.homes import new_home
from tests.catalog.records import run, score

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)

#: One value a site, or one row a batch of them; NaN for a site without a score.
Values = Sequence[float] | Sequence[Sequence[float]] | np.ndarray


#: What scores depend on, the same for all runs by default.
CONDITIONS = {"images_per_score": 64, "shrinkage": "ledoit-wolf", "ridge": "absolute"}


class Builder:
    """Stores runs into a home, each an hour after the one before; within ``with`` all at once."""

    def __init__(self, path: Path) -> None:
        there = (path / "signatures.duckdb").exists()
        self.home = open_home(path, create=False) if there else new_home(path)
        self.number = 0
        self.writer: Writer | None = None

    def __enter__(self) -> Self:
        self.writer = Writer.open(self.home)
        self.writer.__enter__()
        return self

    def __exit__(self, *details: Any) -> None:
        assert self.writer is not None
        self.writer.__exit__(*details)

    def __call__(
        self,
        run_id: str,
        affinity: Values,
        metrics: Mapping[str, Any] | None = None,
        roles: Sequence[str] = (),
        repeats: Sequence[int] = (),
        status: str = "done",
        measures: Mapping[str, NetworkScore] | None = None,
        **values: Any,
    ) -> None:
        table = np.atleast_2d(np.asarray(affinity, float))
        others = {
            name: np.broadcast_to(np.atleast_2d(each), table.shape)
            for name, each in (metrics or {}).items()
            if name != "flags"
        }
        flags = (metrics or {}).get("flags")
        basics: dict[str, Any] = {"pooling": "mean", "measuring_version": 2, **CONDITIONS}
        ended = NOON + timedelta(hours=self.number)
        self.number += 1
        with nullcontext(self.writer) if self.writer else Writer.open(self.home) as writer:
            for batch, row in enumerate(table):
                cells: dict[str, Any] = {name: each[batch] for name, each in others.items()}
                cells |= {"role": roles} if roles else {}
                cells |= {} if flags is None else {"flags": flags}
                cells |= {"repeat": repeats} if repeats else {}
                scores = tuple(_score(batch, s, a, cells) for s, a in enumerate(row))
                writer.write(
                    batches=[
                        BatchRecord(run_id, 1, BatchScores(batch, 64, scores, 64, 1, 1, 1.0), batch)
                    ]
                )
            of_network = [NetworkRecord(run_id, 1, measures)] if measures else []
            record = run(run_id, status, **{"finished_at": ended, **basics, **values})
            writer.write([record], network=of_network)


def _score(batch: int, site: int, affinity: float, cells: Mapping[str, Any]) -> SiteScore:
    values = {name: each[site] for name, each in cells.items()}
    if np.isnan(affinity):
        return score(batch, site, **{**values, "status": "constant", "affinity": None})
    return score(batch, site, float(affinity), **values)


def correlated(x: np.ndarray, r: float, rng: np.random.Generator) -> np.ndarray:
    """Return numbers in [0, 1] whose Pearson correlation with x is r, to within rounding."""
    along = (x - x.mean()) / np.linalg.norm(x - x.mean())
    noise = rng.normal(size=len(x))
    noise -= noise.mean() + along * (noise @ along)
    values = r * along + np.sqrt(1 - r * r) * noise / np.linalg.norm(noise)
    return np.asarray((values - values.min()) / np.ptp(values))
