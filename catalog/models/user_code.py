"""The user's code: what importing a module may run, located and hashed without importing anything.

What counts is every file that Python can import (source, extension modules, byte code) in the
folder that the module's top-level name is imported from, and in the folders below that hold such
files themselves or lead to the module. Links are followed. Hidden folders and ``__pycache__`` do
not count, nor do data that the code reads. An import below that folder is then given the hashed
source and nothing else: a file that is new or changed is refused, and byte code beside a source is
never used. Packages that are installed in this environment are not the user's code.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.machinery
import json
import os
import pkgutil
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from survey.errors import CatalogError
from survey.text import counted, format_bytes

#: How the name of a file that can be imported ends.
ENDINGS = tuple(importlib.machinery.all_suffixes())

#: The most that is hashed: a folder with more is not one of a project's code.
MOST_FILES = 10_000
MOST_BYTES = 256 * 10**6

#: This program's own packages, which may lie beside the user's code in a checkout.
_OURS = frozenset({"survey", "catalog", "analysis", "jobs"})


@dataclass(frozen=True, slots=True)
class UserCode:
    """The code that importing one module may run."""

    #: The module's full name.
    module: str
    #: The folder that its top-level name is imported from.
    root: Path
    #: sha256 (hex) of each file, by its path below that folder.
    files: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """sha256 (hex) over the module's name and all files, wherever the folder lies."""
        text = json.dumps([self.module, sorted(self.files.items())])
        return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()

    def load(self) -> ModuleType:
        """Import the module, and whatever it imports from its folder, as it was hashed.

        Raises
        ------
        ImportError
            If a file below the folder is new, or is not what was hashed.
        """
        _HASHED.folders[self.root] = self.files
        if _HASHED not in sys.meta_path:
            sys.meta_path.insert(0, _HASHED)
        here = str(Path.cwd())
        if here not in sys.path:
            # A console script does not look there by itself, and users name what lies before them.
            sys.path.append(here)
        return importlib.import_module(self.module)

    def defines(self, function: object) -> bool:
        """Return whether a function of an imported module is of these files, not of others."""
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        file = Path(os.path.abspath(getattr(module, "__file__", None) or ""))  # noqa: PTH100
        return file.is_relative_to(self.root) and str(file.relative_to(self.root)) in self.files


def user_code(module: str) -> UserCode | None:
    """Return the code that importing a module may run; None for one of an installed package.

    Runs none of it: neither the module nor the packages that it lies in are imported.

    Raises
    ------
    CatalogError
        If there is no such module, it is a part of Python, or its folder holds too much.
    """
    path = _location(module)
    if _is_installed(path):
        return None
    root = path.parents[module.count(".") + (path.stem == "__init__")]
    return UserCode(module, root, _hashed(root, path.parent))


def _location(module: str) -> Path:
    """Return the file of a module."""
    first, *others = module.split(".")
    spec = _specification(first) or PathFinder.find_spec(first, [str(Path.cwd())])
    name = first
    for part in others:
        name = f"{name}.{part}"
        spec = _within(name, spec.submodule_search_locations or ()) if spec else None
    if spec is None:
        raise CatalogError(
            f"there is no module {name}" + (f", which {module} lies in" if name != module else ""),
            hint=f"write {module.removesuffix('.py')}, without the .py"
            if module.endswith(".py")
            else "run the command where the module lies, or install its package",
        )
    path = Path(os.path.abspath(spec.origin or ""))  # noqa: PTH100 - links are kept
    standard = path.is_relative_to(sysconfig.get_path("stdlib")) and not _is_installed(path)
    if standard or not (spec.has_location and path.is_file()):
        what = "a part of Python" if spec.loader else "a folder without code"
        raise CatalogError(
            f"the module {module} is {what}, which defines no network",
            hint="name the module that has the function: python:MODULE:FUNCTION",
        )
    return path


