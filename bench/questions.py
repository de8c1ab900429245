"""Seconds of every verb that answers from a home of 1,000 models.

``python -m bench.questions [HOME] [MODELS] [VERB...]`` makes the home where there is none: smooth
signatures of 8 to 150 sites, four batches each, eight families, two weights an architecture. Then
it runs the verbs one after the other, each in a process of its own with the distances not yet
known, and prints a table of verb, seconds and goal. The goal is of processor seconds; of the
report, which takes all cores, it is of the time until it ends.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.large_home import run_record
from bench.writer import IMAGES, scores
from catalog.home import Home
from catalog.open_home import open_home
from catalog.store.arrow_rows import batch_table, run_table
from catalog.store.records import BatchRecord, RunRecord
from catalog.store.segments import write_segment
from catalog.store.writer import Writer
from survey.results import BatchScores, SiteScore

MODELS, BATCHES, FAMILIES = 1000, 4, 8

#: Fewest and most sites of a model.
SITES = 8, 150

#: Models of a segment.
_SEGMENT = 50

#: Seconds: of the report until it is there, of the processor for k-means and each other verb.
REPORT, KMEANS, GOAL = 120, 60, 5

#: Verbs whose goal is of the time until they end: they work with all cores.
WAITED = {"report --out HERE"}

#: The verbs by their goals. HERE is a folder that the report may write to, MODEL a run's id.
VERBS = {
    "cluster": GOAL,
    "cluster --normalisation raw": GOAL,
    "cluster --stability 25": GOAL,
    "cluster --kmeans --clusters 8": KMEANS,
    "neighbours": GOAL,
    "neighbours MODEL": GOAL,
    "neighbours --families": GOAL,
    "neighbours --novelty": GOAL,
    "correlate": GOAL,
    "regress": GOAL,
    "timeline": GOAL,
    "trend --against year": GOAL,
    "compare distributions": GOAL,
    "compare residual": GOAL,
    "compare twins": GOAL,
    "compare datasets": GOAL,
    "compare checkpoints": GOAL,
    "compare training": GOAL,
    "compare paper --ridge *": GOAL,
    "drift": GOAL,
    "show MODEL": GOAL,
    "sql SELECT~role,~avg(affinity)~FROM~latest_signatures~GROUP~BY~ALL": GOAL,
    "status": GOAL,
    "plan --model resnet50 --dataset digits --limit 512": GOAL,
    "models": GOAL,
    "checkpoints": GOAL,
    "tag": GOAL,
    "report --out HERE": REPORT,
}


def signature(number: int) -> list[list[float]]:
    """Return a model's affinities by batch and site: a wave of its family, and noise."""
    rng = np.random.default_rng(number)
    sites = int(rng.integers(SITES[0], SITES[1] + 1))
    depths = np.linspace(0, 1, sites)
    kind = number % FAMILIES
    wave = 0.7 + 0.15 * np.sin((1 + kind % 4) * np.pi * depths + kind) + 0.05 * rng.normal()
    site = rng.normal(0, 0.05, sites)
    noise = rng.normal(0, 0.01, (BATCHES, sites))
    drawn: list[list[float]] = np.clip(wave + site + noise, 0, 1).tolist()
    return drawn


def batch(
    run: RunRecord, place: int, affinities: list[float], made: list[SiteScore]
) -> BatchRecord:
    """Return one batch of a run."""
    rows = tuple(
        dataclasses.replace(
            made[site % len(made)],
            batch=place,
            site=site,
            place=dataclasses.replace(
                made[site % len(made)].place, site_name=f"site{site}", graph_depth=site + 1
            ),
            affinity=affinity,
        )
        for site, affinity in enumerate(affinities)
    )
    scored = BatchScores(place, IMAGES, rows, IMAGES, 400, 480, 1.5)
    end = IMAGES * (place + 1)
    return BatchRecord(run.run_id, 1, scored, end, (), 64, 2, "Xeon", "node7")


def record(number: int, models: int) -> RunRecord:
    """Return the row of a model: two weights of each architecture, on one dataset."""
    architecture = number % (models // 2)
    family = architecture % FAMILIES
    made = run_record(architecture % 200)
    name = f"{str(made.family).lower()}_{architecture}"
    return dataclasses.replace(
        made,
        **{each: getattr(run_record(number), each) for each in ("run_id", "job_key")},
        architecture=name,
        family_group="residual" if family % 2 else "plain",
        checkpoint=f"file:/srv/weights/{name}/{number // (models // 2)}.pth",
        checkpoint_sha256=run_record(number).checkpoint_sha256,
        dataset="imagenet:val[:2048]",
        measured_top1=0.5 + (number * 7919 % 1000) / 2000,
        images=IMAGES * BATCHES,
        batches=BATCHES,
        sites=len(signature(number)[0]),
    )


def make_home(path: Path, models: int) -> Home:
    """Return a home of so many models, made unless it is there."""
    if path.exists():
        return open_home(path, create=False)
    making = path.with_name(f"{path.name}.making")
    home = open_home(making, create=True)
    made = [list(scores(number)) for number in range(20)]
    with Writer.open(home) as writer:
        for first in range(0, models, _SEGMENT):
            numbers = range(first, min(first + _SEGMENT, models))
            runs = [record(number, models) for number in numbers]
            batches = [
                batch(run, place, affinities, made[(number + place) % len(made)])
                for number, run in zip(numbers, runs, strict=True)
                for place, affinities in enumerate(signature(number))
            ]
            write_segment(home.spool, run_table(runs), batch_table(batches))
        writer.merge()
    return open_home(making.rename(path), create=False)


def answered(arguments: list[str]) -> tuple[float, float, int, bytes]:
    """Return what a command took: of the clock, and of the processor with its children.

    Beside both its exit status and its last line.
    """
    command = [str(Path(sys.executable).with_name("survey")), *arguments]
    # Without byte code that is kept, compiling the libraries takes longer than most answers.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    began = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=errors, env=environment
        )
        _, status, used = os.wait4(process.pid, 0)
        waited = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        lines = errors.read().splitlines()
    last = lines[-1] if lines else b""
    return waited, used.ru_utime + used.ru_stime, process.returncode, last


def main(path: Path, models: int, verbs: list[str]) -> None:
    """Print a line a verb."""
    home = make_home(path, models)
    known = home.cache / "distances.sqlite"
    head = f"| verb, {models:,} models | seconds | of the processor | goal |\n|---|---|---|---|"
    print(head, flush=True)
    for verb in verbs:
        known.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            names = {"HERE": f"{folder}/report", "MODEL": run_record(0).run_id}
            words = [names.get(each, each.replace("~", " ")) for each in verb.split()]
            waited, worked, status, line = answered(["--home", str(path), *words])
        message = line.decode(errors="replace").replace("|", "/")
        failed = f" (exit code {status}: {message})" if status else ""
        shown = verb.replace("~", " ")
        seconds, goal = waited if verb in WAITED else worked, VERBS.get(verb, GOAL)
        print(f"| {shown}{failed} | {seconds:.1f} | {worked:.1f} | {goal} |", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made_here:
        place = Path(sys.argv[1]) if sys.argv[1:] else Path(made_here) / "home"
        main(place, int(sys.argv[2]) if sys.argv[2:] else MODELS, sys.argv[3:] or list(VERBS))
