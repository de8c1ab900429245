"""Benchmark of the signature store's writer, beside DuckDB's bulk insert of the same rows.

Single batches of ResNet-50's 49 sites are made durable one by one, and as many bare files of the
same size. Then three processes take turns, a round each: two write segments of 10,045 rows (205
batches), durable one by one and merged on the way, one from the rows that the workers of a scan
make, the other from records; the third inserts the same rows and columns from Arrow tables of a
round each. Making what is written is not timed.

    python bench/writer.py [ROWS]      # 10 million rows by default
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from catalog.files import sync_folder
from catalog.open_home import open_home
from catalog.store import schema
from catalog.store.arrow_rows import batch_table, packed, run_table
from catalog.store.records import BatchRecord
from catalog.store.segments import write_segment
from catalog.store.staging import PLACE, score_rows
from catalog.store.upgrade import make_store
from catalog.store.writer import Writer
from survey.results import BatchScores, Site, SiteScore

SITES, GROUP, IMAGES = 49, 205, 512
ROUNDS = 10
SINGLE, CALL = 2000, 20

#: Seconds by the clock, of the processor, and peak bytes.
Answer = tuple[float, float, int]


def scores(number: int) -> tuple[SiteScore, ...]:
    """Return one batch's scores, of random numbers."""
    values = np.random.default_rng(number).random((SITES, len(schema.METRIC_COLUMNS) + 4))
    names = [column.name for column in schema.METRIC_COLUMNS]
    return tuple(
        SiteScore(
            batch=0,
            site=site,
            place=Site(
                site_name=f"layer{site // 16 + 1}.{site % 16 // 3}.relu#{site % 3 + 1}",
                activation="relu",
                call=site % 3 + 1,
                graph_depth=site + 1,
                role="main",
                repeat=site % 3 + 1,
                layout="N,C,*,*",
                spatial=f"{112 >> site // 16}x{112 >> site // 16}",
            ),
            channels=64 << site // 16,
            images=IMAGES,
            affinity=affinity,
            status="ok",
            reason=None,
            raw_affinity=affinity,
            input_variance=before,
            output_variance=after,
            constant_fraction=constant,
            flags=("few_images",) if site > 40 else (),
            notes=("affinity_plain: 512 images, 2048 channels",) if site > 40 else (),
            metrics=dict(zip(names, metrics, strict=True)),
        )
        for site, (affinity, before, after, constant, *metrics) in enumerate(values.tolist())
    )


def groups(number: int) -> Iterator[list[BatchRecord]]:
    """Yield some groups of batches, each a segment's, numbered through."""
    made = [scores(n) for n in range(4 * GROUP)]
    counter = itertools.count()
    for _ in range(number):
        yield [record(next(counter), made) for _ in range(GROUP)]


def record(
    number: int, made: list[tuple[SiteScore, ...]], run_id: str | None = None, attempt: int = 1
) -> BatchRecord:
    """Return one batch of one of many runs, or of the one that is named."""
    batch = BatchScores(number, IMAGES, made[number % len(made)], IMAGES, 400, 480, 1.5)
    place, run_id = IMAGES * (number + 1), run_id or f"{number // 97:012x}"
    return BatchRecord(run_id, attempt, batch, place, (), 64, 2, "Xeon", "node7")


class Clock:
    """Sums up the time within it, by the clock and of the processor (all threads)."""

    seconds = busy = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began[0]
        self.busy += time.process_time() - self._began[1]


def tables(number: int) -> Iterator[pa.Table]:
    """Yield the same groups as the tables that a segment takes."""
    made = [batch_table(group) for group in groups(4)]
    for turn in range(number):
        first = turn * GROUP
        numbers = range(first, first + GROUP)
        yield (
            made[turn % 4]
            .set_column(0, "run_id", pa.array([f"{n // 97:012x}" for n in numbers]))
            .set_column(1, "batch", pa.array(numbers, pa.int32()))
        )


def feed_rows(path: Path, number: int, pipe: Connection) -> None:
    """Feed a writer the rows that workers make; see ``feed_records``."""
    feed(path, number, pipe, packed)


def feed_records(path: Path, number: int, pipe: Connection) -> None:
    """Make groups durable and merge them, a round for each message; send seconds and memory."""
    feed(path, number, pipe, lambda one: one)


