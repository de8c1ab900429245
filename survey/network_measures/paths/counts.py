"""The paths to every value of a tensor, and their arithmetic: joined, chosen among, summed over.

Two numbers say how many activations are on them. ``walk`` is the mean over a random walk that
goes from the value towards the input and takes each way on with equal chance; ``mean`` is that over
all paths alike. The number of paths is kept as a logarithm, since it passes 1e300 in a deep
network, and is zero (a logarithm of minus infinity) where no path leads: to a class token, to
padding.

All three have the shape of the tensor. What is alike along an axis is kept once, with a stride of
0, so that they cost next to nothing beside the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths to every value of a tensor, float64 and of its shape."""

    #: Mean number of activations on a random walk.
    walk: torch.Tensor
    #: Mean number of activations over all paths alike.
    mean: torch.Tensor
    #: Natural logarithm of the number of paths.
    log_count: torch.Tensor

    @property
    def shape(self) -> torch.Size:
        """The tensor's shape."""
        return self.walk.shape

    @property
    def numbers(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The three tensors."""
        return self.walk, self.mean, self.log_count

    def moved(self, move: Callable[[torch.Tensor], Any]) -> list[Paths]:
        """Return the paths after a call that moves, repeats or drops values, to each result."""
        made = [move(each) for each in self.numbers]
        if isinstance(made[0], torch.Tensor):
            return [Paths(*made)]
        return [Paths(*each) for each in zip(*made, strict=True)]

    def placed(
        self,
        place: Callable[[torch.Tensor, float], Any],
        shape: Sequence[int],
        moving: Collection[int] = (),
    ) -> Paths:
        """Return the paths after a call that places values anew along axes that there are.

        Parameters
        ----------
        place : callable
            The call, on a tensor and the number that stands where no path leads.
        shape : sequence of int
            Of the result.
        moving : collection of int
            Axes along which values that are alike would not be so any more.
        """

        def placed(tensor: torch.Tensor, nowhere: float) -> torch.Tensor:
            for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
                if stride == 0 and size == shape[axis] and axis not in moving:
                    tensor = tensor.narrow(axis, 0, 1)
            made: torch.Tensor = place(tensor, nowhere)
            return made.expand(shape)

        return Paths(*map(placed, self.numbers, (0.0, 0.0, -math.inf)))

    def reshaped(self, shape: Sequence[int]) -> Paths:
        """Return the paths to the same values in another shape."""
        return self.moved(lambda tensor: tensor.reshape(shape))[0]

    def expanded(self, shape: Sequence[int]) -> Paths:
        """Return the paths of values that are repeated along axes of length 1."""
        return self.moved(lambda tensor: tensor.expand(shape))[0]

    def activated(self, active: torch.Tensor | float = 1.0) -> Paths:
        """Return the paths with an activation behind each value, or a fraction of one."""
        walk, mean = _kept_once(self.walk), _kept_once(self.mean)
        made = Paths(walk + active, mean + active, _kept_once(self.log_count))
        return made.expanded(self.shape)

    def over(self, axes: Iterable[int], *, summed: bool) -> Paths:
        """Return the paths to what is made of all values along axes, which keep a length of 1.

        Parameters
        ----------
        axes : iterable of int
            The axes.
        summed : bool
            Whether each value adds its paths, as a channel does, or they are as many as to one of
            the values, as in pooling.
        """
        places = tuple(sorted({axis % len(self.shape) for axis in axes}))
        if not places:
            return self
        walk, mean, log_count = torch.broadcast_tensors(*map(_kept_once, self.numbers))
        present = torch.isfinite(log_count).double()
        number = present.sum(places, keepdim=True).clamp(min=1)
        total = log_count.logsumexp(places, keepdim=True)
        shares = (log_count - total).exp().nan_to_num()
        times = math.prod(self.shape[axis] // log_count.shape[axis] for axis in places)
        made = Paths(
            (walk * present).sum(places, keepdim=True) / number,
            _over(shares.sum(places, keepdim=True), (mean * shares).sum(places, keepdim=True)),
            total + math.log(times) if summed else total - number.log(),
        )
        shape = [1 if axis in places else size for axis, size in enumerate(self.shape)]
        return made.expanded(shape)


def origin(shape: Sequence[int]) -> Paths:
    """Return the one path to each value of the input."""
    return _filled(shape, 0.0)


def absent(shape: Sequence[int]) -> Paths:
    """Return the paths to values that do not depend on the input: none."""
    return _filled(shape, -math.inf)


def joined(parts: Sequence[Paths], weights: Sequence[float], shape: Sequence[int]) -> Paths:
    """Return the paths to sums of values.

    Parameters
    ----------
    parts : sequence of Paths
        To the terms, whose shapes broadcast to ``shape``.
    weights : sequence of float
        The chances of a random walk to go on along each.
    shape : sequence of int
        Of the sums.
    """
    walk, mean, log_count = (
        torch.stack(torch.broadcast_tensors(*map(_kept_once, tensors)))
        for tensors in zip(*(part.numbers for part in parts), strict=True)
    )
    total = log_count.logsumexp(0)
    shares = (log_count - total).exp().nan_to_num()
    factors = torch.tensor(weights, dtype=torch.float64).view(-1, *[1] * (log_count.ndim - 1))
    chances = factors * torch.isfinite(log_count)
    made = Paths(
        _over(chances.sum(0), (chances * walk).sum(0)),
        _over(shares.sum(0), (shares * mean).sum(0)),
        total,
    )
    return made.expanded(shape)


def concatenated(parts: Sequence[Paths], axis: int) -> Paths:
    """Return the paths to values of several tensors along one axis."""
    numbers = zip(*(part.numbers for part in parts), strict=True)
    return Paths(*(_concatenated(each, axis) for each in numbers))


def _concatenated(tensors: Sequence[torch.Tensor], axis: int) -> torch.Tensor:
    axis %= tensors[0].ndim
    alike = [
        place
        for place in range(tensors[0].ndim)
        if place != axis and all(tensor.stride(place) == 0 for tensor in tensors)
    ]
    shape = list(tensors[0].shape)
    shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
    for place in alike:
        tensors = [tensor.narrow(place, 0, 1) for tensor in tensors]
    return torch.cat(list(tensors), axis).expand(shape)


def _over(whole: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
    """Return a part over the whole, and 0 where there is nothing."""
    return part / whole.where(whole > 0, 1.0)


def _filled(shape: Sequence[int], log_count: float) -> Paths:
    zero = torch.zeros((), dtype=torch.float64).expand(shape)
    return Paths(zero, zero, torch.full((), log_count, dtype=torch.float64).expand(shape))


def _kept_once(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the axes of length 1 along which its values are alike."""
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if stride == 0 and size > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor
