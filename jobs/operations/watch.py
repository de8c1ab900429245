"""Watching a home's scan from another process, without a lock that it could wait for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from catalog.home import Home
from catalog.store.writer_lock import is_writing
from jobs.scan.download_file import DownloadProgress, read_download
from jobs.scan.scan_progress import ScanProgress, read_progress
from survey.errors import SettingsError

#: How long a scan that holds no lock any more may take to write how it ended.
LAST_WORD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at a home shows."""

    #: No scan yet; its files are fetched; it runs; it has ended; its process is gone without having
    #: written an end.
    state: Literal["waiting", "fetching", "running", "ended", "killed"]
    #: When, in seconds since 1970.
    at: float
    #: How far the scan is; while there is none, the last scan.
    progress: ScanProgress | None
    #: The file that is fetched, while no scan runs.
    download: DownloadProgress | None = None


def watch(path: Path, interval: float) -> Iterator[Look]:
    """Yield a look at a home's scan in each interval, until the scan has ended.

    A home or a scan that is not there yet is waited for. A scan that ended before is not watched.

    Parameters
    ----------
    path : Path
        The home, which need not be there.
    interval : float
        Seconds between two looks.

    Raises
    ------
    SettingsError
        If there can be no home at that path.
    """
    home = Home(path.absolute())
    began, seen, unlocked_since = time.time(), None, None
    while True:
        look = look_at(home)
        progress, now = look.progress, look.at
        if progress is not None and progress.ended_at is not None and progress.ended_at >= began:
            yield look
            return
        if progress is not None and look.state == "running":
            seen, unlocked_since = progress.began_at, None
            yield look
        elif progress is not None and look.state == "killed" and progress.began_at == seen:
            unlocked_since = unlocked_since or now
            if now - unlocked_since > LAST_WORD_SECONDS:
                yield look
                return
            yield replace(look, state="running")
        else:
            download = read_download(home.downloads, now)
            yield Look("fetching" if download else "waiting", now, progress, download)
        time.sleep(interval)


def look_at(home: Home) -> Look:
    """Return one look at a home's scan; the last one's end stays to be seen.

    Raises
    ------
    SettingsError
        If its file cannot be read.
    """
    progress, now = _progress(home), time.time()
    if progress is None:
        return Look("waiting", now, None)
    if progress.end is not None:
        return Look("ended", now, progress)
    # The lock is asked for only while a scan should hold it: else one that begins might not get it.
    if is_writing(home, progress.process):
        return Look("running", now, progress)
    # It may have ended since its file was read.
    last = _progress(home) or progress
    return Look("killed" if last.end is None else "ended", now, last)


def _progress(home: Home) -> ScanProgress | None:
    try:
        return read_progress(home.progress)
    except OSError as error:
        raise SettingsError(
            f"{home.progress} cannot be read: {error.strerror}",
            hint="pass --home with a directory that can be read, or that a scan will make",
        ) from None
