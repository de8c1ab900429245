"""A writer's life on a disk that loses power, drawn from a seed."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path, PurePosixPath
from unittest import mock

from catalog.home import Home, segment_paths
from catalog.store.reader import query
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from survey.errors import StoreError
from tests.catalog.records import SITES, batch, run
from tests.power_loss.disk import Disk, crash_at

STEPS = 14

ROWS = """
SELECT run_id, batch, any_value(batches.attempt) AS attempt, count(*) AS sites,
  min(affinity) AS low, max(affinity) AS high
FROM batches JOIN batch_scores USING (run_id, batch) GROUP BY ALL
"""
IMAGES = "SELECT run_id, images FROM runs"


@contextmanager
def recording(folder: Path) -> Iterator[Disk]:
    """Record what this process does to the files of a folder, call by call."""
    disk = Disk(folders={PurePosixPath(folder)})
    write, sync, replace, unlink = os.write, os.fsync, Path.replace, Path.unlink

    def path_of(descriptor: int) -> PurePosixPath | None:
        path = PurePosixPath(Path(f"/proc/self/fd/{descriptor}").readlink())
        return path if path.is_relative_to(folder) else None

    def recorded_write(descriptor: int, content: bytes) -> int:
        if path := path_of(descriptor):
            disk.create(path)
            disk.write(path, disk.size(path), bytes(content))
        return write(descriptor, content)

    def recorded_sync(descriptor: int) -> None:
        if path := path_of(descriptor):
            disk.sync(path)
        sync(descriptor)

    def recorded_replace(path: Path, other: Path) -> Path:
        if path.parent == folder:
            disk.create(PurePosixPath(path))
            disk.rename(PurePosixPath(path), PurePosixPath(other))
        return replace(path, other)

    def recorded_unlink(path: Path, missing_ok: bool = False) -> None:
        if path.parent == folder and path.exists():
            disk.unlink(PurePosixPath(path))
        unlink(path, missing_ok=missing_ok)

    with (
        mock.patch("os.write", recorded_write),
        mock.patch("os.fsync", recorded_sync),
        mock.patch.object(Path, "replace", recorded_replace),
        mock.patch.object(Path, "unlink", recorded_unlink),
    ):
        yield disk


class SpoolLife:
    """Writes, merges, reads, damage and crashes, with what must be there after each."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home, self.chance, self.numbers = home, random.Random(seed), count(1)
        #: What was acknowledged: attempt and affinity by run and batch, images by run.
        self.rows: dict[tuple[str, int], tuple[int, float]] = {}
        self.images: dict[str, int] = {}
        #: The same at each acknowledgement since the last merge.
        self.past: list[tuple[int, dict, dict]] = []

    def live(self) -> None:
        """Do so many random things."""
        with recording(self.home.spool) as self.disk:
            self.writer = Writer.open(self.home)
            self.past = [(self.disk.now, self.rows, self.images)]
            try:
                for _ in range(STEPS):
                    deed = self.chance.choice(
                        [
                            *(self.write, self.write, self.write, self.merge, self.look),
                            *(self.intrude, self.flip, self.lose_power, self.lose_power),
                            self.die_merging,
                        ]
                    )
                    deed()
                self.look()
            finally:
                self.writer._lock.release()

    def write(self) -> None:
        records, name = [], self.chance.choice("ab")
        for _ in range(self.chance.randint(1, 3)):
            number, attempt = self.chance.randrange(4), self.chance.randint(1, 3)
            affinity = next(self.numbers) / 1000
            records.append(BatchRecord(name, attempt, batch(number, affinity), 512))
        images = next(self.numbers)
        self.writer.write([run(name, images=images)], records)
        self.images = {**self.images, name: images}
        for record in records:
            key, kept = (name, record.batch.batch), self.rows.get((name, record.batch.batch))
            if kept is None or kept[0] < record.attempt:
                affinity = record.batch.scores[0].affinity
                self.rows = {**self.rows, key: (record.attempt, affinity)}
        self.past.append((self.disk.now, self.rows, self.images))

    def merge(self) -> None:
        self.writer.merge()
        self.past = [(self.disk.now, self.rows, self.images)]

    def look(self) -> None:
        rows = query(self.home, ROWS).to_pylist()
        stored = {(r["run_id"], r["batch"]): (r["attempt"], r["low"]) for r in rows}
        assert stored == self.rows
        assert all(row["sites"] == SITES and row["low"] == row["high"] for row in rows)
        images = {row["run_id"]: row["images"] for row in query(self.home, IMAGES).to_pylist()}
        assert images == self.images

    def intrude(self) -> None:
        try:
            Writer.open(self.home)
        except StoreError:
            return
        raise AssertionError("two writers at once")

    def flip(self) -> None:
        if not (paths := segment_paths(self.home.spool)):
            return
        path = self.chance.choice(paths)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[self.chance.randrange(len(whole))] ^= 1 << self.chance.randrange(8)
        path.write_bytes(damaged)
        try:
            self.look()
        except StoreError:
            pass
        else:
            raise AssertionError("a damaged segment was read")
        finally:
            path.write_bytes(whole)

    def lose_power(self) -> None:
        """Leave what a crash leaves, at a moment since the last merge; go on from there."""
        now = self.disk.now
        moment = self.chance.choice((now, self.chance.randint(self.past[0][0], now)))
        crash = crash_at(self.disk, moment, self.chance)
        spool = PurePosixPath(self.home.spool)
        files = crash.files(self.disk)
        left = {path: content for path, content in files.items() if path.parent == spool}
        self.writer._lock.release()
        for path in self.home.spool.iterdir():
            path.unlink()
        for path, content in left.items():
            Path(path).write_bytes(content)
        _, rows, images = [state for state in self.past if state[0] <= crash.moment][-1]
        seen = query(self.home, ROWS).to_pylist()
        # What was not acknowledged may have lasted too.
        self.rows = {(row["run_id"], row["batch"]): (row["attempt"], row["low"]) for row in seen}
        seen = query(self.home, IMAGES).to_pylist()
        self.images = {row["run_id"]: row["images"] for row in seen}
        assert all(self.rows.get(key, (0, 0))[0] >= attempt for key, (attempt, _) in rows.items())
        assert all(self.images.get(name, 0) >= number for name, number in images.items())
        self._remember(left)
        self.writer = Writer.open(self.home)

    def _remember(self, left: dict[PurePosixPath, bytes]) -> None:
        """Begin the record anew with the files that were left, which are durable."""
        self.disk.__init__(folders=self.disk.folders)  # type: ignore[misc]
        for path, content in left.items():
            self.disk.create(path)
            self.disk.write(path, 0, content)
            self.disk.sync(path)
        self.disk.sync(PurePosixPath(self.home.spool))
        self.past = [(self.disk.now, self.rows, self.images)]

    def die_merging(self) -> None:
        """Leave segments that were merged, and merge them again."""
        dying = mock.patch("catalog.store.writer._leave_spool", side_effect=KeyboardInterrupt)
        with dying, suppress(KeyboardInterrupt):
            self.writer.merge()
        self.write()
        self.merge()
        self.look()
