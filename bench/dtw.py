"""Benchmark of the matrix of warping distances, beside tslearn's.

``python bench/dtw.py`` draws 1,000 signatures of 50 to 500 sites, times their matrix (with and
without a band), and times ``tslearn.metrics.cdist_dtw(n_jobs=1)`` on some of them, whose time is
scaled by the number of cells of the recursion. It prints the times, the ratios, which are to be at
least 15, and the largest difference of the distances. ``--models`` and ``--subset`` make it larger
or smaller. It takes about half a minute on two free processors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.similarity.distances import distance_matrix
from analysis.statistics.dtw import dtw, squared_sums

Result = TypeVar("Result")

SHORTEST, LONGEST = 50, 500
BANDS = (None, 20)
WANTED = 15


def signatures(models: int) -> pd.DataFrame:
    """Return noise around slow waves, one row a run and site."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(SHORTEST, LONGEST + 1, models)
    ends = np.concatenate(([0], np.cumsum(sizes)))
    runs = np.repeat([f"r{number:04d}" for number in range(models)], sizes)
    sites = np.concatenate([np.arange(size) for size in sizes])
    waves = np.concatenate(
        [np.sin(np.linspace(0, rng.uniform(1, 9), stop - start)) for start, stop in pairwise(ends)]
    )
    affinity = 0.7 + 0.2 * waves + rng.normal(0, 0.05, len(sites))
    return pd.DataFrame({"run_id": runs, "model": runs, "site": sites, "affinity": affinity})


def timed(work: Callable[[], Result]) -> tuple[float, float, Result]:
    """Return seconds on the wall, seconds of processors, and what the work returned."""
    wall, processors = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - processors, result


def cells(curves: list[NDArray[np.float64]]) -> int:
    """Return the cells of the recursion over all pairs."""
    sizes = np.array([curve.size for curve in curves])
    return int((sizes.sum() ** 2 - (sizes**2).sum()) // 2)


def compare(models: int, subset: int, band: int | None) -> None:
    """Print one line: our matrix against tslearn's."""
    from tslearn.metrics import cdist_dtw
    from tslearn.utils import to_time_series_dataset

    frame = signatures(models)
    wall, processors, matrix = timed(lambda: distance_matrix(frame, "raw", band, cache=False))
    curves = [curve.values for curve in matrix.curves]
    series = to_time_series_dataset(curves[:subset])
    options = {} if band is None else {"sakoe_chiba_radius": band}
    cdist_dtw(series[:2], n_jobs=1, **options)
    their_wall, their_processors, theirs = timed(lambda: cdist_dtw(series, n_jobs=1, **options))
    # Theirs includes the diagonal, of which the cells are counted too.
    sizes = np.array([curve.size for curve in curves[:subset]])
    scale = cells(curves) / (cells(curves[:subset]) + int((sizes**2).sum()))
    error = np.abs(theirs - matrix.values[:subset, :subset]).max()
    print(
        f"band {band}: ours {wall:.2f} s ({processors:.2f} s of processors), tslearn"
        f" {their_wall * scale:.0f} s scaled from {subset} models; ratio"
        f" {their_wall * scale / wall:.1f}, of processor time"
        f" {their_processors * scale / processors:.1f} (wanted {WANTED});"
        f" largest difference {error:.1e}"
    )


def cached(models: int) -> None:
    """Print the seconds of a matrix with known distances, and of one with a model more."""
    with tempfile.TemporaryDirectory() as home:
        frame = signatures(models + 1)
        frame.attrs["home"] = home
        without = frame[frame["run_id"] != f"r{models:04d}"]
        cases = {"new": without, "known": without, "with one model more": frame}
        for case, wanted in cases.items():
            wall, _, _ = timed(partial(distance_matrix, wanted))
            print(f"cached, {case}: {wall:.2f} s")
        size = (Path(home) / "cache" / "distances.sqlite").stat().st_size
        print(f"the cache holds {size / 1e6:.1f} MB")


def main() -> None:
    """Print one line a band, and the cache's seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--subset", type=int, default=60)
    chosen = parser.parse_args()
    seconds, _, _ = timed(lambda: dtw([0.0], [1.0]))
    print(f"import of numba and machine code, compiled or read back: {seconds:.2f} s")
    seconds, _, _ = timed(lambda: squared_sums([np.zeros(2)] * 2, [[0, 1]]))
    print(f"one pair afterwards: {seconds * 1e6:.0f} microseconds")
    for band in BANDS:
        compare(chosen.models, chosen.subset, band)
    cached(chosen.models)


if __name__ == "__main__":
    main()
