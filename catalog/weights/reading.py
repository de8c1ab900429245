"""Files of weights, read without running any code: whole, or their headers alone.

Owns which content a file may have. ``content`` finds the weights in it, ``filetypes`` recognises
kinds of files and looks at archives, ``pickle_scan`` lists what a pickle imports.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeVar

import torch
from safetensors import safe_open

from catalog.bounds import open_file, read_at_most
from catalog.weights import filetypes
from catalog.weights.content import Content
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

#: Packages that torch.load itself judges by name, class for class, and what else it makes.
_OWN_PACKAGES = frozenset({"torch", "collections"})
_OWN_NAMES = frozenset({"_codecs.encode", "builtins.complex", "builtins.set", *STAND_INS})
_JAX_PACKAGES = frozenset({"dill", "flax", "haiku", "jax", "jaxlib", "jaxline", "optax"})
_ARCHIVE = b"PK\x03\x04"
#: A file from before archives: two numbers, the machine, the object, and the keys of its storages.
_LEGACY_PICKLES = 5
_LEGACY_START_BYTES = 64

_Entry = TypeVar("_Entry")


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
                return Content(path, _saved(file, file.get_tensor))
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
            path, "it is cut short, damaged or something else", "fetch it again, or save it anew"
        ) from problem


def read_header(path: Path) -> Content:
    """Read the names and shapes of a file's tensors, and where possible none of their values.

    Of safetensors the header is read, of torch's zip files the pickle; others are read whole.

    Returns
    -------
    Content
        Its tensors are for their shapes alone.

    Raises
    ------
    CheckpointError
        As ``read_content``; damage beyond the header is not noticed.
    """
    with contextlib.suppress(Exception):
        if filetypes.is_safetensors(path):
            with safe_open(path, framework="pt", device="cpu") as file:
                shapes = _saved(file, lambda name: file.get_slice(name).get_shape())
            return Content(path, {n: torch.empty(s, device="meta") for n, s in shapes.items()})
        with open_file(path) as opened:
            return Content(path, _mapped(path, opened))
    # Of another kind, or damaged, which reading it whole explains.
    return read_content(path)


def _saved(file: Any, entry: Callable[[str], _Entry]) -> dict[str, _Entry]:
    """Return the entry of each tensor of a safetensors file, under each name that it has.

    Of tied weights safetensors saves one; the metadata have its name under those of the others.
    """
    names, ties = list(file.keys()), file.metadata() or {}
    require_few_tensors(len(names) + len(ties))
    entries = {name: entry(name) for name in names}
    return {name: entries[kept] for name, kept in ties.items() if kept in entries} | entries


def _mapped(path: Path, opened: BinaryIO) -> object:
    """Return what torch saved into an archive, its tensors left on disk."""
    with zipfile.ZipFile(opened) as archive:
        filetypes.check_listing(path, archive, opened)
        filetypes.check_directory(path, archive, opened)
        names = _names_in(archive)
    # By its descriptor: a path could lead to another file by now.
    return _tensors_only(path, f"/dev/fd/{opened.fileno()}", names, mmap=True)


def _names_in(archive: zipfile.ZipFile) -> list[str]:
    """Return what the pickles of an archive ask for.

    All of them: which one torch takes depends on how the archive's folder is called.
    """
    programs = [name for name in archive.namelist() if name.lower().endswith("data.pkl")]
    return [name for each in programs for name in names_asked_for(_unpacked(archive, each))]


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
        names = _names_in(archive)
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


def _tensors_only(
    path: Path, opened: BinaryIO | str, names: list[str], *, mmap: bool = False
) -> object:
    if "builtins.bytearray" in names:
        # torch allows it, and one of any length is made from a number alone.
        _refuse(path, ["builtins.bytearray"])
    if not isinstance(opened, str):
        opened.seek(0)
    try:
        with warnings.catch_warnings(), standing_in():
            # About protocols and archives: what matters of it is an error all the same.
            warnings.simplefilter("ignore")
            return torch.load(opened, map_location="cpu", weights_only=True, mmap=mmap)
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
