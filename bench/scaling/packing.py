"""What a batch costs the driver of a scan, as records and with its row made by the worker.

    python -m bench.scaling.packing

Prints microseconds a batch of ResNet-50's 49 sites, of the calling thread's processor time.
"""

from __future__ import annotations

import pickle
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.writer import record, scores
from catalog.open_home import open_home
from catalog.store.arrow_rows import batch_table, packed
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer

REPEATS, TOGETHER = 200, 20


def microseconds(step: Callable[[int], object], batches: int = 1) -> float:
    """Return what a step costs a batch."""
    step(0)
    began = time.thread_time()
    for number in range(0, REPEATS, batches):
        step(number)
    return 1e6 * (time.thread_time() - began) / REPEATS


def costs(records: list[BatchRecord], writer: Writer) -> dict[str, float]:
    """Return the microseconds of each step."""
    sent = [pickle.dumps(each, protocol=5) for each in records]

    steps: list[tuple[str, Callable[[list[BatchRecord]], object]]] = [
        ("table", batch_table),
        ("write", lambda batches: writer.write(batches=batches)),
    ]
    taken = {
        "sending": microseconds(lambda n: pickle.dumps(records[n], protocol=5)),
        "receiving": microseconds(lambda n: pickle.loads(sent[n])),
    }
    for what, step in steps:
        for size in (1, TOGETHER):

            def together(n: int, do: Any = step, size: int = size) -> None:
                do(records[n : n + size])

            taken[f"{what} of {size}"] = microseconds(together, size)
    return taken


def main() -> None:
    """Print the steps of both ways."""
    made = [scores(number) for number in range(TOGETHER)]
    records = [record(number, made) for number in range(REPEATS)]
    print(f"making the row {microseconds(lambda n: packed(records[n])):10.0f}")
    with (
        tempfile.TemporaryDirectory() as folder,
        Writer.open(open_home(Path(folder), create=True)) as writer,
    ):
        plain, rows = (costs(each, writer) for each in (records, list(map(packed, records))))
    for step in plain:
        print(f"{step:14} {plain[step]:10.0f} {rows[step]:10.0f}")


if __name__ == "__main__":
    main()
