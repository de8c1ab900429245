"""Jobs for tests: a small network with fixed random weights on the real digits."""

from __future__ import annotations

from pathlib import Path

from jobs.planning.definition import Definition, parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.plan import make_plan
from jobs.runners.options import RunnerOptions

#: Options of a runner that computes on the CPU.
ON_CPU = RunnerOptions(device="cpu")


#: Images of seven scores and a partial batch of five.
IMAGES = 7 * 64 + 5


def declared(
    *checkpoints: str,
    model: str = "small:cifar_resnet8",
    dataset: str = f"digits[:{IMAGES}]",
    size: int = 64,
) -> Definition:
    """Return a survey of one model."""
    values = {
        "models": [{"name": model, "checkpoints": list(checkpoints) or ["init:0"]}],
        "datasets": [{"name": dataset}],
        "settings": {"images_per_score": size},
    }
    return parse_definition(values, "test", Path())


def job(**changes: object) -> Job:
    """Return one job."""
    (planned,) = make_plan(declared(**changes), {}, Holdings()).jobs  # type: ignore[arg-type]
    return planned
