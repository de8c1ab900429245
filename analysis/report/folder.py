"""The folder of a report, written whole or not at all, and over nothing but an earlier report.

A marker says which folders are reports. Files are written into a folder beside ``out``, which takes
its name at the end.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from catalog.backup.folder import held_folder
from catalog.bounds import read_json
from survey.errors import SettingsError

#: The file that says a folder is a report, and which files it holds.
MARKER = "report.json"

#: The marker's ``kind``.
KIND = "model-zoo-survey report"

#: Bytes of the largest marker that is read.
_MOST_BYTES = 2**26

#: Writes a file of a report: its path within the report, with slashes, and what it holds.
Write = Callable[[str, str | bytes], None]


@contextmanager
def report_folder(out: Path, about: Mapping[str, Any]) -> Iterator[Write]:
    """Yield the function that writes files into a folder, which appears whole at the end.

    Parameters
    ----------
    out : pathlib.Path
        The folder: nothing, an empty folder, or a report, which is replaced.
    about : mapping
        What the marker holds beside the files: title, version, hash of the runs.

    Raises
    ------
    SettingsError
        If something else lies there, it cannot be written, or a file's name leads out of it.
    """
    out = out.absolute()
    partial = out.with_name(f".{out.name}.partial")
    names: list[str] = []

    def write(name: str, content: str | bytes) -> None:
        path = partial / name
        # The names of a report from elsewhere may be anything.
        if not path.is_relative_to(partial) or ".." in path.parts:
            raise SettingsError(f"{name} lies outside the report")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        names.append(name)

    require_free(out)
    with ExitStack() as stack:
        with _unwritable(out):
            # What a killed process left is emptied.
            stack.enter_context(held_folder(partial, "report"))
        try:
            with _unwritable(out):
                _recover(out)
            yield write
            marker = {"kind": KIND, **about, "files": sorted({*names, MARKER})}
            with _unwritable(out):
                write(MARKER, json.dumps(marker, indent=1, ensure_ascii=False) + "\n")
                _replace(out, partial)
        except BaseException:
            # Of a report that is whole the name is free, and another process may have taken it.
            shutil.rmtree(partial, ignore_errors=True)
            raise


def _recover(out: Path) -> None:
    """Put back what a killed process left beside its place, if that was a report."""
    if _earlier(out).exists() and not _is_ours(_earlier(out)):
        raise SettingsError(
            f"{_earlier(out)} is no report, and an earlier report goes there for a moment",
            hint="move it elsewhere, or pass --out with another folder",
        )
    _put_back(out)
    require_free(out)


def _replace(out: Path, partial: Path) -> None:
    # Asked again: minutes have passed since.
    require_free(out)
    try:
        if out.exists():
            out.rename(_earlier(out))
        partial.rename(out)
    finally:
        _put_back(out)


def _earlier(out: Path) -> Path:
    return out.with_name(f".{out.name}.old")


def _is_ours(folder: Path) -> bool:
    return _written_by_us(folder) is not None or not any(folder.iterdir())


def _put_back(out: Path) -> None:
    """Let the earlier report be there again if no other took its place; else remove it."""
    if out.exists():
        shutil.rmtree(_earlier(out), ignore_errors=True)
    elif _earlier(out).exists():
        _earlier(out).rename(out)


def require_free(out: Path) -> None:
    """Raise unless a report may be written at a path.

    Parameters
    ----------
    out : pathlib.Path
        The folder of the report.

    Raises
    ------
    SettingsError
        If it is a file, a link, or a folder with anything that no report wrote; or its parent does
        not exist.
    """
    hint = "pass --out with a new folder, or with that of an earlier report"
    if out.is_symlink() or (out.exists() and not out.is_dir()):
        what = "a link" if out.is_symlink() else "a file"
        raise SettingsError(f"{out} is {what}, a report is a folder", hint=hint)
    if not out.parent.is_dir():
        raise SettingsError(
            f"{out} cannot be written: there is no directory {out.parent}", hint="make it first"
        )
    result = {path.relative_to(out).as_posix() for path in _files(out)} if out.exists() else set()
    if not result:
        return
    if (known := _written_by_us(out)) is None:
        raise SettingsError(f"{out} holds files and is no report, so it is left alone", hint=hint)
    if foreign := sorted(result - known):
        raise SettingsError(
            f"{out} is a report that also holds {', '.join(foreign[:3])}, which no report wrote",
            hint="move that elsewhere, or pass --out with another folder",
        )


def _files(out: Path) -> list[Path]:
    # Links count as files: what they point at is not ours.
    return [path for path in out.rglob("*") if path.is_symlink() or not path.is_dir()]


def _written_by_us(out: Path) -> set[str] | None:
    try:
        marker = read_json(out / MARKER, _MOST_BYTES)
    except (OSError, ValueError):
        return None
    if not isinstance(marker, dict) or marker.get("kind") != KIND:
        return None
    names = marker.get("files")
    return set(map(str, names)) if isinstance(names, list) else set()


@contextmanager
def _unwritable(out: Path) -> Iterator[None]:
    """Explain errors of the file system."""
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{out} cannot be written: {error.strerror or error}",
            hint="pass --out with another place",
        ) from None
