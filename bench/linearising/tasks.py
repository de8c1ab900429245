"""One network and three tasks of rising difficulty, made from pairs of digits.

Two digits side by side are one image, 8 x 16, and its class is the left digit, the greater one, or
the last digit of their sum. Images, network, passes and ten outputs are alike in all.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from bench.linearising.row import NUMBERS, trained_row
from catalog.files import whole_file
from catalog.models.base import InputTransform
from catalog.models.cifar import CifarSource
from catalog.zoo.train import labelled_images
from jobs.runners.worker_host import host_of
from survey import LabelledImages, LinearisationSettings, linearise

NETWORK = "digits_vgg7"

#: The class of pairs, from the digits on the left and on the right.
TASKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "left digit": lambda left, right: left,  # noqa: ARG005 - of pairs
    "greater digit": torch.maximum,
    "sum, last digit": lambda left, right: (left + right) % 10,
}

OMEGAS = (0.003, 0.005, 0.01, 0.02)

SETTINGS = LinearisationSettings(epochs=8, plain_epochs=6)

#: Pairs by subset of the digits: each of its digits is twice on the left and twice on the right,
#: beside others. What has a random number is drawn from its seed.
COPIES, SEED = 2, 0


def pairs(subset: str, task: str) -> LabelledImages:
    """Return pairs of digits, n x 3 x 8 x 16, with the classes of a task."""
    images, digits = labelled_images(subset, InputTransform(size=8, resize=8))
    generator = torch.Generator().manual_seed(SEED)
    left, right = (
        torch.cat([torch.randperm(len(digits), generator=generator) for _ in range(COPIES)])
        for _ in range(2)
    )
    classes = TASKS[task](digits[left], digits[right])
    return LabelledImages(torch.cat([images[left], images[right]], dim=3), classes)


def task_rows(home: Path, seeds: int) -> Iterator[dict[str, Any]]:
    """Train what a home does not hold yet, and yield a row for each training."""
    folder = home / "tasks"
    folder.mkdir(parents=True, exist_ok=True)
    # As in the sweep: the momentum of dead channels decays to denormal numbers, which are slow.
    torch.set_flush_denormal(True)
    each_with_each = itertools.product(range(seeds), TASKS, OMEGAS, ("late", "early"))
    for seed, task, omega, beginning in each_with_each:
        settings = dataclasses.replace(
            SETTINGS, omega=omega, seed=seed, penalty_first=beginning == "early"
        )
        yield trained_row("task", task, beginning, _result(folder, task, settings))
    torch.set_flush_denormal(False)


def _result(folder: Path, task: str, settings: LinearisationSettings) -> dict[str, Any]:
    """Return the result of a training, from its file where there is one."""
    determinants = (task, NETWORK, COPIES, SEED, settings)
    path = folder / f"{hashlib.sha256(repr(determinants).encode()).hexdigest()[:12]}.json"
    if not path.exists():
        result = _trained(task, settings)
        with whole_file(path) as partial:
            partial.write_text(json.dumps(result, indent=1), encoding="utf-8")
    kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return kept


def _trained(task: str, settings: LinearisationSettings) -> dict[str, Any]:
    began = time.process_time()
    torch.manual_seed(settings.seed)
    network = CifarSource().get(NETWORK).build()
    left = linearise(network, pairs("train", task), pairs("heldout", task), settings)
    return {
        "settings": dataclasses.asdict(settings),
        **{number: getattr(left, number) for number in NUMBERS},
        "sites": [dataclasses.asdict(site) for site in left.sites],
        "passes": [dataclasses.asdict(each) for each in left.passes],
        "device_name": host_of(torch.device("cpu"), 1).device_name,
        "torch": str(torch.__version__),
        "seconds_a_pass": (time.process_time() - began) / settings.passes,
    }