def _specification(
    name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
) -> ModuleSpec | None:
    """Return where an import would find a module, by all finders but ours."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if finder is not _HASHED and find and (spec := find(name, path, target)):
            return spec  # type: ignore[no-any-return]
    return None


def _within(name: str, folders: Sequence[str]) -> ModuleSpec | None:
    """Return where a module of a package lies, without the package being imported."""
    portions: list[str] = []
    for folder in folders:
        finder = pkgutil.get_importer(folder)
        spec = finder.find_spec(name) if finder and hasattr(finder, "find_spec") else None
        if spec and spec.loader:
            return spec
        portions += spec.submodule_search_locations or () if spec else ()
    if not portions:
        return None
    package = ModuleSpec(name, None, is_package=True)
    package.submodule_search_locations = portions
    return package


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return (*site.getsitepackages(), *users)


def _is_installed(path: Path) -> bool:
    """Return whether a file belongs to a package installed in this environment."""
    return any(path.is_relative_to(folder) for folder in _installed_folders())


def _hashed(root: Path, leading: Path) -> dict[str, str]:
    """Return the sha256 of each file that counts, by its path below the root."""
    hashes: dict[str, str] = {}
    known = 0
    for path in _importable(root, leading, set()):
        known += path.stat().st_size
        if len(hashes) == MOST_FILES or known > MOST_BYTES:
            raise CatalogError(
                f"{root} holds more than {counted(MOST_FILES, 'file')} or"
                f" {format_bytes(MOST_BYTES)} of code, which is not hashed",
                hint="put the module into a folder of its own, or install it as a package",
            )
        hashes[str(path.relative_to(root))] = _file_sha256(path)
    return hashes


def _importable(folder: Path, leading: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the files of a folder that can be imported, and those of its folders."""
    try:
        status = folder.stat()
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        files = [each for each in entries if each.name.endswith(ENDINGS) and each.is_file()]
    except OSError as error:
        raise _unreadable(folder, error) from None
    # A link may lead to a folder that holds it.
    place = (status.st_dev, status.st_ino)
    if place in seen or not (files or leading.is_relative_to(folder)):
        return
    seen.add(place)
    yield from (Path(file) for file in files)
    for each in entries:
        if each.name.isidentifier() and each.name != "__pycache__" and each.is_dir():
            yield from _importable(Path(each), leading, seen)


def _file_sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> CatalogError:
    return CatalogError(
        f"{path} cannot be read: {error.strerror}",
        hint="all code in the folder of a python: model is hashed: check the permissions",
    )


class _Hashed(MetaPathFinder):
    """Finds modules as all other finders do, and lets none in but those that were hashed."""

    def __init__(self) -> None:
        #: The hashes of files, by the folder that they lie below.
        self.folders: dict[Path, Mapping[str, str]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module lies; see ``importlib.abc.MetaPathFinder``."""
        spec = _specification(name, path, target)
        if spec is None or not spec.has_location or name.partition(".")[0] in _OURS:
            return spec
        file = Path(os.path.abspath(spec.origin or ""))  # noqa: PTH100 - links are kept
        around = [root for root in self.folders if file.is_relative_to(root)]
        if not around or _is_installed(file):
            return spec
        hashes = {self.folders[root].get(str(file.relative_to(root))) for root in around}
        if isinstance(spec.loader, SourceFileLoader):
            spec.loader = _HashedSource(name, str(file), hashes)
        else:
            _require(file.read_bytes(), hashes, name, file)
        return spec


class _HashedSource(SourceFileLoader):
    """Runs a source file as it was hashed."""

    def __init__(self, name: str, path: str, hashes: Set[str | None]) -> None:
        super().__init__(name, path)
        self._hashes = hashes

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the source, never byte code: what lies beside it was not hashed."""
        content = self.get_data(self.path)
        _require(content, self._hashes, fullname, Path(self.path))
        return self.source_to_code(content, self.path)


def _require(content: bytes, hashes: Set[str | None], name: str, path: Path) -> None:
    if hashlib.sha256(content).hexdigest() not in hashes:
        raise ImportError(
            f"{path} is new or has changed since the code was hashed", name=name, path=str(path)
        )


_HASHED = _Hashed()
