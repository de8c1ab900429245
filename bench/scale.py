"""What a scan takes on many GPUs, predicted from its parts, and the predictions held to the clock.

    python -m bench.scale PHOTOGRAPHS      # a folder of pictures; some 15 minutes

Small scans of 4 to 32 workers give the parts of a scan's time: planning, the starts of Ray and of
workers, what a job and a batch cost its worker and the driver, which dispatches and writes. From
them scans of 1, 2, 8, 32 and 64 workers are predicted, and then run: real scans on a local Ray
whose workers sleep in place of forward passes. At last 1,826 checkpoints on 50,000 images are
predicted for 1, 8, 64 and 512 GPUs, each with 16 cores, with what is lost to what; the rest is what
workers do beside their batches, and the last jobs, for which others wait.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from pathlib import Path

from bench.scaling.asleep import Load, scan
from bench.scaling.parts import Parts, measured
from bench.scaling.simulated import Prediction, predicted
from catalog.datasets import open_dataset
from catalog.models.base import InputTransform

WORKERS, A_WORKER, BATCHES, SECONDS = (1, 2, 8, 32, 64), 8, 20, 0.5

#: The survey that is too large for this machine. Loading and the seconds of a batch are assumed: a
#: device that passes 512 images in 0.2 s and never waits, and one that waits for its scores.
CHECKPOINTS, IMAGES, PER_SCORE, GPUS, CORES = 1826, 50_000, 512, (1, 8, 64, 512), 16
LOADING, PACES = 5.0, (0.2, 1.0)

DRIVER = ("round", "watch", "job", "take", "batch")


def decoding(photographs: str) -> float:
    """Return the processor seconds that one photograph takes until it is cut to 224 pixels."""
    dataset = open_dataset(f"folder:{photographs}", Path())
    began = time.process_time()
    count = sum(1 for _ in dataset.samples(InputTransform(size=224, resize=256)))
    return (time.process_time() - began) / count


def survey(parts: Parts, gpus: int, pace: float, decode: float) -> Prediction:
    """Predict the large survey; each worker decodes the images that its first job needs."""
    batches = IMAGES // PER_SCORE
    first = max(pace, PER_SCORE * decode / CORES)
    jobs = [(batches, first if job < gpus else pace, LOADING) for job in range(CHECKPOINTS)]
    return predicted(parts, gpus, jobs, alone=True)


def print_survey(parts: Parts, decode: float) -> None:
    """Print the large survey's hours, and what keeps them above their fair share."""
    free = dataclasses.replace(parts, **dict.fromkeys(DRIVER, 0.0))
    prompt = dataclasses.replace(free, planning=0.0, plan=0.0, ray=0.0, worker=0.0, closing=0.0)
    print("s a batch  GPUs    hours  of the fair share  lost to driver  starts     rest     busy")
    for pace in PACES:
        fair = CHECKPOINTS * (IMAGES // PER_SCORE * pace + LOADING)
        for gpus in GPUS:
            whole, without, best = (
                survey(each, gpus, pace, decode) for each in (parts, free, prompt)
            )
            driver, starts = whole.seconds - without.seconds, without.seconds - best.seconds
            rest = best.seconds - fair / gpus
            lost = "".join(f"{part / whole.seconds:9.1%}" for part in (driver, starts, rest))
            hours, share = f"{whole.seconds / 3600:9.2f}", f"{fair / gpus / whole.seconds:19.1%}"
            print(f"{pace:9.1f}{gpus:6}{hours}{share}{lost}{whole.driver:9.1%}", flush=True)


def main(photographs: str) -> None:
    """Measure, predict, run and print."""
    decode = decoding(photographs)
    parts, quiet = measured()
    print("ms: here, and as a quiet machine has it")
    for name, seconds in dataclasses.asdict(parts).items():
        print(f"{name:10}{1e3 * seconds:12.3f}{1e3 * getattr(quiet, name):12.3f}")
    print(f"decoding  {1e3 * decode:12.3f}")
    print("workers  predicted, s  real, s  ratio", flush=True)
    for workers in WORKERS:
        load = Load(workers, workers * A_WORKER, BATCHES, SECONDS)
        expected = predicted(parts, workers, [(BATCHES, SECONDS, 0.0)] * load.jobs).seconds
        real = scan(load).ended_at
        print(f"{workers:7}{expected:14.1f}{real:9.1f}{expected / real:7.2f}", flush=True)
    # There the driver and every worker have machines of their own.
    print_survey(quiet, decode)


if __name__ == "__main__":
    main(sys.argv[1])
