"""Files of weights: read without running any code, and unwrapped.

Owns which content a file may have. ``filetypes`` recognises kinds of files and looks at archives,
``pickle_scan`` lists what a pickle imports, ``keys`` renames keys for a network.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn

import torch
from safetensors import safe_open

from catalog.bounds import open_file, read_at_most
from catalog.weights import filetypes
from catalog.weights.filetypes import unreadable
from catalog.weights.pickle_scan import (
    STAND_INS,
    PickleBombError,
    names_asked_for,
    require_few_tensors,
    standing_in,
)
from survey.errors import CheckpointError
from survey.text import first_names, shortened

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

#: Packages that torch.load itself judges by name, class for class, and what else it makes.
_OWN_PACKAGES = frozenset({"torch", "collections"})
_OWN_NAMES = frozenset({"_codecs.encode", "builtins.complex", "builtins.set", *STAND_INS})
_JAX_PACKAGES = frozenset({"dill", "flax", "haiku", "jax", "jaxlib", "jaxline", "optax"})
_WRAPPED_AT_MOST = 8
_ARCHIVE = b"PK\x03\x04"
#: A file from before archives: two numbers, the machine, the object, and the keys of its storages.
_LEGACY_PICKLES = 5
_LEGACY_START_BYTES = 64


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of a file, or of one of its containers."""

    #: The weights on the CPU, by the file's keys.
    tensors: dict[str, torch.Tensor]
    #: Module path to the layout version that torch saved with the keys; empty where it saved none.
    versions: dict[str, dict[str, int]]
    #: Entries beside the weights that are not tensors.
    dropped_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What a file of weights holds, as plain data and tensors."""

    #: The file.
    path: Path
    #: What was saved: dicts, lists, numbers and tensors; objects of other classes are left out.
    payload: object = field(repr=False)

    def weights(self, container: tuple[str, ...] = ()) -> Weights:
        """Return the weights under a path of keys.

        Parameters
        ----------
        container : tuple of str
            Keys that lead from the top of the file to the weights; empty to look for them at the
            top and under the usual wrappers.

        Raises
        ------
        CheckpointError
            If nothing is there, or no named tensors are.
        """
        state = self._under(container) if container else _unwrapped(self.payload)
        entries = _entries(state) or {}
        # Detached they are plain: a file may give its tensors attributes like its dicts.
        tensors = {
            key: torch.Tensor.detach(value)
            for key, value in entries.items()
            if isinstance(key, str) and isinstance(value, torch.Tensor)
        }
        if not tensors:
            where = f"under {' > '.join(container)}" if container else "at the top"
            wrappers = "" if container else f" and under {', '.join(WRAPPERS)}"
            raise CheckpointError(
                f"{self.path} holds no named tensors: {_description(entries or self.payload)};"
                f" weights are looked for {where}{wrappers}",
                hint="save model.state_dict() with torch.save or safetensors",
            )
        dropped = tuple(str(key) for key in entries if key not in tensors)
        return Weights(tensors, _saved_versions(state), dropped)

    def _under(self, container: tuple[str, ...]) -> object:
        """Follow keys exactly."""
        payload = self.payload
        for depth, key in enumerate(container):
            inner = (_entries(payload) or {}).get(key)
            if not isinstance(inner, dict):
                where = f" under {' > '.join(container[:depth])}" if depth else ""
                raise CheckpointError(
                    f"{self.path} has no dict {key!r}{where}, where its weights were published:"
                    f" it holds {_description(payload)}",
                    hint="the file is another one than the published one, or was packed anew",
                )
            payload = inner
        return payload


def read_content(path: Path) -> Content:
    """Read a file of weights, by its content: safetensors, torch's, or one zipped.

    No code of the file runs. Sizes are looked at before anything is unpacked.

    Raises
    ------
    CheckpointError
        If the file is damaged, not a file of weights, would unpack to far more than it is, or
        holds more than tensors and plain data.
    """
    try:
        if filetypes.is_safetensors(path):
            with safe_open(path, framework="pt", device="cpu") as file:
                names = list(file.keys())
                require_few_tensors(len(names))
                return Content(path, {name: file.get_tensor(name) for name in names})
        filetypes.check_kind(path)
        with open_file(path) as opened:
            return Content(path, _payload(path, opened))
    except (CheckpointError, OSError):
        raise
    except PickleBombError as problem:
        raise unreadable(
            path, str(problem), "no file of weights does that: fetch it from its publisher"
        ) from problem
    except Exception as problem:
        # torch raises anything on files that are not its own.
        raise unreadable(
            path, "it is cut short, damaged or something else", "fetch it again"
        ) from problem


def _payload(path: Path, opened: BinaryIO, *, unpacked: bool = False) -> object:
    """Return what torch saved; ``unpacked`` is for a file that came out of a zip archive."""
    archived = opened.read(len(_ARCHIVE)) == _ARCHIVE
    opened.seek(0)
    if not archived:
        return _tensors_only(path, opened, _legacy_names(path, opened))
    with zipfile.ZipFile(opened) as archive:
        filetypes.check_members(path, archive, opened)
        programs = [name for name in archive.namelist() if name.lower().endswith("data.pkl")]
        if programs:
            filetypes.check_directory(path, archive, opened)
        if not (programs or unpacked):
            member = _unpacked(archive, _only_member(path, archive))
            return _payload(path, member, unpacked=True)
        # All of them: which one torch takes depends on how the archive's folder is called.
        names = []
        for program in programs:
            names += names_asked_for(_unpacked(archive, program))
    return _tensors_only(path, opened, names)


def _unpacked(archive: zipfile.ZipFile, name: str) -> io.BytesIO:
    """Return a file of an archive whose sizes were checked."""
    # In pieces: asked for all at once, zipfile unpacks gigabytes before it looks at the size.
    with archive.open(name) as stream:
        return io.BytesIO(read_at_most(stream, archive.getinfo(name).file_size, name))


def _only_member(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the only file of a zip archive that is not torch's own."""
    hidden = ("__MACOSX/", ".")
    members = [m.filename for m in archive.infolist() if not m.is_dir()]
    members = [name for name in members if not name.startswith(hidden)]
    if len(members) != 1:
        raise unreadable(
            path,
            f"it is a zip archive of {len(members)} files ({first_names(members) or 'none'}), must"
            " hold one file of weights",
            "unpack it and name the file of weights",
        )
    return members[0]


