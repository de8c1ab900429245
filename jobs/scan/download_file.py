"""The file in a home that tells other processes what a scan fetches before it measures.

It is not the file of the scan: while one process fetches, another may measure.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.store.writer_lock import own_process
from jobs.scan.scan_progress import Count, Moment, read_written, write_progress

if TYPE_CHECKING:
    from catalog.models.base import RemoteFile

#: Seconds after which a file that nobody renews is that of a process that is gone.
STALE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a download is. Times are seconds since 1970."""

    #: The process that fetches, as ``123 on host``.
    process: str
    #: The file, when this process began with it, and its bytes that were here then.
    file: str
    began_at: Moment
    bytes_before: Count
    #: When this was written, the bytes that were here, and all of them where that is known.
    at: Moment
    bytes: Count
    total_bytes: Count | None

    @property
    def bytes_per_second(self) -> float | None:
        """The mean speed since this process began with the file; None before its first bytes."""
        new, seconds = self.bytes - self.bytes_before, self.at - self.began_at
        return new / seconds if new > 0 and seconds > 0 else None


class DownloadFile:
    """Keeps the file of a home's downloads while there is one, and removes it after the last.

    Parameters
    ----------
    path : Path
        The file, ``Home.downloads``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written = False
        #: The download under way.
        self.download: DownloadProgress | None = None

    def note(self, file: RemoteFile, here: int, total: int | None) -> None:
        """Note how many bytes of a file are here."""
        now, known = time.time(), self.download
        if known is None or known.file != file.name:
            known = DownloadProgress(own_process(), file.name, now, here, now, here, total)
        self.download = replace(known, at=now, bytes=here, total_bytes=total)

    def write(self) -> None:
        """Renew the file, or remove it where there is no download any more."""
        download = self.download
        with suppress(OSError):
            if download is not None:
                write_progress(self._path, replace(download, at=time.time()))
                self._written = True
            elif self._written:
                self._written = False
                self._path.unlink(missing_ok=True)


def read_download(path: Path, now: float) -> DownloadProgress | None:
    """Return the download under way; None if there is none, or its process is gone.

    Parameters
    ----------
    path : Path
        ``Home.downloads``.
    now : float
        The time, in seconds since 1970.
    """
    try:
        download = read_written(path, DownloadProgress)
    except OSError:
        return None
    return download if download and now - download.at <= STALE_SECONDS else None
