"""Figures of speed and memory beside their targets, in one table.

    OMP_NUM_THREADS=1 python -m bench.targets PHOTOGRAPHS [--only overhead scores]

Runs the benchmarks one after the other, each in a process of its own, which takes over an hour of
a quiet machine and 20 GB of disk in the current folder. PHOTOGRAPHS is a folder of 512 pictures or
more by class. What the benchmarks print goes to standard error as it comes, and the lines of the
table to standard output when a benchmark ends.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Stands for the folder of photographs in a command.
_PHOTOGRAPHS = "PHOTOGRAPHS"

_NETWORKS = (
    *("vgg16", "vit_b_16", "convnext_tiny", "efficientnet_b0", "resnet50", "mnasnet1_0"),
    "densenet121",
)


@dataclass(frozen=True)
class Figures:
    """Figures of a benchmark's table."""

    #: What they are.
    title: str
    #: The module and its arguments.
    command: tuple[str, ...]
    #: The columns of its figures and of their targets.
    figure: str
    target: str = "target"
    #: Whether the target is the least, and not the most.
    least: bool = False


FIGURES = {
    "overhead": (
        Figures("survey over bare pass", ("bench.scoring.overhead", _PHOTOGRAPHS, "all"), "ratio"),
    ),
    "memory": (
        Figures(
            "memory over that of a bare micro-batch and the pairs",
            ("bench.scoring.overhead", _PHOTOGRAPHS, "all", "--memory"),
            "ratio",
        ),
    ),
    "scores": (
        Figures(
            "processor seconds of all metrics",
            ("bench.scoring.scores", _PHOTOGRAPHS, *_NETWORKS),
            "all metrics, s",
            "goal, s",
        ),
        Figures(
            "published score over ours",
            ("bench.scoring.scores", _PHOTOGRAPHS, *_NETWORKS),
            "published / affinity",
            "goal",
            least=True,
        ),
    ),
    "accelerator": (
        Figures(
            "busy device of 0.2 s a batch on 16 cores, by arithmetic",
            ("bench.scoring.accelerator", _PHOTOGRAPHS),
            "device busy",
            "goal",
            least=True,
        ),
    ),
    "queries": (
        Figures(
            "query of 100 million scores over scans",
            ("bench.scaling.stored_scores",),
            "times",
            "goal",
        ),
    ),
    "questions": (
        Figures("seconds of a question of 1,000 models", ("bench.questions",), "seconds", "goal"),
    ),
}


def main() -> None:
    """Run the benchmarks and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.targets", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("photographs", help="a folder of pictures by class, 512 at least")
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    given = parser.parse_args()
    sys.stdout.write("| what | of | figure | target | met |\n|---|---|---|---|---|\n")
    for name in given.only:
        printed = _printed(FIGURES[name][0].command, given.photographs)
        for figures in FIGURES[name]:
            for cells in _compared(figures, printed):
                sys.stdout.write(f"| {' | '.join(cells)} |\n")
        sys.stdout.flush()


def _printed(command: Sequence[str], photographs: str) -> list[str]:
    """Return the lines that a benchmark prints, shown as they come."""
    words = (photographs if each == _PHOTOGRAPHS else each for each in command)
    printed = []
    with subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True
    ) as running:
        for line in running.stdout or ():
            sys.stderr.write(line)
            printed.append(line.rstrip("\n"))
    if running.returncode:
        sys.stderr.write(f"{' '.join(command)} ended with exit code {running.returncode}\n")
    return printed


def _compared(figures: Figures, printed: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a line for each figure that has a target."""
    for row in _rows(printed):
        target = row.get(figures.target, "")
        if not re.search(r"\d", target):
            continue
        case, figure, goal = next(iter(row.values())), row[figures.figure], _number(target)
        reached = _number(figure)
        met = reached >= goal if figures.least else reached <= goal
        # Of a command that failed, seconds say nothing.
        met = met and "(exit code" not in case
        limit = f"at {'least' if figures.least else 'most'} {target.removeprefix('over ')}"
        yield figures.title, case, figure, limit, "yes" if met else "**no**"


def _rows(printed: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of tables in Markdown, by their heads."""
    head: list[str] = []
    for line in printed:
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if not cells:
            head = []
        elif not head:
            head = cells
        elif set("".join(cells)) - set("-: "):
            yield dict(zip(head, cells, strict=True))


def _number(text: str) -> float:
    """Return the number in a cell, a percentage as a fraction; NaN if there is none."""
    number = re.search(r"\d+(?:\.\d+)?", text.replace(",", ""))
    return float(number[0]) / (100 if "%" in text else 1) if number else math.nan


if __name__ == "__main__":
    main()
