"""The blocks of a network, and the repeat position of each activation call in its block.

A block is the outermost module around a call that

- is not the network itself,
- is not a plain container of torch.nn, such as a Sequential,
- holds at least two weight layers, that is modules with a parameter of two or more axes, and
- does not hold two modules of one class that do the same and call activations: it would be a
  stage, and those are the blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from torch import nn


class Blocks:
    """The blocks of one network.

    Parameters
    ----------
    names : dict of torch.nn.Module to str
        Every module with its path, the network itself with the empty one.
    """

    def __init__(self, names: dict[nn.Module, str]) -> None:
        self._modules = {name: module for module, name in names.items()}
        self._weights: Counter[str] = Counter()
        for name, module in self._modules.items():
            if any(parameter.ndim >= 2 for parameter in module.parameters(recurse=False)):
                self._weights.update(_around(name))

    def repeats(self, paths: Sequence[str]) -> list[int]:
        """Number the activation calls of each block.

        Parameters
        ----------
        paths : sequence of str
            In execution order, the path of the module whose forward makes each call.

        Returns
        -------
        list of int
            The position of each call in its block, counting from 1; 1 outside of blocks.
        """
        stages = self._stages(set(paths))
        seen: Counter[str] = Counter()
        positions = []
        for path in paths:
            block = next((n for n in _around(path) if self._holds(n) and n not in stages), None)
            if block is not None:
                seen[block] += 1
            positions.append(1 if block is None else seen[block])
        return positions

    def _stages(self, paths: set[str]) -> set[str]:
        """Return the stages: modules that hold two candidate blocks of one class."""
        calling = {name for path in paths for name in _around(path) if self._holds(name)}
        inside: Counter[tuple[str, type]] = Counter()
        for name in calling:
            kind = type(self._modules[name])
            inside.update((around, kind) for around in _around(name) if around != name)
        return {around for (around, _), count in inside.items() if count >= 2}

    def _holds(self, name: str) -> bool:
        """Return whether a module has the weights of a block and is no plain container."""
        container = type(self._modules[name]).__module__.startswith("torch.nn")
        return bool(name) and not container and self._weights[name] >= 2


def _around(path: str) -> Iterator[str]:
    """Yield the paths of a module's ancestors, outermost first, and then its own."""
    yield ""
    parts = path.split(".") if path else []
    for length in range(1, len(parts) + 1):
        yield ".".join(parts[:length])
