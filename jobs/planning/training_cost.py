"""How long a training may take: a few of its steps, timed here."""

from __future__ import annotations

import functools
import itertools
import time

from catalog.checkpoint_references import build_seeded
from catalog.models import find
from jobs.planning.linearisation import LinearisationJob
from survey import LabelledImages, LinearisationSettings

#: Steps that are timed, after one that is not.
STEPS = 3


def seconds_a_pass(job: LinearisationJob) -> float:
    """Return the seconds of one pass over the training images, on the CPU of this process.

    Raises
    ------
    SurveyError
        If the network cannot be built, or its ReLUs cannot be replaced.
    """
    images = job.trained.images
    size = max(min(job.settings.images_per_step, images), 1)
    seconds = _seconds_a_step(job.trained.full_name, job.trained.transform.shape, size)
    return seconds * max(images // size, 1)


@functools.cache
def _seconds_a_step(name: str, shape: tuple[int, ...], size: int) -> float:
    import torch

    from survey.linearising.training import Training

    (architecture,) = find(name)
    model = build_seeded(architecture.build, 0).eval()
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(size * (STEPS + 1), *shape, generator=generator)
    labels = torch.zeros(len(images), dtype=torch.long)
    settings = LinearisationSettings(epochs=1, images_per_step=size)
    training = Training(model, LabelledImages(images, labels), settings)
    moments: list[float] = []
    for _ in training.passes(lambda _: moments.append(time.monotonic())):
        pass
    # The quickest: what else the machine does is no cost of the step.
    return min(after - before for before, after in itertools.pairwise(moments))
