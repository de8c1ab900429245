"""A captured forward pass waits for an accelerator no more often than the bare network does.

The tensors are fake ones of a CUDA device: they have shapes and a device and no values, so no
device is needed. Whatever would wait for one, or copy between devices, is a call that is seen.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from catalog.models.torchvision import TorchvisionSource
from survey.capture.forward import Capture

SOURCE = TorchvisionSource()

#: One network of each way that networks are written, for the quick run of the suite.
FEW = ("resnet18", "googlenet", "mobilenet_v3_small", "convnext_tiny", "swin_v2_t", "vit_b_32")

#: Calls whose result depends on values, for which the host waits.
WAITING = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "masked_select")


class Waits(TorchDispatchMode):
    """Counts calls that wait for a CUDA device, and those that copy between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        before, name = devices([args, kwargs]), function.overloadpacket.__name__
        # Counted first, as a fake tensor that has no value to give raises.
        if waits := name in WAITING and "cuda" in before:
            self.calls[name] += 1
        output = function(*args, **(kwargs or {}))
        after = devices(output)
        if not waits and before and after and before != after:
            self.calls[name] += 1
        return output


def devices(values: Any) -> set[str]:
    """Return the types of devices that tensors are on."""
    leaves = _pytree.tree_leaves(values)
    return {leaf.device.type for leaf in leaves if isinstance(leaf, torch.Tensor)}


def fake(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return a tensor of the same shape on the fake device."""
    if tensor is None:
        return None
    made = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cuda")
    return nn.Parameter(made, requires_grad=False) if isinstance(tensor, nn.Parameter) else made


def moved(network: nn.Module) -> nn.Module:
    """Return a network with its parameters and buffers on the fake device."""
    for module in network.modules():
        for held in (module._parameters, module._buffers):
            held.update({name: fake(tensor) for name, tensor in held.items()})
    return network


def check(network: nn.Module, size: int) -> None:
    """Compare the calls of a captured pass with those of the bare network."""
    with FakeTensorMode(), torch.inference_mode():
        network = moved(network)
        images = torch.empty(2, 3, size, size, device="cuda")
        with Waits() as bare:
            network(images)
        with Waits() as captured:
            _, pairs = Capture(network).forward(images)
    assert captured.calls == bare.calls
    assert pairs
    for pair in pairs:
        assert pair.x is not None
        assert pair.y is not None
        assert {pair.x.device.type, pair.y.device.type} == {"cuda"}


@pytest.mark.parametrize(
    "name",
    [
        name if name in FEW else pytest.param(name, marks=pytest.mark.long)
        for name in SOURCE.names()
    ],
)
@pytest.mark.slow(seconds=8)
def test_capture_waits_for_no_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.empty

    def without_memory(*size: Any, **options: Any) -> torch.Tensor:
        return plain(*size, **{**options, "device": "meta"})

    architecture = SOURCE.get(name)
    with monkeypatch.context() as patched:
        patched.setattr(torch, "empty", without_memory)
        network = architecture.build().eval()
    check(network, architecture.transform.size)


def test_values_near_zero_are_counted_on_a_device_where_they_are_asked_for() -> None:
    with FakeTensorMode(), torch.inference_mode():
        network = moved(nn.Sequential(nn.Conv2d(3, 4, 3), nn.GELU()))
        images = torch.empty(2, 3, 8, 8, device="cuda")
        made = [Capture(network, counted=each).forward(images)[1][0] for each in (True, False)]
    assert [pair.before.values for pair in made] == [2 * 4 * 6 * 6, 0]
    assert [isinstance(pair.after.near, torch.Tensor) for pair in made] == [True, False]


@pytest.mark.parametrize(
    "waiting", [lambda x: x.sum().item(), lambda x: x.nonzero(), lambda x: x.cpu()]
)
def test_what_waits_is_seen(waiting: Any) -> None:
    with FakeTensorMode(), Waits() as seen:
        images = torch.empty(3, device="cuda")
        with contextlib.suppress(DataDependentOutputException, DynamicOutputShapeException):
            waiting(images)
    assert seen.calls.total() == 1