def _legacy_names(path: Path, opened: BinaryIO) -> list[str]:
    """Return what the pickles of a file from before archives ask for."""
    names = names_asked_for(opened)
    _refuse_foreign(path, names)
    end = opened.tell()
    if end > _LEGACY_START_BYTES or not opened.read(1):
        raise unreadable(
            path,
            "it is a plain pickle, not one that torch.save wrote",
            "load it with the program that wrote it, and save model.state_dict() with torch.save",
        )
    opened.seek(end)
    for _ in range(_LEGACY_PICKLES - 1):
        names += names_asked_for(opened)
    return names


def _tensors_only(path: Path, opened: BinaryIO, names: list[str]) -> object:
    if "builtins.bytearray" in names:
        # torch allows it, and one of any length is made from a number alone.
        _refuse(path, ["builtins.bytearray"])
    opened.seek(0)
    try:
        with warnings.catch_warnings(), standing_in():
            # About protocols and archives: what matters of it is an error all the same.
            warnings.simplefilter("ignore")
            return torch.load(opened, map_location="cpu", weights_only=True)
    except Exception as problem:
        named = re.search(r"GLOBAL (\w[\w.]*\w) was", str(problem))
        if named:
            _refuse(path, [named[1]])
        _refuse_foreign(path, names)
        if "Unsupported operand" in str(problem):
            raise unreadable(
                path,
                "it is pickled in a way that cannot be read safely",
                "load it yourself, and save model.state_dict() with torch.save's own protocol",
            ) from problem
        raise


def _refuse_foreign(path: Path, names: list[str]) -> None:
    """Refuse a pickle that asks for classes or functions which are not tensors' own."""
    foreign = [n for n in names if n.partition(".")[0] not in _OWN_PACKAGES and n not in _OWN_NAMES]
    if foreign:
        _refuse(path, foreign)


def _refuse(path: Path, names: list[str]) -> NoReturn:
    asked = f"it asks for {shortened(names[0])}, which could run code and was refused"
    if any(name.partition(".")[0] in _JAX_PACKAGES for name in names):
        raise CheckpointError(
            f"{path} is a pickle of JAX: {asked}; allowed are safetensors and torch.save files",
            hint="convert it with JAX, and check that padding and normalisation are torch's",
        )
    raise CheckpointError(
        f"{path} holds more than tensors: {asked}; allowed are tensors, numbers, text, lists and"
        " dicts",
        hint="where you trust the file, load it yourself and save model.state_dict() anew",
    )


def _entries(value: object) -> dict[object, object] | None:
    """Return what a dict holds; None for anything else.

    A file may give its dicts attributes, one called ``items`` too: none is looked up.
    """
    return dict(dict.items(value)) if isinstance(value, dict) else None


def _unwrapped(payload: object) -> object:
    """Return the innermost dict that a chain of known wrapper keys leads to."""
    for _ in range(_WRAPPED_AT_MOST):
        entries = _entries(payload)
        if entries is None:
            break
        inner = [entries.get(key) for key in WRAPPERS]
        inner = [value for value in inner if _entries(value)]
        if not inner:
            return payload
        payload = inner[0]
    return {}


def _description(payload: object) -> str:
    entries = _entries(payload)
    if entries is not None:
        return f"a dict with the keys {first_names(map(str, entries)) or 'none'}"
    return f"a {type(payload).__name__}"


def _saved_versions(state: object) -> dict[str, dict[str, int]]:
    saved = _entries(getattr(state, "_metadata", None)) or {}
    return {
        key: {"version": version}
        for key, value in saved.items()
        if isinstance(key, str) and type(version := (_entries(value) or {}).get("version")) is int
    }
