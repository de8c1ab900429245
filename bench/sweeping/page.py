"""The results of the sweep: kept in a state folder, and written as a page."""

from __future__ import annotations

import json
import platform
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import timm
import torch
import torchvision

from bench.sweeping.networks import BUILDERS


@dataclass
class Row:
    """The result of one architecture."""

    library: str
    name: str
    module: str
    #: Image size the network was made for, and the one at which it ran.
    size: str = ""
    ran: str = ""
    parameters: int = 0
    sites: int = 0
    gates: int = 0
    depth: int = 0
    #: Sites that could not be pooled, by reason.
    unpooled: dict[str, int] = field(default_factory=dict)
    verdict: str = "fails"
    reason: str = ""
    seconds: float = 0.0


def kept(state: Path) -> list[Row]:
    """Return the results in a state folder."""
    files = sorted(state.glob("*.jsonl"))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [Row(**json.loads(line)) for line in lines]


ABOUT = """\
All of torchvision's classifiers and all of timm's networks. Each was followed without values at the
image size it was made for, and then run on a CPU with random weights and two images of the smallest
size at which it has the same sites (*ran at*). *Works* means: the output of the watched network
equals that of the plain one bit for bit and depends on the images, there is at least one activation
call, and every call could be pooled (by averaging over space; one thread, inference mode). What
runs inside a recurrent layer's kernel is no call, as in `sequencer2d_*` (docs/limits.md).
*Followed* means that its weights are too large to run here: its sites were counted, its output was
not compared. Weight matrices that begin at zero were given small random values, and where the
output still was the same for both images, all parameters that begin at zero. Wherever somebody has
counted independently, on all 80 torchvision architectures and 26 of timm's, the number of sites is
that count: `tests/survey/capture/test_activations.py` compares them."""


def page(rows: list[Row], command: str) -> str:
    """Return the page: summary, failures, and one line a network."""
    wrong = [row for row in rows if row.verdict not in ("works", "followed")]
    large = [f"{row.library} `{row.name}`" for row in rows if row.verdict == "followed"]
    seconds = sum(row.seconds for row in rows)
    return "\n".join(
        [
            "# Which networks can be watched",
            "",
            *ABOUT.splitlines(),
            "",
            f"    {command}",
            "",
            f"{_versions()} {seconds / 60:.0f} minutes of one thread in all.",
            "",
            *summary(rows),
            "",
            "## What does not work, and why",
            "",
            *(map(_line, wrong) if wrong else ["Nothing."]),
            "",
            "## What was followed, and is too large to run here",
            "",
            ", ".join(large) or "Nothing.",
            "",
            "## All networks",
            "",
            "Sites are activation calls; gates are those whose output only scales another value;",
            "depth counts the activations on the longest path; parameters are in millions.",
            *_tables(rows),
            "",
        ]
    )  # fmt: skip


def _line(row: Row) -> str:
    """Return a line with the first reason why a network does not work, and how many there are."""
    first, *others = row.reason.split("; ")
    more = f"; and {len(others)} more" if others else ""
    return f"- {row.library} `{row.name}`: {row.verdict}: {first}{more}"


def _versions() -> str:
    ours = f"Python {platform.python_version()}, torch {torch.__version__}"
    return f"{ours}, torchvision {torchvision.__version__}, timm {timm.__version__}."


def summary(rows: list[Row]) -> Iterator[str]:
    for library in BUILDERS:
        ours = [row for row in rows if row.library == library]
        if ours:
            verdicts = Counter(row.verdict for row in ours)
            works, others = verdicts.pop("works", 0), sorted(verdicts.items())
            sites, gates = sum(row.sites for row in ours), sum(row.gates for row in ours)
            yield (
                f"- {library}: {works} of {len(ours)} work ({100 * works / len(ours):.1f} %), "
                + "".join(f"{count} {verdict}, " for verdict, count in others)
                + f"{sites} sites, {gates} of them gates."
            )


def _tables(rows: list[Row]) -> Iterator[str]:
    for library in BUILDERS:
        yield from (
            "", f"### {library}", "",
            "| network | module | input | ran at | parameters | sites | gates | depth | verdict |",
            "|---|---|---|---|---:|---:|---:|---:|---|",
        )  # fmt: skip
        for row in rows:
            if row.library == library:
                yield (
                    f"| {row.name} | {row.module} | {row.size} | {row.ran} | "
                    f"{row.parameters / 1e6:.1f} | {row.sites} | {row.gates} | {row.depth} | "
                    f"{row.verdict} |"
                )
