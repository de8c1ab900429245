"""The folder a report is written into: whole or not at all, and over nothing that is not a report.

Owns the marker that says which folders are reports, and the swap of an old one for a new one. Pages
are written beside the place they are meant for; renaming the folder is the last thing that happens.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from survey.errors import SettingsError

#: The file that says a folder is a report, and which files it holds.
MARKER = "report.json"

#: What the marker must say.
KIND = "model-zoo-survey report"


class ReportFolder:
    """A folder that appears under its name once everything is in it.

    Parameters
    ----------
    out : pathlib.Path
        Where it shall lie: nothing, an empty folder, or a report, which it replaces.
    about : mapping
        What the marker says beside the files: title, version, hash of the runs.

    Raises
    ------
    SettingsError
        If something else lies there, or it cannot be written.
    """

    def __init__(self, out: Path, about: Mapping[str, Any]) -> None:
        self.out = out.absolute()
        self._about = dict(about)
        self._files: list[str] = []
        self._partial = self.out.with_name(f".{self.out.name}.{os.getpid()}.partial")
        require_free(self.out)

    def __enter__(self) -> ReportFolder:
        shutil.rmtree(self._partial, ignore_errors=True)
        try:
            self._partial.mkdir()
        except OSError as error:
            raise _unwritable(self.out, error) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._finish()
        except OSError as problem:
            raise _unwritable(self.out, problem) from None
        finally:
            shutil.rmtree(self._partial, ignore_errors=True)

    def write(self, name: str, content: str | bytes) -> None:
        """Write one file.

        Parameters
        ----------
        name : str
            Its path within the report, with slashes.
        content : str or bytes
            What it holds.
        """
        path = self._partial / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self._files.append(name)

    def _finish(self) -> None:
        files = sorted({*self._files, MARKER})
        marker = {"kind": KIND, **self._about, "files": files}
        self.write(MARKER, json.dumps(marker, indent=1, ensure_ascii=False) + "\n")
        # Asked again: minutes have passed since.
        require_free(self.out)
        old = self.out.with_name(f".{self.out.name}.{os.getpid()}.old")
        if self.out.exists():
            self.out.rename(old)
        try:
            self._partial.rename(self.out)
        except OSError:
            if old.exists():
                old.rename(self.out)
            raise
        shutil.rmtree(old, ignore_errors=True)


def require_free(out: Path) -> None:
    """Refuse a place that holds anything but a report.

    Parameters
    ----------
    out : pathlib.Path
        Where a report shall lie.

    Raises
    ------
    SettingsError
        If a file, a link, or a folder with anything that no report wrote is there; or there is no
        folder to write it in.
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
        marker = json.loads((out / MARKER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(marker, dict) or marker.get("kind") != KIND:
        return None
    return {str(name) for name in marker.get("files", ())}


def _unwritable(out: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"{out} cannot be written: {error.strerror or error}", hint="pass --out with another place"
    )
