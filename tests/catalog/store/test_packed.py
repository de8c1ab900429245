"""A batch whose worker made its row is stored as one whose scores the writer is given."""

from __future__ import annotations

import dataclasses
import math
import pickle

import pyarrow as pa
import pytest

from catalog.home import Home
from catalog.store.arrow_rows import batch_table, packed
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from survey.results import BatchScores
from tests.catalog.records import batch, score, stored

BATCHES = (
    batch(0),
    dataclasses.replace(batch(1), seconds=math.nan),
    BatchScores(2, 512, (score(2, 0, toy=2.0), score(2, 1)), 512, 400, 500, 1.5),
    BatchScores(3, 512, (score(3, 0, affinity=math.nan), score(3, 1)), 512, 400, 500, 1.5),
    dataclasses.replace(batch(4), scores=()),
)
RECORDS = [
    BatchRecord(f"r{number % 2}", 1 + number, each, 512 * number, ("broken.png",) * number, 64)
    for number, each in enumerate(BATCHES)
]


def sent(record: BatchRecord) -> BatchRecord:
    """Return a record as a worker's process sends it."""
    return pickle.loads(pickle.dumps(packed(record)))


@pytest.mark.parametrize("which", [(), (0,), (1, 2), (3, 4), (0, 1, 2, 3, 4)])
def test_rows_are_the_same_whoever_makes_them(which: tuple[int, ...]) -> None:
    records = [sent(each) if place in which else each for place, each in enumerate(RECORDS)]
    rows = [without_moment(batch_table(each)) for each in (records, RECORDS)]
    assert rows[0] == rows[1]


def without_moment(rows: pa.Table) -> list[object]:
    """Return rows without the moment of their storing; a missing metric is one without a value."""
    plain = rows.drop_columns("recorded_at").to_pylist()
    for row in plain:
        row["scores"] = [{"toy": None} | each for each in row["scores"]]
    return plain


def test_the_driver_knows_the_affinities_that_are_stored(home: Home) -> None:
    records = [sent(each) for each in RECORDS]
    assert not any(each.batch.scores for each in records)
    with Writer.open(home) as writer:
        writer.write(batches=records)
    met = stored(home, "SELECT site, affinity FROM batch_scores ORDER BY batch, site")
    known = [{"site": site, "affinity": a} for each in records for site, a in each.affinities]
    assert known == met
