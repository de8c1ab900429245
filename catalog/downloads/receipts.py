"""What was received: the digests of a file's content, and the note that is kept of them."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from catalog.bounds import open_file, read_json
from catalog.files import file_identity, whole_file
from catalog.models.base import RemoteFile

_PIECE_BYTES = 2**20

#: Bytes of the largest note that is read.
_MOST_BYTES = 2**16

_Note = TypeVar("_Note")


@dataclass(frozen=True, slots=True)
class FileDigests:
    """What identifies the bytes of a file."""

    #: Their sha256 (hex).
    sha256: str
    #: Their md5 (hex), which some publishers give alone.
    md5: str
    #: How many there are.
    bytes: int


@dataclass(frozen=True, slots=True)
class Receipt(FileDigests):
    """A note about one address: which content it gave, and where that lies."""

    #: The address without passwords and query.
    url: str
    #: Where the content lies, from the store's root on; absolute where it is not in the store.
    path: str
    #: When the file last changed, in nanoseconds: it is read again when that is another time.
    modified_ns: int
    #: When it was received, in UTC.
    received: str

    def matches(self, path: Path, root: Path) -> bool:
        """Return whether a file is untouched since the note was written.

        Parameters
        ----------
        path : Path
            The file.
        root : Path
            What relative paths start from.
        """
        unchanged = file_identity(path)[:2] == (self.bytes, self.modified_ns)
        return unchanged and root / self.path == path


def content_of(path: Path) -> FileDigests:
    """Return what identifies a file's bytes, read in pieces.

    Raises
    ------
    OSError
        If it cannot be read, or is no file.
    """
    sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
    count = 0
    with open_file(path) as file:
        while piece := file.read(_PIECE_BYTES):
            sha256.update(piece)
            md5.update(piece)
            count += len(piece)
    return FileDigests(sha256.hexdigest(), md5.hexdigest(), count)


def difference(file: RemoteFile, content: FileDigests) -> str | None:
    """Return how content differs from what is known of a file; None where it does not.

    Parameters
    ----------
    file : RemoteFile
        What is known: any of its size, sha256, md5 and their first digits.
    content : FileDigests
        Of the file that is here.
    """
    if file.bytes is not None and file.bytes != content.bytes:
        return f"expected {file.bytes} bytes, found {content.bytes}"
    known = (
        ("sha256", file.sha256, content.sha256),
        ("sha256", file.sha256_prefix, content.sha256),
        ("md5", file.md5, content.md5),
    )
    for kind, expected, actual in known:
        if expected and not actual.startswith(expected.lower()):
            whole = "" if len(expected) == len(actual) else " beginning with"
            return f"expected {kind}{whole} {expected.lower()}, found {actual}"
    return None


def read_note(path: Path, kind: type[_Note]) -> _Note | None:
    """Return a note of a dataclass; None where there is none or it cannot be understood."""
    try:
        note = kind(**read_json(path, _MOST_BYTES))
    except (OSError, ValueError, TypeError):
        return None
    hints = get_type_hints(kind)
    return note if all(isinstance(getattr(note, name), hints[name]) for name in hints) else None


def write_note(path: Path, note: Any) -> None:
    """Write a dataclass as a small JSON file; readers see the note before or this one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own: two processes may write the same note.
    with whole_file(path, f".{uuid.uuid4().hex}") as fresh:
        fresh.write_text(json.dumps(asdict(note), indent=1), encoding="utf-8")
