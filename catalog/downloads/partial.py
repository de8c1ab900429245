"""A file that is still being fetched: the bytes so far, and which version of it they are of."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path

from catalog.downloads.receipts import read_note, write_note


@dataclass(frozen=True, slots=True)
class Version:
    """Version of the content that a server sends, from its headers."""

    #: Its strong ETag, else when it was last modified: with it the server knows its content again.
    validator: str | None
    #: Length of the whole content in bytes; None where no header states it.
    bytes: int | None
    #: Its sha256 (hex), where a header states it.
    sha256: str | None = None

    def agrees_with(self, other: Version) -> bool:
        """Return whether both may be of the same content: nothing that both state differs."""
        pairs = zip(astuple(self), astuple(other), strict=True)
        return all(mine == theirs or None in {mine, theirs} for mine, theirs in pairs)


class Partial:
    """The bytes so far in one file, a note of their version beside it; one process writes them.

    Parameters
    ----------
    folder : Path
        Where both lie.
    key : str
        What they are called.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.path = folder / key
        self._note = folder / f"{key}.json"

    @property
    def version(self) -> Version | None:
        """Which version the bytes are of; None where that is not known."""
        return read_note(self._note, Version)

    @property
    def bytes(self) -> int:
        """How many bytes there are so far."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    @property
    def complete(self) -> bool:
        """Whether all bytes of a version of known length are there."""
        version = self.version
        return version is not None and 0 < self.bytes == version.bytes

    def range_headers(self) -> dict[str, str]:
        """Return what asks a server for the rest, of the same version only; empty for all of it."""
        version, count = self.version, self.bytes
        if version is None or version.validator is None or not count:
            return {}
        return {"Range": f"bytes={count}-", "If-Range": version.validator}

    def begin(self, version: Version) -> None:
        """Forget all bytes and start on a version."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # The bytes first: old bytes must never lie beside the note of a new version.
        self.path.write_bytes(b"")
        write_note(self._note, version)

    def discard(self) -> None:
        """Remove the bytes and the note."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
