"""Every home that a loss of power could leave: no acknowledged row is missing, none doubled."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.store.reader import reading
from jobs.scan.reporter import Reporter
from survey.errors import SettingsError
from tests.power_loss.disk import Crash, Disk, crashes
from tests.power_loss.scan import scan
from tests.power_loss.trace import recorded

#: How many different homes are looked at, and how many of them are completed by a next run.
STATES, COMPLETED = 2000, 50

ROWS = """
SELECT run_id, batch, count(*) AS sites, count(DISTINCT site) AS different,
  hash(list(struct_pack(site, affinity, cka, norm) ORDER BY site)) AS scores
FROM batch_scores GROUP BY ALL
"""
BATCHES = "SELECT run_id, batch, count(*) AS rows FROM batches GROUP BY ALL"
DONE = "SELECT run_id FROM runs WHERE status = 'done'"


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> tuple[Disk, Path]:
    """Record a survey; return what it did to its disk, and its home."""
    folder = tmp_path_factory.mktemp("recorded")
    home = folder / "home"
    disk = recorded(["tests.power_loss.scan", str(home)], home, folder / "record")
    return disk, home


def laid_out(files: dict[PurePosixPath, bytes], recorded_home: Path, home: Path) -> None:
    """Write a home as a loss of power left it, with the folders that the next run would make."""
    shutil.rmtree(home, ignore_errors=True)
    for folder in ("spool", "logs", "cache"):
        (home / folder).mkdir(parents=True)
    for path, content in files.items():
        place = home / path.relative_to(recorded_home)
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)


def digest(files: dict[PurePosixPath, bytes]) -> bytes:
    """Return a hash of a state: of the names and contents of its files."""
    hashed = hashlib.blake2b(digest_size=16)
    for path, content in sorted(files.items()):
        hashed.update(f"{path} {len(content)} ".encode() + content)
    return hashed.digest()


@dataclass(frozen=True)
class Stored:
    """What a home holds."""

    #: The sites and a hash of the scores of each batch.
    scores: dict[tuple[str, int], tuple[int, int, int]]
    #: How many rows each batch has.
    batches: Counter[tuple[str, int]]
    #: The runs that are done.
    done: set[str]


def stored(home: Path) -> Stored:
    """Read a home, by one connection."""
    with reading(open_home(home, create=False)) as connection:
        scores, batches, done = (
            connection.execute(sql).fetchall() for sql in (ROWS, BATCHES, DONE)
        )
    return Stored(
        {
            (run, batch): (sites, different, hashed)
            for run, batch, sites, different, hashed in scores
        },
        Counter({(run, batch): rows for run, batch, rows in batches}),
        {run for (run,) in done},
    )


def promised(disk: Disk, crash: Crash) -> tuple[set[tuple[str, int]], set[str]]:
    """Return the batches and the ends of runs that were acknowledged before a crash."""
    lines = [json.loads(line) for when, line in disk.acknowledged if when < crash.moment]
    batches = {(line["run"], line["batch"]) for line in lines if "batch" in line}
    return batches, {line["run"] for line in lines if "done" in line}


def faults(disk: Disk, crash: Crash, home: Path, true: Stored) -> Iterable[str]:
    """Yield what is wrong with a home that a crash left."""
    batches, done = promised(disk, crash)
    try:
        left = stored(home)
    except SettingsError:
        # Power was lost before the home was made.
        yield from ["the home is gone"] * bool(batches)
        return
    if missing := batches - left.scores.keys():
        yield f"acknowledged batches are missing: {sorted(missing)}"
    if wrong := {key for key, row in left.scores.items() if row != true.scores[key]}:
        yield f"batches have other scores, or scores twice: {sorted(wrong)}"
    if left.batches != Counter(left.scores.keys()):
        yield f"batches and scores differ: {left.batches}"
    if done - left.done:
        yield f"ends of runs are missing: {done - left.done}"
    opened = open_home(home, create=False)
    if opened.registry.exists():
        with Registry(opened) as registry:
            finished = {job.run_id for job in registry.jobs() if job.state == "done"}
        if finished - left.done:
            yield f"the registry knows ends that the store does not: {finished - left.done}"
    elif batches:
        yield "the registry is gone"


@pytest.mark.long
@pytest.mark.slow(seconds=600)
@pytest.mark.timeout(3600)
def test_no_loss_of_power_loses_or_doubles_a_row(truth, tmp_path):
    disk, whole = truth
    left = Crash(disk.now, {}).files(disk)
    assert left == {path: Path(path).read_bytes() for path in left}, "the record is not whole"
    true, seen, wrong = stored(whole), set(), []
    for crash in crashes(disk, random.Random(5)):
        files = crash.files(disk)
        if (state := digest(files)) in seen:
            continue
        seen.add(state)
        home = tmp_path / "home"
        laid_out(files, whole, home)
        wrong += [(crash.moment, fault) for fault in faults(disk, crash, home, true)]
        if len(seen) % (STATES // COMPLETED) == 0:
            scan(home, Reporter())
            assert stored(home) == true
        if len(seen) == STATES:
            break
    assert not wrong
