"""Parameters, multiply-accumulates and depth of a network, counted on the real network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from survey.plain_attention import plain_attention

#: Operations that multiply data with weights, and the positions of their two factors.
_PRODUCTS: dict[object, tuple[int, int]] = {
    getattr(torch.ops.aten, name): factors
    for factors, names in (
        ((0, 1), ("convolution", "_convolution", "mm", "mv", "bmm", "linear", "matmul")),
        ((1, 2), ("addmm", "addmv", "baddbmm")),
    )
    for name in names
}


@dataclass(frozen=True, slots=True)
class Cost:
    """A network's size and work."""

    #: Number of parameters, shared ones once.
    parameters: int
    #: Billions of multiply-accumulates for one image, which the field calls GFLOPs.
    gflops: float


def model_cost(model: nn.Module, shape: Sequence[int]) -> Cost:
    """Count a network's parameters, and its work on one image.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode, on any device.
    shape : sequence of int
        Of one image: channels, height and width.

    Returns
    -------
    Cost
        Matrix products and convolutions count; elementwise work does not.
    """
    parameters = list(model.parameters())
    device = parameters[0].device if parameters else torch.device("cpu")
    work = _WorkMode()  # type: ignore[no-untyped-call]
    with plain_attention(), torch.no_grad(), work:
        model(torch.zeros(1, *shape, device=device))
    # torch counts a multiplication and an addition apart; the field's tables count them as one.
    return Cost(sum(p.numel() for p in parameters), work.flops / 2e9)


def weighted_depth(model: nn.Module, image: torch.Tensor) -> int:
    """Count the weighted layers on the longest path from the input to what the network returns.

    A weighted layer is a convolution or matrix product of data with parameters, or with what is
    computed from parameters alone. Products of data with data (attention), fixed filters,
    normalisations and elementwise work do not count: ResNet-50 has depth 50.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode, on any device. All intermediate results are held until the end, so the meta
        device, where they take no memory, is best for large ones.
    image : torch.Tensor
        Input of shape (1, 3, height, width) on the model's device; its values do not matter.

    Returns
    -------
    int
        The depth; 0 where nothing that is returned depends on the input through weights.
    """
    tracking = _DepthMode(model.parameters(), image)
    with plain_attention(), torch.no_grad(), tracking:
        output = model(image)
    return max((0, *(tracking.facts(tensor).depth for tensor in _tensors(output))))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of the values in one piece of memory."""

    #: Weighted layers behind them; -1 where they do not depend on the input.
    depth: int = -1
    #: Whether they come from parameters.
    weights: bool = False


class _OperationMode(TorchDispatchMode):
    """Hands every operation of a forward pass to ``watch``, after it ran."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else torch imports its compiler at the first operation, which takes longer than a small
        # network's whole pass.
        return False

    def watch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Take note of an operation."""
        raise NotImplementedError

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.watch(func, args, kwargs or {}, result)
        return result


class _WorkMode(_OperationMode):
    """Adds up the floating point operations by torch's formulas."""

    flops = 0

    def watch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        formula = flop_registry.get(func.overloadpacket)
        if formula is not None:
            self.flops += formula(*args, **kwargs, out_val=result)


class _DepthMode(_OperationMode):
    """Follows depth through every operation, by the memory that operations read and write."""

    def __init__(self, parameters: Iterable[torch.Tensor], image: torch.Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._facts: dict[int, _Facts] = {}
        # Addresses are keys, so what stood there must live as long as this object does.
        self._alive: list[torch.UntypedStorage] = []
        for parameter in parameters:
            self._set(parameter, _Facts(weights=True))
        self._set(image, _Facts(depth=0))

    def facts(self, tensor: torch.Tensor) -> _Facts:
        """Return what is known of a tensor; nothing for constants."""
        return self._facts.get(tensor.untyped_storage()._cdata, _Facts())

    def watch(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        inputs = [self.facts(tensor) for tensor in _tensors((args, kwargs))]
        depth = max((facts.depth for facts in inputs), default=-1) + self._is_layer(func, args)
        behind = _Facts(depth, depth < 0 and any(facts.weights for facts in inputs))
        for tensor in _tensors(result):
            self._set(tensor, behind)

    def _is_layer(self, func: Any, args: tuple[Any, ...]) -> bool:
        places = _PRODUCTS.get(getattr(func, "overloadpacket", None))
        if places is None:
            return False
        first, second = (self.facts(args[place]) for place in places)
        return (first.depth >= 0 and second.weights) or (second.depth >= 0 and first.weights)

    def _set(self, tensor: torch.Tensor, facts: _Facts) -> None:
        storage = tensor.untyped_storage()
        # Also where an operation wrote into memory that was there: that was one of its inputs, so
        # the new depth is never less than the old.
        self._facts[storage._cdata] = facts
        self._alive.append(storage)


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor))