def feed(path: Path, number: int, pipe: Connection, given: Callable[[Any], BatchRecord]) -> None:
    """Feed a writer what is made of records; see ``feed_records``."""
    waiting = ([given(one) for one in group] for group in groups(number))
    writer = Writer.open(open_home(path, create=True))
    for last in iter(pipe.recv, None):
        clock = Clock()
        for group in itertools.islice(waiting, number // ROUNDS):
            with clock:
                writer.write(batches=group)
                writer.merge_if_due()
        with clock:
            if last:
                writer.close()
        pipe.send((clock.seconds, clock.busy, peak_bytes()))


def feed_duckdb(path: Path, number: int, pipe: Connection) -> None:
    """Insert the same rows from Arrow tables, a round for each message; send seconds and memory."""
    waiting = tables(number)
    make_store(path / "bulk.duckdb")
    connection = duckdb.connect(path / "bulk.duckdb")
    connection.execute("SET enable_progress_bar = false").fetchall()
    for last in iter(pipe.recv, None):
        batches = pa.concat_tables(itertools.islice(waiting, number // ROUNDS)).combine_chunks()
        scores = score_rows(batches).drop_columns(PLACE)
        rows = {"batches": batches.drop_columns("scores"), "batch_scores": scores}
        del batches
        clock = Clock()
        with clock:
            for name, table in rows.items():
                connection.register("rows", table)
                connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM rows").fetchall()
            if last:
                connection.close()
        pipe.send((clock.seconds, clock.busy, peak_bytes()))


def bulk(folder: Path, wanted: int) -> None:
    """Feed all processes in turn and print the ratios of their rates."""
    number = max(round(wanted / (GROUP * SITES) / ROUNDS), 1) * ROUNDS
    context, pipes = multiprocessing.get_context("spawn"), []
    ways = {"rows": feed_rows, "records": feed_records, "bulk": feed_duckdb}
    for way, fed in ways.items():
        (folder / way).mkdir()
        ours, theirs = context.Pipe()
        context.Process(target=fed, args=(folder / way, number, theirs), daemon=True).start()
        # Where the process ends, receiving is an error and waits no longer.
        theirs.close()
        pipes.append(ours)
    answers: list[list[Answer]] = [[] for _ in pipes]
    for turn in range(ROUNDS):
        for pipe, received in zip(pipes, answers, strict=True):
            pipe.send(turn == ROUNDS - 1)
            received.append(pipe.recv())
    for pipe in pipes:
        pipe.send(None)
    *written, inserted = answers
    rows = number * GROUP * SITES
    print(f"{rows:,} rows in segments of {GROUP * SITES:,}")
    print(f"  DuckDB's bulk insert {rows / sum(a[0] for a in inserted):,.0f} rows/s")
    for way, each in zip(ways, written, strict=False):
        seconds, busy = (sum(a[k] for a in each) for k in (0, 1))
        whole, worked = (sum(a[k] for a in inserted) for k in (0, 1))
        ratios = sorted(d[0] / w[0] for w, d in zip(each, inserted, strict=True))
        print(f"  the writer from {way} {rows / seconds:,.0f} rows/s,")
        spread = f"{ratios[0]:.2f} to {ratios[-1]:.2f}"
        print(f"    ratio {whole / seconds:.2f} (rounds {spread}),", end=" ")
        print(f"of processor time {worked / busy:.2f}; {stored(folder / way):,} rows are stored")
        print(f"    peak memory after each round, MiB: {' '.join(str(a[2] >> 20) for a in each)}")


def stored(place: Path) -> int:
    """Return how many scores a home holds."""
    with duckdb.connect(place / "signatures.duckdb", read_only=True) as connection:
        return int(connection.execute("SELECT count(*) FROM batch_scores").fetchall()[0][0])


def single(folder: Path) -> None:
    """Make batches durable one by one, with and without merging, and bare files of their size."""
    made = [scores(n) for n in range(GROUP)]
    records, again = ([record(n, made) for n in range(k, k + SINGLE)] for k in (0, SINGLE))
    with Writer.open(open_home(folder / "single", create=True)) as writer:
        merged, grouped, alone, bare = Clock(), Clock(), Clock(), 0.0
        with merged:
            for one in records:
                writer.write(batches=[one])
                writer.merge_if_due()
            writer.merge()
        with grouped:
            for start in range(0, SINGLE, CALL):
                writer.write(batches=again[start : start + CALL])
                writer.merge_if_due()
            writer.merge()
        for one in records:
            with alone:
                writer.write(batches=[one])
            bare += bare_seconds(folder, one)
    print(f"{SITES} rows a segment: {rate(merged)} segments/s durable and merged on the way")
    print(f"  {rate(alone)} segments/s without merging, {SINGLE / bare:,.0f} bare files/s")
    print(f"  in calls of {CALL} batches: {rate(grouped)} batches/s durable and merged on the way")


def rate(clock: Clock) -> str:
    """Return how many of the single batches a second, by the clock and of the processor's time."""
    return f"{SINGLE / clock.seconds:,.0f} ({SINGLE / clock.busy:,.0f} of processor time)"


def bare_seconds(folder: Path, one: BatchRecord) -> float:
    """Return how long a file of a segment's size takes to be durable under its name."""
    path = write_segment(folder, run_table([]), batch_table([one]))
    content, fresh = path.read_bytes(), path.with_name("fresh")
    path.unlink()
    began = time.perf_counter()
    with fresh.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(folder)
    seconds = time.perf_counter() - began
    path.unlink()
    return seconds


def peak_bytes() -> int:
    """Return the most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Run both cases in a temporary folder."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        single(Path(folder))
        bulk(Path(folder), wanted)


if __name__ == "__main__":
    main()
