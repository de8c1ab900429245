"""A survey in one line of Python, of names or of a network in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from catalog.datasets.kinds.memory import HeldImages
from catalog.datasets.kinds.memory import held as held_images
from catalog.home import Home
from catalog.models.memory import held as held_model
from catalog.open_home import open_home
from catalog.tags import TagValue
from jobs.planning.definition import Definition, parse_definition
from jobs.run import Outcome, run_survey
from jobs.runners.base import Runner
from jobs.runners.local import LocalRunner
from jobs.runners.options import RunnerOptions
from jobs.scan.progress_display import progress_reporter
from survey.errors import InputError, SettingsError
from survey.measuring import Batch
from survey.text import counted

#: Dimensions of a batch of images.
_DIMENSIONS = 4

#: Labels are below: each class has a name in memory.
_CLASSES = 1_000_000


@dataclass(frozen=True, slots=True, repr=False)
class Surveyed:
    """What a survey measured, now or before."""

    #: The home that holds it.
    home: Home
    #: The jobs that were measured, skipped and failed.
    outcome: Outcome

    def __repr__(self) -> str:
        failed = f", {len(self.outcome.failed)} failed" if self.outcome.failed else ""
        runs = counted(len(self.run_ids), "run")
        return f"<{runs} in {self.home.path}: {', '.join(self.run_ids)}{failed}>"

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs that are done, in the order of the plan."""
        done = {*self.outcome.plan.done, *(job.run_id for job in self.outcome.done)}
        return tuple(job.run_id for job in self.outcome.plan.jobs if job.run_id in done)

    def signatures(self) -> Any:
        """Return the data frame of their signatures; see ``analysis.signatures``."""
        from analysis import Selection, signatures

        ridges = {job.settings.ridge for job in self.outcome.plan.jobs}
        everything = signatures(self.home.path, Selection(ridges=tuple(ridges), newest=False))
        return everything[everything["run_id"].isin(self.run_ids)].reset_index(drop=True)


def survey_models(
    models: str | Sequence[str] | nn.Module,
    data: str | Sequence[str] | Iterable[Batch] = "digits",
    *,
    checkpoints: str | Sequence[str] = (),
    home: str | Path = "survey-home",
    label: str | None = None,
    tags: Mapping[str, TagValue] | None = None,
    runner: Runner | None = None,
    measures: str | Sequence[str] = (),
    **settings: Any,
) -> Surveyed:
    """Measure models into a home, with progress on standard error, and return their runs.

    What the home holds already is not measured again; after an interruption the same call goes on.

    Parameters
    ----------
    models : str, sequence of str, or torch.nn.Module
        Names as ``--model`` takes them, or a network in memory. Its run's id is made from the text
        of its modules' classes, its structure, its weights and the images.
    data : str, sequence of str, or iterable of batches
        Names as ``--dataset`` takes them. For a network in memory batches of images N x 3 x S x S,
        float32 and prepared as the network takes them, with labels or without; all are kept in
        memory until the end.
    checkpoints : str or sequence of str
        Weights as ``--checkpoint`` takes them, for names.
    home : str or pathlib.Path
        Where results are kept; made if it is not there.
    label : str, optional
        Name of the model in tables and figures.
    tags : mapping, optional
        Tags of all runs, such as ``{"lr": 0.1}``.
    runner : Runner, optional
        Computes the jobs; by default this process does, one after another. A network in memory
        takes no other.
    measures : str or sequence of str
        One or more measures of whole networks, such as ``path_length``.
    **settings
        The fields of ``MeasureSettings``, such as ``images_per_score=64``.

    Returns
    -------
    Surveyed
        Its ``signatures()`` are a frame; ``outcome.failed`` holds what failed, and why.

    Raises
    ------
    SettingsError, CatalogError, UnknownName
        If the survey cannot be planned; nothing is measured then.
    InputError
        If the batches are not such images.
    """
    if isinstance(models, nn.Module):
        if checkpoints or runner is not None:
            raise SettingsError("a network in memory takes neither checkpoints nor a runner")
        with _held(models, data) as (name, dataset):
            definition = _definition([name], (), [dataset], label, tags, measures, settings)
            return _surveyed(definition, home, None)
    names = _listed("models", models)
    weights, datasets = _listed("checkpoints", checkpoints), _listed("data", data)
    definition = _definition(names, weights, datasets, label, tags, measures, settings)
    return _surveyed(definition, home, runner)


