"""The folder of a local Ray: for its sockets and logs, closed to other users, gone with the scan.

Ray lets every user write to the folders it makes: they lie in one that no other user can enter.
Nor does the runtime directory of the desktop serve: it goes when its user logs out, and scans go
on.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: What the folders' names begin with, the file they are known by, and the folder that is Ray's.
PREFIX, MARK, INNER = "survey-", ".session-of-model-zoo-survey", "ray"

#: The longest path of a Unix socket, in bytes, and the end of Ray's.
SOCKET_BYTES = 107
SOCKET = f"{INNER}/session_2026-11-22_19-39-15_120570_4194304/sockets/plasma_store"


@contextmanager
def session_folder() -> Iterator[Path]:
    """Yield a folder for one session of Ray, and remove it; remove those of killed scans first."""
    parent = _parent()
    for mark in parent.glob(f"{PREFIX}*/{MARK}"):
        _remove_abandoned(mark.parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        # Until it ends, so that no other scan takes it for abandoned; nor does systemd clean up
        # below a locked folder.
        with _locked(folder):
            (folder / MARK).touch()
            (folder / INNER).mkdir(mode=0o700)
            yield folder / INNER
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parent() -> Path:
    """Return the temporary folder; ``/tmp`` where that is too long a path for Ray's sockets."""
    parent = tempfile.gettempdir()
    longest = os.path.join(parent, f"{PREFIX}12345678", SOCKET)  # noqa: PTH118 - counted in bytes
    return Path(parent if len(os.fsencode(longest)) <= SOCKET_BYTES else "/tmp")  # noqa: S108


def _remove_abandoned(folder: Path) -> None:
    """Remove the folder of a scan that was killed; one that runs holds its lock."""
    with suppress(OSError):
        if folder.lstat().st_uid == os.getuid():
            with _locked(folder):
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder, which ends with the process; raise OSError if it is held."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
