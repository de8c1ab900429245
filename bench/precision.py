"""Batches that a precision needs: CIFAR ResNet-20's real spread, over 50,000 images simulated.

    python bench/precision.py CHECKPOINT IMAGES

CHECKPOINT is a file of weights for small:cifar_resnet20, IMAGES a folder of pictures by class. The
batch scores of 512 images are measured; then surveys of 97 such batches (the paper's 50,000 images)
are drawn from each site's mean and deviation, and stopped as ``--precision`` stops them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from catalog.open_home import open_home
from catalog.store.reader import query
from jobs.planning.definition import parse_definition
from jobs.run import run_survey
from jobs.runners.local import LocalRunner
from jobs.runners.options import RunnerOptions
from jobs.scan.reporter import Reporter
from survey import MeasureSettings
from survey.stopping import Spread

IMAGES, PER_SCORE, REPEATS = 50_000, 512, 200
PRECISIONS = (0.01, 0.005, 0.0025)


def measured(checkpoint: str, images: str) -> tuple[np.ndarray, np.ndarray]:
    """Return each site's mean and deviation over real batches."""
    values = {
        "models": [{"name": "small:cifar_resnet20", "checkpoints": [f"file:{checkpoint}"]}],
        "datasets": [{"name": f"folder:{images}"}],
        "settings": {"images_per_score": PER_SCORE},
    }
    with tempfile.TemporaryDirectory() as folder:
        home = open_home(Path(folder) / "home", create=True)
        definition = parse_definition(values, "precision", Path())
        run_survey(home, definition, LocalRunner(RunnerOptions(device="cpu")), Reporter())
        spread = query(
            home,
            "SELECT avg(affinity) AS mean, stddev_samp(affinity) AS std FROM batch_scores"
            " GROUP BY site ORDER BY site",
        )
    return spread["mean"].to_numpy(), spread["std"].to_numpy()


def needed(mean: np.ndarray, std: np.ndarray, precision: float, seed: int) -> int:
    """Return the batches one simulated survey needs; all of them if the precision is not met."""
    settings = MeasureSettings(precision=precision)
    drawn = np.random.default_rng(seed).normal(mean, std, (IMAGES // PER_SCORE, len(mean)))
    spread = Spread()
    for batch in drawn:
        spread.add(enumerate(batch))
        if spread.reaches(settings):
            break
    return spread.batches


def main(checkpoint: str, images: str) -> None:
    """Measure, simulate and print."""
    mean, std = measured(checkpoint, images)
    whole = IMAGES // PER_SCORE
    print(f"{len(mean)} sites; deviations over batches of {PER_SCORE}: {std.min():.4f} to"
          f" {std.max():.4f}")  # fmt: skip
    print(f"the paper's {IMAGES} images are {whole} batches: {std.max() / whole**0.5:.5f}")
    for precision in PRECISIONS:
        counts = [needed(mean, std, precision, seed) for seed in range(REPEATS)]
        low, middle, high = np.percentile(counts, (5, 50, 95))
        print(f"precision {precision:g}: {middle:.0f} batches ({low:.0f} to {high:.0f}),"
              f" {middle * PER_SCORE:.0f} images")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:3])
