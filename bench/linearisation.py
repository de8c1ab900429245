"""The experiment of linearisation with training: accuracy and path length, late and early.

``nice python bench/linearisation.py HOME`` sweeps omega over two of the digits networks and writes
its tables in Markdown to standard output. What HOME holds already is not trained again: the same
command goes on where it was stopped, and with ``--done`` it takes what is there.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
from scipy import stats

from catalog.open_home import open_home
from jobs.linearisation import Linearisation, planned_linearisations, run_linearisations
from jobs.planning.linearisation import LinearisationSweep
from jobs.runners.local import LocalRunner
from jobs.runners.options import RunnerOptions
from survey import LinearisationSettings

SWEEP: dict[str, Any] = {
    "omegas": (0.01, 0.02, 0.03, 0.05, 0.15),
    "beginnings": ("late", "early"),
    # A quarter of the images: with all, nearly every network is right of nearly every image.
    "train": "digits:train[:360]",
    "heldout": "digits:heldout",
    "settings": LinearisationSettings(epochs=8, plain_epochs=6, images_per_step=16),
}

#: Path lengths of the tables of gaps, and the confidence of their intervals.
LENGTHS, CONFIDENCE = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0), 0.95

Result = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--model", action="append")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--done", action="store_true", help="train nothing")
    options = parser.parse_args()
    home = open_home(options.home, create=True)
    for model in options.model or ("small:digits_vgg7", "small:digits_resnet14"):
        sweep = LinearisationSweep(models=(model,), seeds=range(options.seeds), **SWEEP)
        planned = planned_linearisations(home, sweep)
        if not options.done:
            runner = LocalRunner(RunnerOptions(device="cpu", threads=1))
            for job, failure in run_linearisations(home, planned, runner, lambda *_: None):
                sys.exit(f"{job.title}: {failure.message}")
            planned = planned_linearisations(home, sweep)
        print("\n".join(report(model, planned)), flush=True)


def report(model: str, planned: Sequence[Linearisation]) -> Iterator[str]:
    results = [each.result for each in planned if each.result is not None]
    yield f"### {model.removeprefix('small:')}\n"
    if not results:
        yield "Nothing is trained.\n"
        return
    full = results[0]["full_path_length_normalised"], results[0]["full_path_length"]
    seconds = sum(each["seconds_a_pass"] * len(each["passes"]) for each in results)
    yield (
        f"{len(results)} of {len(planned)} trainings; path length with every ReLU {full[0]:.2f}"
        f" (walk), {full[1]:.2f} (all paths); {seconds / 60:.0f} minutes of passes.\n"
    )
    yield "| beginning | omega | seeds | top-1 | path length, walk | all paths | active channels |"
    yield "|---|---|---|---|---|---|---|"
    grouped: dict[tuple[str, float], list[Result]] = defaultdict(list)
    for each in results:
        grouped[each["beginning"], each["settings"]["omega"]].append(each)
    for (beginning, omega), several in sorted(grouped.items(), reverse=True):
        cells = (
            spread([each[name] for each in several], digits)
            for name, digits in (
                ("top1", 3),
                ("path_length_normalised", 2),
                ("path_length", 2),
                ("active_fraction", 3),
            )
        )
        yield f"| {beginning} | {omega:g} | {len(several)} | {' | '.join(cells)} |"
    yield ""
    yield from gaps(results)
    yield from shapes(grouped)


def spread(values: Sequence[float], digits: int) -> str:
    deviation = f" ± {stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{mean(values):.{digits}f}{deviation}"


def gaps(results: Sequence[Result]) -> Iterator[str]:
    """Late minus early accuracy where both of a seed have a path length, between their points."""
    curves: dict[int, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
    for each in results:
        curves[each["settings"]["seed"]][each["beginning"]].append(each)
    yield "| path length, walk | seeds | late minus early | 95 % interval over seeds |"
    yield "|---|---|---|---|"
    for length in LENGTHS:
        found = [gap for both in curves.values() if (gap := gap_at(both, length)) is not None]
        if found:
            yield f"| {length:g} | {len(found)} | {mean(found):+.3f} | {interval(found)} |"
    yield ""


def gap_at(both: dict[str, list[Result]], length: float) -> float | None:
    late, early = (accuracy_at(both.get(name, ()), length) for name in ("late", "early"))
    return None if late is None or early is None else late - early


def accuracy_at(points: Sequence[Result], length: float) -> float | None:
    """Accuracy at a path length on the line through the points; None outside of them."""
    by_length: dict[float, list[float]] = defaultdict(list)
    for each in points:
        by_length[each["path_length_normalised"]].append(each["top1"])
    lengths = sorted(by_length)
    if not lengths or not lengths[0] <= length <= lengths[-1]:
        return None
    return float(np.interp(length, lengths, [mean(by_length[each]) for each in lengths]))


def interval(values: Sequence[float]) -> str:
    if len(values) < 2:
        return ""
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stdev(values) / len(values) ** 0.5
    return f"{mean(values) - reach:+.3f} to {mean(values) + reach:+.3f}"


def shapes(grouped: dict[tuple[str, float], list[Result]]) -> Iterator[str]:
    """Mean share of active channels of each ReLU, in percent, from the input to the output."""
    yield "Active channels, ReLU by ReLU from the input on, in percent (mean over seeds):\n"
    yield "| beginning | omega | shape |"
    yield "|---|---|---|"
    for (beginning, omega), several in sorted(grouped.items(), reverse=True):
        shares = np.mean(
            [
                [100 * site["active"] / site["channels"] for site in each["sites"]]
                for each in several
            ],
            axis=0,
        )
        yield f"| {beginning} | {omega:g} | {' '.join(f'{share:.0f}' for share in shares)} |"
    yield ""


if __name__ == "__main__":
    main()
