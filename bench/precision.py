"""Batches that a precision needs: a network's real spread, simulated over 50,000 images.

    python bench/precision.py MODEL CHECKPOINT IMAGES [PER_SCORE]

CHECKPOINT is a file of weights for MODEL, such as small:cifar_resnet20, IMAGES a folder of
pictures by class. Batch scores of PER_SCORE images (512 by default) are measured in eight orders of
the images; then surveys of the paper's 50,000 images are drawn from each site's mean and deviation
within an order, and stopped as ``--precision`` stops them.

Without arguments it prints how often the interval of a single site's mean holds, by the skewness of
its scores, at precisions of 0.5, 0.3 and 0.2 of their deviation.
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
from survey.stopping import Spread, mean_interval

IMAGES, PER_SCORE, REPEATS = 50_000, 512, 200
PRECISIONS, ORDERS = (0.01, 0.005, 0.0025, 0.001), range(8)

#: Skewnesses, surveys and batches of each, and precisions of a single site's simulation.
SKEWNESSES, SURVEYS, LAST, RELATIVE = (0.0, 0.35, 0.7, 1.2, 2.0), 6000, 150, (0.5, 0.3, 0.2)


def measured(model: str, checkpoint: str, images: str, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return each site's mean and deviation over real batches, as of an unlimited set of images.

    Batches of one order share no image, so that their variance is that of independent ones.
    """
    values = {
        "models": [{"name": model, "checkpoints": [f"file:{checkpoint}"]}],
        "datasets": [{"name": f"folder:{images}", "order_seed": seed} for seed in ORDERS],
        "settings": {"images_per_score": size, "metrics": ["affinity"]},
    }
    with tempfile.TemporaryDirectory() as folder:
        home = open_home(Path(folder) / "home", create=True)
        definition = parse_definition(values, "precision", Path())
        outcome = run_survey(home, definition, LocalRunner(RunnerOptions(device="cpu")), Reporter())
        assert not outcome.failed, outcome.failed[0]
        spread = query(
            home,
            "SELECT avg(mean) AS mean, sqrt(avg(variance)) AS std FROM (SELECT site, avg(affinity)"
            " AS mean, var_samp(affinity) AS variance FROM batch_scores GROUP BY site, run_id)"
            " GROUP BY site ORDER BY site",
        )
    return spread["mean"].to_numpy(), spread["std"].to_numpy()


def needed(mean: np.ndarray, std: np.ndarray, precision: float, size: int, seed: int) -> int:
    """Return the batches one simulated survey needs; all of them if the precision is not met."""
    settings = MeasureSettings(precision=precision)
    drawn = np.random.default_rng(seed).normal(mean, std, (IMAGES // size, len(mean)))
    spread = Spread()
    for batch in drawn:
        spread.add(enumerate(batch))
        if spread.reaches(settings):
            break
    return spread.batches


def scores(skewness: float, rng: np.random.Generator) -> np.ndarray:
    """Return batch scores of mean 0 and deviation 1, gamma distributed towards lower ones."""
    if skewness == 0:
        return rng.normal(size=LAST)
    shape = 4 / skewness**2
    return np.asarray((shape - rng.gamma(shape, size=LAST)) / shape**0.5)


def held(skewness: float, precision: float) -> float:
    """Return how often the interval of a site that decides alone holds its mean."""
    rng, count = np.random.default_rng(1), 0
    settings = MeasureSettings(precision=precision)
    for _ in range(SURVEYS):
        drawn, spread = scores(skewness, rng), Spread()
        for score in drawn:
            spread.add([(0, score)])
            if spread.reaches(settings):
                break
        low, high = mean_interval(drawn[: spread.batches])
        count += low <= 0 <= high
    return count / SURVEYS


def main(model: str, checkpoint: str, images: str, per_score: str = str(PER_SCORE)) -> None:
    """Measure, simulate and print."""
    size = int(per_score)
    mean, std = measured(model, checkpoint, images, size)
    whole = IMAGES // size
    print(f"{len(mean)} sites; deviations over batches of {size}: {std.min():.4f} to"
          f" {std.max():.4f}")  # fmt: skip
    print(f"the paper's {IMAGES} images are {whole} batches: {std.max() / whole**0.5:.5f}")
    for precision in PRECISIONS:
        counts = [needed(mean, std, precision, size, seed) for seed in range(REPEATS)]
        low, middle, high = np.percentile(counts, (5, 50, 95))
        print(f"precision {precision:g}: {middle:.0f} batches ({low:.0f} to {high:.0f}),"
              f" {middle * size:.0f} images, {IMAGES / middle / size:.1f} times fewer"
              f" ({IMAGES / high / size:.1f} to {IMAGES / low / size:.1f})")  # fmt: skip


if __name__ == "__main__":
    if sys.argv[1:]:
        main(*sys.argv[1:5])
    else:
        for each in SKEWNESSES:
            print(f"skewness {each:g}:", *(f"{held(each, at):.3f}" for at in RELATIVE), flush=True)
