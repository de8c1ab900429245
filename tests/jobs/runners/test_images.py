"""Images go to an accelerator without waiting for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from jobs.runners.heartbeat import Heartbeat
from jobs.runners.images import TaskImages, normalise
from jobs.runners.pace import AttemptPace
from tests.jobs.jobs import job


def test_they_are_pinned_and_copied_without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The meta device stands in for an accelerator: there is no pinned memory without one."""
    calls: list[Any] = []
    whole = torch.Tensor.to

    def to(tensor: torch.Tensor, *arguments: Any, **options: Any) -> Any:
        if torch.device("meta") in arguments:
            calls.append(options)
        return whole(tensor, *arguments, **options)

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        calls.append("pinned")
        return tensor

    monkeypatch.setattr(torch.Tensor, "to", to)
    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    pace, device = AttemptPace(Heartbeat(), None), torch.device("meta")
    images = TaskImages(None, job(), None, device, pace)  # type: ignore[arg-type]
    pixels = torch.zeros(2, 3, 32, 32, dtype=torch.uint8)
    first, again = images.prepare(pixels), images.prepare(pixels)
    assert calls == ["pinned", {"non_blocking": True}] * 2
    assert (first.device.type, again.dtype, again.shape) == ("meta", torch.float32, pixels.shape)


def test_what_normalises_is_copied_to_a_device_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = torch.full((1, 3, 2, 2), 255, dtype=torch.uint8)
    first = normalise(pixels, job().transform)
    monkeypatch.delattr(torch, "tensor")
    assert torch.equal(normalise(pixels, job().transform), first)
