"""Measuring one network as a whole: a score, or the reason for none, of each measure."""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import torch
from torch import nn

from survey.copying import copied
from survey.device import device_of, dtype_of, random_numbers_kept
from survey.errors import InputError, UnknownName
from survey.eval_mode import evaluating, require_module
from survey.micro_batches import micro_batches
from survey.network_measures import MEASURES
from survey.network_measures.base import (
    NetworkMeasure,
    NetworkScore,
    SampledMeasure,
    Steps,
    StructuralMeasure,
)
from survey.network_measures.sample import ImageSample
from survey.out_of_memory import is_of_machine, is_out_of_memory
from survey.text import first_line, storable


def measure_network(
    model: nn.Module,
    shape: Sequence[int],
    measures: str | Iterable[str],
    batches: Iterable[object] = (),
) -> dict[str, NetworkScore]:
    """Return measures of a whole network.

    Parameters
    ----------
    model : torch.nn.Module
        Any network, on any device. It is put in eval mode and restored afterwards.
    shape : sequence of int
        Of one image, such as ``(3, 224, 224)``.
    measures : str or iterable of str
        One or more of the names of ``survey.network_measures.MEASURES``, such as ``path_length``.
    batches : iterable of torch.Tensor or (torch.Tensor, torch.Tensor), optional
        Images N x C x H x W on the model's device, with labels or without, for measures that read
        images: as many of the first as these ask for.

    Returns
    -------
    dict of str to NetworkScore
        A score of each quantity of these measures, by the quantity's name. One that cannot be
        computed has a reason and takes no other with it.

    Raises
    ------
    UnknownName
        If there is no such measure.
    InputError
        If the network is no module, a batch is no images, or its images have another shape.
    """
    require_module(model)
    chosen = measures_named(measures)
    wanted = max((each.images for each in chosen if isinstance(each, SampledMeasure)), default=0)
    sample = _sample(batches, wanted, shape)
    scores: dict[str, NetworkScore] = {}
    for measure in chosen:
        scores |= _result(fitting_steps(measure, model, shape, sample))
    return scores


def measures_named(names: str | Iterable[str]) -> list[NetworkMeasure]:
    """Return measures by their names.

    Raises
    ------
    UnknownName
        If there is no such measure.
    """
    known = {measure.name: measure for measure in MEASURES}
    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if name not in known:
            raise UnknownName("measure", name, known)
    return [known[name] for name in names]


def measuring_steps(
    measure: NetworkMeasure, model: nn.Module, shape: Sequence[int], sample: ImageSample | None
) -> Steps:
    """Compute one measure, yielding the fractions of its work that are done.

    Parameters
    ----------
    measure : NetworkMeasure
        The measure.
    model : torch.nn.Module
        As for ``measure_network``.
    shape : sequence of int
        Of one image.
    sample : ImageSample or None
        Images; a measure that reads some takes the first of them.

    Yields
    ------
    float
        From 0 to 1, about once a forward pass; nothing for a measure of the structure.

    Returns
    -------
    dict of str to NetworkScore
        A score of each of its quantities, by the quantity's name.

    Raises
    ------
    MemoryError, torch.OutOfMemoryError, RuntimeError
        If the memory was not enough: of fewer images at once it may be.
    torch.AcceleratorError
        If a GPU failed.
    """
    try:
        with evaluating(model):
            if isinstance(measure, SampledMeasure):
                scores = yield from _of_images(measure, model, sample)
            else:
                scores = _of_structure(measure, model, shape)
    except Exception as error:
        # Another machine, or smaller passes, may have a value.
        if is_of_machine(error):
            raise
        reason = storable(f"{type(error).__name__}: {first_line(error)}")
        scores = measure.without_value(reason)
    return {name: replace(score, version=measure.version) for name, score in scores.items()}


@dataclass(frozen=True, slots=True)
class Halving:
    """A measure that begins anew: the memory was not enough."""

    #: Images in one pass from now on.
    micro_batch: int
    #: What was raised, in a line.
    message: str


def fitting_steps(
    measure: NetworkMeasure, model: nn.Module, shape: Sequence[int], sample: ImageSample | None
) -> Generator[float | Halving, None, Mapping[str, NetworkScore]]:
    """Compute one measure, with half as many images at once where the memory is not enough.

    Parameters, fractions and scores are those of ``measuring_steps``, with a ``Halving`` before
    each new beginning. A measure without room for one image has no value, and that as its reason.

    Raises
    ------
    torch.AcceleratorError
        If a GPU failed.
    """
    while True:
        try:
            with closing(measuring_steps(measure, model, shape, sample)) as steps:
                return (yield from steps)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            message = storable(f"{type(error).__name__}: {first_line(error)}")
        # Outside of the except clause: the error holds on to the tensors that were too many.
        gc.collect()
        torch.cuda.empty_cache()
        if sample is None or sample.micro_batch == 1:
            room = "it" if sample is None else "one image at once"
            return measure.without_value(f"the memory is not enough for {room}: {message}")
        sample = replace(sample, micro_batch=sample.micro_batch // 2)
        yield Halving(sample.micro_batch, message)


def _of_images(measure: SampledMeasure, model: nn.Module, sample: ImageSample | None) -> Steps:
    if sample is None:
        return measure.without_value("it reads images, and none were given")
    if reason := measure.refusal(sample.size):
        return measure.without_value(reason)
    with random_numbers_kept(device_of(model)):
        return (yield from measure.compute(model, sample.first(measure.images)))


def _of_structure(
    measure: StructuralMeasure, model: nn.Module, shape: Sequence[int]
) -> Mapping[str, NetworkScore]:
    """Return a measure's scores, from a copy without values where that is enough."""
    try:
        images = torch.empty(2, *shape, device="meta", dtype=dtype_of(model))
        scores = measure.compute(without_values(model), images)
        if all(score.value is not None for score in scores.values()):
            return scores
    except Exception:  # noqa: BLE001, S110 - such as a network that computes with its values
        pass
    with random_numbers_kept(device_of(model)):
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(2, *shape, generator=generator)
        images = images.to(device_of(model), dtype_of(model))
        return measure.compute(model, images)


def _sample(batches: Iterable[object], wanted: int, shape: Sequence[int]) -> ImageSample | None:
    """Return as many of the first images as are wanted; None where there are none."""
    if not wanted:
        return None
    part = next(micro_batches(batches, wanted, wanted), None)
    if part is None:
        return None
    if part.images.shape[1:] != tuple(shape):
        raise InputError(
            f"the images have the shape {tuple(part.images.shape[1:])}, and {tuple(shape)} is given"
        )
    return ImageSample(part.images, part.labels)


def _result(
    steps: Generator[object, None, Mapping[str, NetworkScore]],
) -> Mapping[str, NetworkScore]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            scores: Mapping[str, NetworkScore] = end.value
            return scores


def without_values(model: nn.Module) -> nn.Module:
    """Return a copy of a network whose tensors are on the meta device; none is copied."""
    return copied(model, lambda tensor: tensor.to("meta"))
