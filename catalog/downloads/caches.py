"""Where other libraries keep files they fetched: torch's checkpoints and the model hub's cache.

Owns where to look. Whether what lies there is the file that is wanted, ``catalog.downloads.store``
checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from catalog.downloads.urls import LISTING, HubFile, hub_file
from catalog.models.base import RemoteFile


def cached_copies(file: RemoteFile) -> Iterator[tuple[Path, str | None]]:
    """Yield paths that may be a file, each with the sha256 it must have, where that is known.

    The caches of torch and huggingface_hub are read, never written.

    Parameters
    ----------
    file : RemoteFile
        What is wanted.
    """
    on_hub = hub_file(file.url)
    if on_hub is not None and on_hub.path != LISTING:
        yield from _hub_files(on_hub, file.sha256)
    elif on_hub is None and (file.sha256 or file.sha256_prefix):
        # torch files by the address's last part, which several files share: without a hash one
        # could be taken for another.
        name = _last_part(file.url)
        if name:
            from torch import hub

            yield Path(hub.get_dir()) / "checkpoints" / name, file.sha256


def _hub_files(on_hub: HubFile, sha256: str | None) -> Iterator[tuple[Path, str | None]]:
    from huggingface_hub import try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(on_hub.repository, on_hub.path, revision=on_hub.revision)
    # A name that the hub allows none of its files.
    except ValueError:
        return
    if isinstance(cached, str):
        # The cache calls a large file's bytes by their sha256, small ones by something else.
        blob = Path(cached).resolve().name
        yield Path(cached), sha256 or (blob if re.fullmatch(r"[0-9a-f]{64}", blob) else None)


def _last_part(url: str) -> str:
    try:
        return PurePosixPath(unquote(urlsplit(url).path)).name
    except ValueError:
        return ""