def _surveyed(definition: Definition, home: str | Path, runner: Runner | None) -> Surveyed:
    opened = open_home(Path(home), create=True)
    with progress_reporter() as reporter:
        outcome = run_survey(opened, definition, runner or _local_runner(), reporter)
    return Surveyed(opened, outcome)


def _local_runner() -> LocalRunner:
    """Return a runner with as many threads as this process lets torch have."""
    return LocalRunner(RunnerOptions(most_threads=torch.get_num_threads()))


def _definition(
    models: Sequence[str],
    checkpoints: Sequence[str],
    datasets: Sequence[str],
    label: str | None,
    tags: Mapping[str, TagValue] | None,
    measures: str | Sequence[str],
    settings: dict[str, Any],
) -> Definition:
    labelled = {} if label is None else {"label": label}
    values = {
        "models": [{"name": name, "checkpoints": list(checkpoints), **labelled} for name in models],
        "datasets": [{"name": name} for name in datasets],
        "tags": dict(tags or {}),
        "measures": _listed("measures", measures),
    }
    return parse_definition(values, "python", Path(), settings)


def _listed(name: str, values: object) -> list[str]:
    listed = [values] if isinstance(values, str) else values
    if isinstance(listed, Sequence) and all(isinstance(each, str) for each in listed):
        return list(listed)
    raise SettingsError(
        f"{name} is a {type(values).__name__}, must be a name or names",
        hint="batches of images belong to a network in memory: survey_models(module, batches)",
    )


@contextmanager
def _held(
    model: nn.Module, data: str | Sequence[str] | Iterable[Batch]
) -> Iterator[tuple[str, str]]:
    """Give the names of a network and of its images in this process, which knows them meanwhile."""
    prepared = _gathered(data)
    _, channels, size, _ = prepared.images.shape
    network = held_model(model, size=size, classes=len(prepared.class_names), channels=channels)
    with network as name, held_images(prepared) as dataset:
        yield name, dataset


def _gathered(data: str | Sequence[str] | Iterable[Batch]) -> HeldImages:
    """Return the images of all batches; refuse what are none."""
    if isinstance(data, str):
        raise SettingsError(
            f"a network in memory takes batches of images, not the dataset {data!r}",
            hint="name the network too: python:MODULE:FUNCTION",
        )
    images, labels = [], []
    for batch in data:
        whole = batch if isinstance(batch, (tuple, list)) else (batch,)
        images.append(_prepared(whole[0] if whole else None))
        labels += [_classes(whole[1], len(images[-1]))] if len(whole) > 1 else []
    if not images:
        raise InputError("no images were given")
    if labels and sum(map(len, labels)) != sum(map(len, images)):
        raise InputError(
            f"of {len(images)} batches {len(labels)} have labels, must be all or none",
            hint="labels of some batches cannot be told from those of others",
        )
    if len(shapes := {tuple(each.shape[1:]) for each in images}) > 1:
        listed = ", ".join(" x ".join(map(str, shape)) for shape in sorted(shapes))
        raise InputError(f"images of batches are {listed}, must be of one size")
    return HeldImages(torch.cat(images), torch.cat(labels) if labels else None)


def _prepared(images: object) -> torch.Tensor:
    """Return a batch on the CPU; refuse what is no batch of prepared, square images."""
    if not isinstance(images, torch.Tensor):
        raise InputError(f"a batch is a {type(images).__name__}, must be a tensor of images")
    square = images.ndim == _DIMENSIONS and images.shape[2] == images.shape[3]
    if not square or images.shape[1] not in (1, 3) or not images.is_floating_point():
        shape = " x ".join(map(str, images.shape))
        raise InputError(
            f"a batch is {shape} of {images.dtype}, must be N x 3 x S x S of torch.float32",
            hint="prepare the images as the network takes them; grey ones have one channel",
        )
    return images.detach().to("cpu", torch.float32)


def _classes(labels: object, images: int) -> torch.Tensor:
    """Return a batch's labels on the CPU; refuse what is not one class for each image."""
    tensor = labels.cpu().reshape(-1) if isinstance(labels, torch.Tensor) else torch.tensor([])
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    # As long: in 8 bits the bound itself is another number.
    classes = tensor.long() if whole else tensor
    if len(tensor) != images or not whole or ((classes < 0) | (classes >= _CLASSES)).any():
        kind = labels.dtype if isinstance(labels, torch.Tensor) else type(labels).__name__
        raise InputError(
            f"the labels of a batch are {kind}, must be a tensor of {images} classes: whole"
            f" numbers from 0 to {_CLASSES - 1:,}",
            hint="or leave them out, as in (images for images, _ in batches)",
        )
    return tensor
