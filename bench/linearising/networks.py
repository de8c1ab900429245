"""The digits networks, trained by sweeps as ``survey linearise`` makes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.linearising.row import trained_row
from catalog.models.cifar import BUNDLED
from catalog.open_home import open_home
from jobs.linearisation import planned_linearisations, run_linearisations
from jobs.planning.linearisation import LinearisationSweep
from jobs.runners.local import LocalRunner
from jobs.runners.options import RunnerOptions
from survey import LinearisationSettings

#: Networks that are trained with every seed.
WHOLE = ("digits_vgg7", "digits_resnet14")

#: Seeds of the others, of which most take longer.
SEEDS_OF_OTHERS = 3

SWEEP: dict[str, Any] = {
    "omegas": (0.01, 0.02, 0.03, 0.05, 0.15),
    "beginnings": ("late", "early"),
    # A quarter of the images: with all, nearly every network is right of nearly every image.
    "train": "digits:train[:360]",
    "heldout": "digits:heldout",
    "settings": LinearisationSettings(epochs=8, plain_epochs=6, images_per_step=16),
}


def network_rows(path: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Train what a home does not hold yet, and yield a row for each training."""
    home = open_home(path, create=True)
    for name in (*WHOLE, *(each for each in BUNDLED if each not in WHOLE)):
        several = seeds if name in WHOLE else min(seeds, SEEDS_OF_OTHERS)
        sweep = LinearisationSweep(models=(f"small:{name}",), seeds=range(several), **SWEEP)
        runner = LocalRunner(RunnerOptions(device="cpu", threads=1))
        planned = planned_linearisations(home, sweep)
        for job, failure in run_linearisations(home, planned, runner, lambda *_: None):
            sys.exit(f"{job.title}: {failure.message}")
        for each in planned_linearisations(home, sweep):
            assert each.result is not None
            yield trained_row("network", name, each.job.beginning, each.result)
