"""What a forward pass leaves on its device, copied to the host in one piece, without waiting.

A pass on an accelerator is only enqueued when it returns. Whoever asked for one of its values would
wait for all that was enqueued before, so that all pooled pairs of a pass are joined on the device,
in the types they have, and copied together; the wait is that of whoever scores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Lock
from typing import Any

import torch

from survey.accuracy import Hits, count_hits, logits_of
from survey.capture.near_zero import NearZero
from survey.capture.pooled_pair import PooledPair
from survey.capture.rounding import Noise


class Departure:
    """The pooled pairs and the hits of one forward pass, on their way to the host.

    Parameters
    ----------
    pairs : list of PooledPair
        Its pairs, on any device.
    output : object
        What the network returned.
    labels : torch.Tensor or None
        The images' classes, on the host.
    """

    def __init__(
        self, pairs: list[PooledPair], output: object, labels: torch.Tensor | None
    ) -> None:
        self._lock, self._pairs, self._labels = Lock(), pairs, labels
        self._logits = logits_of(output) if labels is not None else None
        self._hits = Hits(0, 0, 0)
        held: list[torch.Tensor] = []

        def note(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                held.append(value)
            return value

        self._replace(note)
        self._wait: Callable[[], Iterator[torch.Tensor]] | None = None
        if held:
            self._wait = _copied(held)
        else:
            self._count()

    def arrived(self) -> tuple[list[PooledPair], Hits]:
        """Return the pairs, on the host, and the hits; waits until they are there."""
        with self._lock:
            if self._wait is not None:
                copies = self._wait()
                self._replace(lambda value: _on_host(value, copies))
                self._wait = None
                self._count()
        return self._pairs, self._hits

    def _replace(self, change: Callable[[Any], Any]) -> None:
        """Replace every tensor, in a fixed order."""
        self._pairs = [_changed(pair, change) for pair in self._pairs]
        self._logits = change(self._logits)

    def _count(self) -> None:
        self._hits = count_hits(self._logits, self._labels)
        self._logits = None


def _changed(pair: PooledPair, change: Callable[[Any], Any]) -> PooledPair:
    noise = pair.noise and Noise(change(pair.noise.x), change(pair.noise.y))
    before, after = (_count_changed(each, change) for each in (pair.before, pair.after))
    return replace(
        pair, x=change(pair.x), y=change(pair.y), before=before, after=after, noise=noise
    )


def _count_changed(count: NearZero, change: Callable[[Any], Any]) -> NearZero:
    return NearZero(change(count.near), count.values, change(count.below))


def _on_host(value: Any, copies: Iterator[torch.Tensor]) -> Any:
    elsewhere = isinstance(value, torch.Tensor) and value.device.type != "cpu"
    return next(copies) if elsewhere else value


def _copied(tensors: list[torch.Tensor]) -> Callable[[], Iterator[torch.Tensor]]:
    """Begin to copy tensors of one device to the host, in one piece; return how to wait for them.

    The host's memory is pinned, because a copy to other memory would wait.
    """
    # The widest types first: each then begins at a multiple of its size.
    order = sorted(range(len(tensors)), key=lambda at: -tensors[at].element_size())
    piece = torch.cat([tensors[at].contiguous().view(-1).view(torch.uint8) for at in order])
    host = piece.to("cpu", non_blocking=True)
    wait = recorded(piece.device)
    shapes = [(tensor.dtype, tensor.shape) for tensor in tensors]

    def arrived() -> Iterator[torch.Tensor]:
        wait()
        parts = host.split([shapes[at][0].itemsize * shapes[at][1].numel() for at in order])
        by_place = dict(zip(order, parts, strict=True))
        for at, (dtype, shape) in enumerate(shapes):
            yield by_place[at].view(dtype).view(shape)

    return arrived


def recorded(device: torch.device) -> Callable[[], None]:
    """Return a function that waits until the device has done what was enqueued so far."""
    event = torch.get_device_module(device).Event()
    event.record()
    wait: Callable[[], None] = event.synchronize
    return wait
