"""Micro-batches, cut from any iterable of image batches, that fill batches of n images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from survey.errors import InputError


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """The images of one forward pass, and their labels where there are any."""

    #: B images, as the model takes them.
    images: torch.Tensor
    #: B class indices, negative where there is none; None without labels.
    labels: torch.Tensor | None


def micro_batches(batches: Iterable[object], per_score: int, size: int) -> Iterator[MicroBatch]:
    """Yield batches re-cut into micro-batches, a new one after every ``per_score`` images.

    Parameters
    ----------
    batches : iterable
        Tensors of images, or pairs of images and labels, of any sizes.
    per_score : int
        Images in a score; no micro-batch crosses its boundary.
    size : int
        Images in a full micro-batch. The last one of a score, and of the data, may be smaller.

    Raises
    ------
    InputError
        If a batch is neither of the two, or images and labels differ in number.
    """
    if isinstance(batches, torch.Tensor):
        raise InputError(
            f"the batches are one tensor of shape {tuple(batches.shape)}, must be an iterable of "
            "batches",
            hint="put it into a list: [images]",
        )
    filled = waiting = 0
    held: list[MicroBatch] = []
    for item in batches:
        rest = _as_micro_batch(item)
        while len(rest.images) >= (lacking := min(size, per_score - filled) - waiting):
            yield (micro := _join([*held, _slice(rest, 0, lacking)]))
            rest = _slice(rest, lacking, len(rest.images))
            filled = (filled + len(micro.images)) % per_score
            held, waiting = [], 0
        if len(rest.images):
            held.append(rest)
            waiting += len(rest.images)
    if held:
        yield _join(held)


def _as_micro_batch(item: object) -> MicroBatch:
    if isinstance(item, torch.Tensor):
        return MicroBatch(item, None)
    if isinstance(item, (tuple, list)) and len(item) == 2:
        images, labels = item
        if isinstance(images, torch.Tensor) and labels is None:
            return MicroBatch(images, None)
        if isinstance(images, torch.Tensor):
            labels = torch.as_tensor(labels)
            if labels.shape != images.shape[:1]:
                raise InputError(
                    f"{len(images)} images came with labels of shape {tuple(labels.shape)}: "
                    "one class index an image is needed"
                )
            return MicroBatch(images, labels)
    raise InputError(
        f"a batch is a {type(item).__name__}, must be a tensor of images or a pair of images "
        "and labels"
    )


def _slice(micro: MicroBatch, start: int, stop: int) -> MicroBatch:
    labels = None if micro.labels is None else micro.labels[start:stop]
    return MicroBatch(micro.images[start:stop], labels)


def _join(parts: list[MicroBatch]) -> MicroBatch:
    if len(parts) == 1:
        return parts[0]
    labels = [part.labels for part in parts if part.labels is not None]
    if labels and len(labels) != len(parts):
        raise InputError("some batches came with labels and some without")
    images = [part.images for part in parts]
    if len(kinds := {(tuple(each.shape[1:]), each.dtype, each.device) for each in images}) > 1:
        listed = ", ".join(f"{shape} of {kind} on {device}" for shape, kind, device in kinds)
        raise InputError(f"images of batches are {listed}, must be of one size and type")
    return MicroBatch(torch.cat(images), torch.cat(labels) if labels else None)
