"""Pickles of weights: what they ask for, how far they unfold, and what may stand in for it.

A pickle is a program. torch reads one with an allow-list of classes; this module looks at the
program first, without running it, and gives torch stand-ins for the harmless classes that real
checkpoints hold beside their weights. A stand-in keeps nothing and does nothing, so such an
object is neither made nor is any code of its class run.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import torch

#: Most operations of one pickle; a large network with its optimiser takes some hundred thousand.
MOST_OPERATIONS = 1_000_000
#: Most tensors of a file: torch takes a tenth of a millisecond for each. The largest networks of
#: the catalog have some thousands, an optimiser two for each of them.
MOST_TENSORS = 30_000
#: Most values that are met when all that is hashed or handed to a call is walked through.
MOST_UNFOLDED = 1_000_000
#: Most levels of values in values; Python hashes a tuple by calling itself for each.
MOST_LEVELS = 200
#: Most keys that are neither text nor small whole numbers: such can all be made to have one hash,
#: and a dict of them then takes a time that grows with their square.
MOST_ODD_KEYS = 5_000


class PickleBombError(Exception):
    """A pickle would take far more memory or time than a file of weights does."""


def require_few_tensors(tensors: int) -> None:
    """Raise PickleBombError for a file of more tensors than any network has."""
    if tensors > MOST_TENSORS:
        raise PickleBombError(f"it holds more than {MOST_TENSORS:,} tensors")


class Inert:
    """Stands where a file has an object of another class, and keeps nothing of it."""

    __slots__ = ()

    def __new__(cls, *_: object) -> Inert:
        """Return one, whatever the object was made from."""
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Leave the object's content where it is."""


#: What real checkpoints hold beside weights: arguments, random states, histories, versions.
STAND_INS: dict[str, Callable[..., object]] = {
    # A plain dict: only missing keys would call the factory.
    "collections.defaultdict": lambda *_: {},
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
            # Python 3.13 and later.
            "pathlib._local.PosixPath",
            "pathlib._local.PurePosixPath",
            "pathlib._local.WindowsPath",
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
        If the pickle is too long or too deeply nested, hashes or calls something with values that,
        nested in each other, unfold to more than ``MOST_UNFOLDED``, or has too many odd keys; or
        if it calls a class of tensors or storages, which takes memory for a number alone.
    pickle.UnpicklingError
        If it is no pickle or a damaged one.
    """
    machine = _StackMachine()
    try:
        for count, (operation, argument, _) in enumerate(pickletools.genops(stream)):
            if count >= MOST_OPERATIONS:
                raise PickleBombError(f"its pickle has more than {MOST_OPERATIONS:,} operations")
            machine.step(operation, argument)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as problem:
        raise pickle.UnpicklingError(f"not a pickle: {problem}") from problem
    return list(dict.fromkeys(machine.names))


class _Value:
    """A value on a pickle's stack: what it was made from, and its text or number."""

    __slots__ = ("argument", "level", "name", "parts")

    def __init__(self, parts: list[_Value], argument: object = None, name: str = "") -> None:
        self.parts = parts
        self.argument = argument
        # Of a class or function: its name in full.
        self.name = name
        # What is put into a list or dict later is not counted: those are never hashed.
        self.level: int = 1 + max((part.level for part in parts), default=0)

    @property
    def plain(self) -> bool:
        """Whether it is text, whose hashes nobody foresees, or a number that is its own hash."""
        if self.parts:
            return False
        if isinstance(self.argument, int):
            return abs(self.argument) < 2**60
        return isinstance(self.argument, str | bytes)


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
#: Operations that call what they take first.
_CALLING = frozenset({"REDUCE", "NEWOBJ", "NEWOBJ_EX", "OBJ"})
#: Classes that torch allows to be called, and that take memory for a number alone.
_MAKERS = re.compile(r"torch\.(?:[\w.]+\.)?\w*(?:Tensor|Storage)")


class _StackMachine:
    """A pickle machine that makes no objects: it only follows what would be in what."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._stack: list[_Value] = []
        self._memo: dict[object, _Value] = {}
        self._left = MOST_UNFOLDED
        self._odd_keys = 0
        self._storages = 0

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
        # All machines share the mark, which must never grow; only POP takes one legally.
        if _MARK in taken and name != "POP":
            raise LookupError("a mark stands where a value is due")
        if name.endswith("PERSID"):
            self._storages += 1
            require_few_tensors(self._storages)
        if name in _WALKING:
            # Values of a dict are neither hashed nor handed on, and hold the weights.
            self._walk(taken[1::2] if name.startswith("SETITEM") else taken[name in _GROWING :])
            self._count_keys(name, taken)
        if name in _CALLING:
            self._check_call(*taken)
        if name in _GROWING:
            taken[0].parts.extend(taken[1:])
            self._stack.append(taken[0])
        elif operation.stack_after:
            value = _Value(taken, argument, self._imported(name, argument, taken))
            if value.level > MOST_LEVELS:
                raise PickleBombError(f"its pickle nests values more than {MOST_LEVELS} deep")
            self._stack.append(value)

    def _imported(self, operation: str, argument: object, taken: list[_Value]) -> str:
        """Note and return the name of the class or function that an operation imports, if any."""
        if operation in {"GLOBAL", "INST"}:
            imported = str(argument).replace(" ", ".", 1)
        elif operation == "STACK_GLOBAL":
            imported = f"{taken[0].argument}.{taken[1].argument}"
        else:
            return ""
        self.names.append(imported)
        return imported if operation != "INST" else ""

    def _check_call(self, called: _Value, *arguments: _Value) -> None:
        # The first files of torch make a tensor of no size, and give it its values after that.
        sized = any(each.parts or each.argument is not None for each in arguments)
        if sized and _MAKERS.fullmatch(called.name):
            raise PickleBombError(f"it calls {called.name} instead of holding its values")

    def _count_keys(self, operation: str, taken: list[_Value]) -> None:
        """Count what a dict or a set would hash, except where no two hashes are made alike."""
        keys: list[_Value] = []
        if operation.startswith("SETITEM"):
            keys = taken[1::2]
        elif operation == "REDUCE" and taken[0].name.startswith(("collections.", "builtins.set")):
            # One list of pairs, or of members.
            keys = [key for list_ in taken[1].parts for key in list_.parts]
            keys = [key.parts[0] if len(key.parts) == 2 else key for key in keys]
        self._odd_keys += sum(not key.plain for key in keys)
        if self._odd_keys > MOST_ODD_KEYS:
            raise PickleBombError(
                f"its pickle has more than {MOST_ODD_KEYS:,} keys that are neither text nor numbers"
            )

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
        waiting = [values]
        while waiting:
            parts = waiting.pop()
            # Before they wait: a list may hold itself a thousand times.
            self._left -= len(parts)
            if self._left < 0:
                raise PickleBombError(
                    f"its pickle unfolds to more than {MOST_UNFOLDED:,} nested values"
                )
            waiting.extend(part.parts for part in parts if part.parts)
