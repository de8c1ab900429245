"""A home of the size that a team's service comes to: 30,000 runs, 20 million scores.

The rows go the way of measured ones, as segments that the writer merges; their numbers are drawn
at random. ``python -m bench.large_home DIR [RUNS]`` makes one; at full size it takes minutes.
"""

from __future__ import annotations

import hashlib
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.writer import IMAGES, record, scores
from catalog.home import Home
from catalog.open_home import open_home
from catalog.store.arrow_rows import batch_table, run_table
from catalog.store.records import RunRecord
from catalog.store.segments import write_segment
from catalog.store.writer import Writer

#: The size that the service is for.
RUNS = 30_000

#: Batches of a run; each has the 49 sites of ``bench.writer``.
BATCHES = 14

#: Runs of a segment, and segments of a merge.
_RUNS_A_SEGMENT, _SEGMENTS_A_MERGE = 40, 25

#: Batches of different numbers.
_DRAWN = 400

_FAMILIES = ("ResNet", "VGG", "ViT", "ConvNeXt", "DenseNet", "EfficientNet", "Swin", "RegNet")
_DATASETS = ("imagenet:val[:7168]", "folder:/data/flowers", "cifar10")


def run_record(number: int) -> RunRecord:
    """Return the row of a run: of 200 architectures, each with 50 checkpoints on three datasets."""
    checkpoint, rest = divmod(number, 600)
    dataset, kind = divmod(rest, 200)
    family = _FAMILIES[kind % len(_FAMILIES)]
    ended = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=number)
    return RunRecord(
        run_id=hashlib.sha256(str(number).encode()).hexdigest()[:12],
        job_key=hashlib.sha256(f"job {number}".encode()).hexdigest(),
        attempt=1,
        architecture=f"{family.lower()}_{kind}",
        source="timm",
        family=family,
        family_group="residual" if kind % 2 else "plain",
        year=2012 + kind % 12,
        checkpoint=f"file:/srv/weights/{family.lower()}_{kind}/epoch_{checkpoint}.pth",
        checkpoint_sha256=hashlib.sha256(f"weights {number}".encode()).hexdigest(),
        dataset=_DATASETS[dataset],
        dataset_fingerprint=hashlib.sha256(str(dataset).encode()).hexdigest(),
        status="done",
        measured_top1=(number * 7919 % 1000) / 1000,
        measured_top5=1.0,
        images=IMAGES * BATCHES,
        skipped_images=0,
        batches=BATCHES,
        sites=49,
        depth=20 + kind,
        parameters=1_000_000 * (kind + 1),
        gflops=kind / 10,
        settings='{"images_per_score": 512, "pooling": "mean", "shrinkage": "ledoit-wolf"}',
        images_per_score=IMAGES,
        micro_batch=64,
        shrinkage="ledoit-wolf",
        ridge="relative",
        pooling="mean",
        transform='{"resize": 256, "crop": 224}',
        order_seed=0,
        device="cpu",
        device_name="Xeon",
        dtype="float32",
        threads=2,
        hostname="node7",
        survey_version="1",
        measuring_version=3,
        started_at=ended - timedelta(seconds=40),
        finished_at=ended,
        seconds=21.0,
    )


def make_home(path: Path, runs: int = RUNS) -> Home:
    """Return a home of so many finished runs, made unless it is there."""
    if path.exists():
        return open_home(path, create=False)
    making = path.with_name(f"{path.name}.making")
    home = open_home(making, create=True)
    drawn = batch_table([record(n, [scores(n)]) for n in range(_DRAWN)])
    with Writer.open(home) as writer:
        for first in range(0, runs, _RUNS_A_SEGMENT):
            numbers = range(first, min(first + _RUNS_A_SEGMENT, runs))
            records = [run_record(number) for number in numbers]
            write_segment(home.spool, run_table(records), batches_of(records, drawn))
            if first % (_RUNS_A_SEGMENT * _SEGMENTS_A_MERGE) == 0:
                writer.merge()
    return open_home(making.rename(path), create=False)


def batches_of(records: list[RunRecord], drawn: pa.Table) -> pa.Table:
    """Return the batches of some runs, of drawn numbers."""
    total = len(records) * BATCHES
    places = np.random.default_rng(int(records[0].run_id, 16)).integers(0, len(drawn), total)
    ids = np.repeat([each.run_id for each in records], BATCHES)
    numbers = np.tile(np.arange(BATCHES), len(records))
    columns = {
        "run_id": pa.array(ids),
        "batch": pa.array(numbers, pa.int32()),
        "attempt": pa.array(np.ones(total), pa.int32()),
        "end_position": pa.array(IMAGES * (numbers + 1), pa.int64()),
    }
    rows = drawn.take(pa.array(places))
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


if __name__ == "__main__":
    make_home(Path(sys.argv[1]), *map(int, sys.argv[2:3]))
