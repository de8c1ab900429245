"""Files of weights: read without running any code, and unwrapped.

Owns what a file may hold. How its keys become a network's keys is the business of
``catalog.fitting``; which file is read for which network, that of ``catalog.checkpoints``.
"""

from __future__ import annotations

import pickle
import pickletools
import re
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import SafetensorError, safe_open

from survey.errors import CheckpointError

#: Keys under which training scripts keep the weights, in the order they are looked for.
WRAPPERS = (
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "weights",
    "net",
    "network",
    "module",
)

#: Packages that torch.load itself judges by name, class for class.
_OWN_PACKAGES = frozenset({"torch", "collections"})
_SCANNED_BYTES = 64 * 2**20
_WRAPPED_AT_MOST = 8

#: What torch raises on files that are cut short or not its own.
_READ_ERRORS = (
    pickle.UnpicklingError,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    MemoryError,
    struct.error,
    SafetensorError,
)


@dataclass(frozen=True, slots=True)
class Weights:
    """What a file of weights holds.

    Attributes
    ----------
    tensors : dict of str to Tensor
        The weights on the CPU, by the file's keys without wrappers' prefixes.
    versions : dict of str to dict
        Module path to the layout version that torch saved with the keys; empty where it saved none.
    dropped_keys : tuple of str
        Entries beside the weights that are not tensors.
    """

    tensors: dict[str, torch.Tensor]
    versions: dict[str, dict[str, int]]
    dropped_keys: tuple[str, ...]


def read_weights(path: Path) -> Weights:
    """Read a file of weights: safetensors or torch's, told apart by content.

    Raises
    ------
    CheckpointError
        If the file is missing, damaged, not a file of weights, or holds more than tensors.
    """
    _check_kind(path)
    try:
        if _is_safetensors(path):
            with safe_open(path, framework="pt", device="cpu") as file:
                names = list(file.keys())
                return _weights(path, {name: file.get_tensor(name) for name in names})
        with path.open("rb") as opened:
            payload = _tensors_only(opened)
    except _READ_ERRORS as problem:
        raise _refusal(path, problem) from problem
    return _weights(path, payload)


def _tensors_only(opened: BinaryIO) -> object:
    with warnings.catch_warnings():
        # About protocols and archives: what matters of it is an error all the same.
        warnings.simplefilter("ignore")
        return torch.load(opened, map_location="cpu", weights_only=True)


def _check_kind(path: Path) -> None:
    """Refuse what is no file of weights at all, in words that say what it is."""
    if not path.is_file():
        happened = "is not a file" if path.exists() else "does not exist"
        raise CheckpointError(
            f"checkpoint file {path} {happened}",
            hint="a relative path starts where the command was called, or beside the survey file",
        )
    if _is_safetensors(path):
        # Begins with a number, which may look like anything below.
        return
    head = _head(path).lstrip()
    if not head:
        raise _unreadable(path, "it is empty", "fetch the file again")
    if head.startswith(b"<"):
        raise _unreadable(path, "it is a web page", "the download gave an error page: fetch again")
    if head.startswith(b"version https://git-lfs"):
        raise _unreadable(path, "it is a Git LFS pointer", "fetch the content with: git lfs pull")
    if zipfile.is_zipfile(path) and _is_torchscript(path):
        raise _unreadable(
            path, "it is a TorchScript archive, which holds code", "save model.state_dict()"
        )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(64)


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        return _header_bytes(file) > 0


def _header_bytes(file: BinaryIO) -> int:
    """Return the length of a safetensors header, or 0 for another kind of file."""
    start = file.read(9)
    if len(start) < 9 or start[8:] != b"{":
        return 0
    # The format's own limit; a larger number is some other file that has a brace there.
    length = int.from_bytes(start[:8], "little")
    return length if length <= 100_000_000 else 0


def _refusal(path: Path, problem: BaseException) -> CheckpointError:
    named = re.search(r"GLOBAL (\w[\w.]*\w)", str(problem))
    refused = named[1] if named else next(_foreign_names(path), None)
    if refused is None:
        return _unreadable(path, "it is cut short, damaged or something else", "fetch it again")
    return CheckpointError(
        f"{path} holds more than tensors: it asks for {refused}, which could run code and was"
        " refused; allowed are tensors, numbers, text, lists and dicts",
        hint="where you trust the file, load it yourself and save model.state_dict() anew",
    )


def _foreign_names(path: Path) -> Iterator[str]:
    """Yield the classes and functions a pickle asks for besides torch's, running none of it."""
    try:
        for name in _pickled_names(_pickle_bytes(path)):
            if name.partition(".")[0] not in _OWN_PACKAGES:
                yield name
    except (*_READ_ERRORS, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return


def _pickled_names(content: bytes) -> Iterator[str]:
    """Yield every name that a pickle would import, following the texts it puts on its stack."""
    texts = ["", ""]
    memo: dict[object, str] = {}
    top = ""
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in {"GLOBAL", "INST"}:
            yield str(argument).replace(" ", ".", 1)
        elif operation.name == "STACK_GLOBAL":
            yield ".".join(texts)
        elif operation.name == "MEMOIZE" or operation.name.endswith("PUT"):
            memo[len(memo) if argument is None else argument] = top
            continue
        top = memo.get(argument, "") if operation.name.endswith("GET") else _text(argument)
        texts = [texts[1], top] if top else texts


def _text(argument: object) -> str:
    return argument if isinstance(argument, str) else ""


def _pickle_bytes(path: Path) -> bytes:
    """Return a file's pickle, or as much of it as could name what it asks for."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return file.read(_SCANNED_BYTES)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.endswith("data.pkl"):
                with archive.open(name) as packed:
                    return packed.read(_SCANNED_BYTES)
    return b""


def _unreadable(path: Path, why: str, hint: str) -> CheckpointError:
    return CheckpointError(
        f"{path} cannot be read as weights: {why}; allowed are safetensors and torch.save files",
        hint=hint,
    )


def _weights(path: Path, payload: object) -> Weights:
    state = _unwrapped(payload)
    tensors = {
        key: value
        for key, value in state.items()
        if isinstance(key, str) and isinstance(value, torch.Tensor)
    }
    if not tensors:
        raise CheckpointError(
            f"{path} holds no named tensors: {_description(payload)};"
            f" weights are looked for at the top and under {', '.join(WRAPPERS)}",
            hint="save model.state_dict() with torch.save or safetensors",
        )
    dropped = tuple(str(key) for key in state if key not in tensors)
    return Weights(tensors, _saved_versions(state), dropped)


def _unwrapped(payload: object) -> Mapping[object, object]:
    """Return the innermost dict that a chain of known wrapper keys leads to."""
    for _ in range(_WRAPPED_AT_MOST):
        if not isinstance(payload, Mapping):
            break
        inner = [payload.get(key) for key in WRAPPERS]
        inner = [value for value in inner if isinstance(value, Mapping) and value]
        if not inner:
            return payload
        payload = inner[0]
    return {}


def _description(payload: object) -> str:
    if isinstance(payload, Mapping):
        return f"a dict with the keys {first_names([str(key) for key in payload]) or 'none'}"
    return f"a {type(payload).__name__}"


def _saved_versions(state: object) -> dict[str, dict[str, int]]:
    saved = getattr(state, "_metadata", None)
    if not isinstance(saved, Mapping):
        return {}
    return {
        key: {"version": value["version"]}
        for key, value in saved.items()
        if isinstance(key, str) and isinstance(value, dict) and type(value.get("version")) is int
    }


def first_names(names: Iterable[str], most: int = 4) -> str:
    """Return the first few of many names, for a message."""
    names = list(names)
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
