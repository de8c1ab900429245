"""Where other libraries keep files they fetched: torch's checkpoints and the model hub's cache.

Owns where to look. Whether what lies there is the file that is wanted, ``catalog.downloads.store``
checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from catalog.downloads.urls import HubFile, hub_file
from catalog.models.base import RemoteFile


@dataclass(slots=True)
class Caches:
    """The caches of torch and huggingface_hub on this machine; read, never written.

    Attributes
    ----------
    torch : Path or None
        Where torch keeps checkpoints; None for where torch is set up to.
    hub : Path or None
        Where huggingface_hub keeps files; None for where that is set up to.
    """

    torch: Path | None = None
    hub: Path | None = None

    def candidates(self, file: RemoteFile) -> Iterator[tuple[Path, str | None]]:
        """Yield paths that may be a file, each with the sha256 it must have, where that is known.

        Parameters
        ----------
        file : RemoteFile
            What is wanted.
        """
        on_hub = hub_file(file.url)
        if on_hub is not None:
            yield from self._hub_files(on_hub, file.sha256)
        elif file.sha256 or file.sha256_prefix:
            # torch files by the address's last part, which several files share: without a hash
            # one could be taken for another.
            name = _last_part(file.url)
            if name:
                yield self._torch_folder() / name, file.sha256

    def _hub_files(self, on_hub: HubFile, sha256: str | None) -> Iterator[tuple[Path, str | None]]:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(on_hub.repository, on_hub.path, cache_dir=self.hub)
        if isinstance(cached, str):
            # The cache calls a large file's bytes by their sha256, small ones by something else.
            blob = Path(cached).resolve().name
            yield Path(cached), sha256 or (blob if re.fullmatch(r"[0-9a-f]{64}", blob) else None)

    def _torch_folder(self) -> Path:
        if self.torch is None:
            from torch import hub

            self.torch = Path(hub.get_dir()) / "checkpoints"
        return self.torch


def _last_part(url: str) -> str:
    try:
        return PurePosixPath(unquote(urlsplit(url).path)).name
    except ValueError:
        return ""
