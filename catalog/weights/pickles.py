"""Pickles of weights: what they ask for, how far they unfold, and what may stand in for it.

A pickle is a program. torch reads one with an allow-list of classes; this module looks at the
program first, without running it, and gives torch stand-ins for the harmless classes that real
checkpoints hold beside their weights. A stand-in keeps nothing and does nothing, so such an
object is neither made nor is any code of its class run.
"""

from __future__ import annotations

import pickle
import pickletools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import torch

#: Most operations of one pickle; a large network with its optimiser takes some hundred thousand.
MOST_OPERATIONS = 3_000_000
#: Most values that are met when all that is hashed or handed to a call is walked through.
MOST_UNFOLDED = 1_000_000


class PickleBombError(Exception):
    """A pickle would unfold to far more than a file of weights holds."""


class Inert:
    """Stands where a file has an object of another class, and keeps nothing of it."""

    __slots__ = ()

    def __new__(cls, *_: object) -> Inert:
        """Return one, whatever the object was made from."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Leave the object's content where it is."""


def _plain_dict(*_: object) -> dict[object, object]:
    """Stand for a dict with a factory, which only its missing keys would call."""
    return {}


#: What real checkpoints hold beside weights: arguments, random states, histories, versions.
STAND_INS: dict[str, Callable[..., object]] = {
    "collections.defaultdict": _plain_dict,
    **dict.fromkeys(
        [
            "argparse.Namespace",
            "builtins.bool",
            "builtins.dict",
            "builtins.float",
            "builtins.int",
            "builtins.list",
            "builtins.str",
            "builtins.tuple",
            # A history of losses names its methods; as a stand-in it looks up nothing.
            "builtins.getattr",
            "mmengine.logging.history_buffer.HistoryBuffer",
            "numpy._core.multiarray._reconstruct",
            "numpy._core.multiarray.scalar",
            "numpy.core.multiarray._reconstruct",
            "numpy.core.multiarray.scalar",
            "numpy.dtype",
            "numpy.float32",
            "numpy.float64",
            "numpy.int32",
            "numpy.int64",
            "numpy.ndarray",
            "pathlib.PosixPath",
            "pathlib.PurePosixPath",
            "pathlib.WindowsPath",
            "torch.torch_version.TorchVersion",
        ],
        Inert,
    ),
}

# torch keeps its allow-list for a whole process.
_LISTED = threading.Lock()


@contextmanager
def standing_in() -> Iterator[None]:
    """Let torch put stand-ins where a file asks for a harmless class, for a while."""
    with _LISTED, torch.serialization.safe_globals([(f, name) for name, f in STAND_INS.items()]):
        yield


def names_asked_for(stream: BinaryIO) -> list[str]:
    """Return the classes and functions that a pickle would import, in its order.

    Parameters
    ----------
    stream : binary file
        Read to the end of the pickle.

    Raises
    ------
    PickleBombError
        If the pickle is too long, or hashes or calls something with values that, nested in each
        other, unfold to more than ``MOST_UNFOLDED``.
    pickle.UnpicklingError
        If it is no pickle or a damaged one.
    """
    machine = _Machine()
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if count >= MOST_OPERATIONS:
                raise PickleBombError(f"its pickle has more than {MOST_OPERATIONS:,} operations")
            machine.step(operation, argument)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as problem:
        raise pickle.UnpicklingError(f"not a pickle: {problem}") from problem
    return list(dict.fromkeys(machine.names))


class _Value:
    """A value on a pickle's stack: what it was made from, and its text where it is one."""

    __slots__ = ("parts", "text")

    def __init__(self, parts: list[_Value], text: str = "") -> None:
        self.parts = parts
        self.text = text


_MARK = _Value([])
#: Operations that add to the value below what they take.
_GROWING = frozenset({"APPEND", "APPENDS", "SETITEM", "SETITEMS", "ADDITEMS", "BUILD"})
#: Operations that hash what they take, or hand it to a call.
_WALKING = _GROWING - {"APPEND", "APPENDS"} | {
    "REDUCE",
    "NEWOBJ",
    "NEWOBJ_EX",
    "OBJ",
    "INST",
    "BINPERSID",
    "DICT",
    "FROZENSET",
}


class _Machine:
    """A pickle machine that makes no objects: it only follows what would be in what."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._stack: list[_Value] = []
        self._memo: dict[object, _Value] = {}
        self._left = MOST_UNFOLDED

    def step(self, operation: pickletools.OpcodeInfo, argument: object) -> None:
        """Follow one operation."""
        name = operation.name
        if name == "MARK":
            self._stack.append(_MARK)
        elif name == "DUP":
            self._stack.append(self._stack[-1])
        elif name == "MEMOIZE" or name.endswith("PUT"):
            self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]
        elif name.endswith("GET"):
            self._stack.append(self._memo[argument])
        else:
            self._make(operation, argument)

    def _make(self, operation: pickletools.OpcodeInfo, argument: object) -> None:
        taken = self._take(operation)
        name = operation.name
        if name in _WALKING:
            # Values of a dict are neither hashed nor handed on, and hold the weights.
            self._walk(taken[1::2] if name.startswith("SETITEM") else taken[name in _GROWING :])
        if name in _GROWING:
            taken[0].parts.extend(taken[1:])
            self._stack.append(taken[0])
        elif operation.stack_after:
            self._stack.append(_Value(taken, argument if isinstance(argument, str) else ""))
        if name in {"GLOBAL", "INST"}:
            self.names.append(str(argument).replace(" ", ".", 1))
        elif name == "STACK_GLOBAL":
            self.names.append(f"{taken[0].text}.{taken[1].text}")

    def _take(self, operation: pickletools.OpcodeInfo) -> list[_Value]:
        """Take an operation's values off the stack: to the last mark, or a fixed number."""
        before = operation.stack_before
        above: list[_Value] = []
        count = len(before)
        if pickletools.markobject in before:
            while (value := self._stack.pop()) is not _MARK:
                above.append(value)
            count = before.index(pickletools.markobject)
        below = [self._stack.pop() for _ in range(count)]
        return below[::-1] + above[::-1]

    def _walk(self, values: list[_Value]) -> None:
        """Count all values in values, each as often as it would be met."""
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            self._left -= 1
            if self._left < 0:
                raise PickleBombError(
                    f"its pickle unfolds to more than {MOST_UNFOLDED:,} nested values"
                )
            waiting.extend(value.parts)
