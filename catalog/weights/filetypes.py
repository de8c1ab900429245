"""Kinds of files: weights or something else, by their first bytes and never by their names.

What an archive holds is looked at before anything in it is unpacked.
"""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path
from typing import BinaryIO

from catalog.bounds import allowance, open_file, pass_over
from survey.errors import CheckpointError

#: How other files begin, what they are, and what to do about them.
_OTHER_FILES = (
    (b"<", "a web page", "the download gave an error page: fetch again"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the content with: git lfs pull"),
    (b"\x89HDF", "an HDF5 file", "load it with the package that wrote it, and save a state dict"),
    (b"\x93NUMPY", "an array of numpy", "save a dict of named tensors with torch.save"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it first"),
)

#: The three records an archive ends in: where its list is in 64 bits, where that is, and the end.
_ENDS_BYTES = 56 + 20 + 22


def check_kind(path: Path) -> None:
    """Refuse what is neither safetensors nor a file of torch's, naming what it is.

    Raises
    ------
    CheckpointError
        If it is empty, or of another kind.
    """
    with open_file(path) as file:
        start = file.read(512)
    head = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        raise unreadable(path, "it is empty", "fetch the file again")
    for signature, what, hint in _OTHER_FILES:
        if head.startswith(signature):
            raise unreadable(path, f"it is {what}", hint)
    if start[257:262] == b"ustar":
        raise unreadable(path, "it is a tar archive", "unpack it, or save it anew with torch.save")


def is_safetensors(path: Path) -> bool:
    """Return whether a file begins as safetensors do."""
    with open_file(path) as file:
        start = file.read(9)
    # A number and a brace. The number is a length, and at most the format's own limit: a larger one
    # is some other file that has a brace there.
    return start[8:] == b"{" and 0 < int.from_bytes(start[:8], "little") <= 100_000_000


def unreadable(path: Path, why: str, hint: str) -> CheckpointError:
    """Return the error for a file that is no weights: why, and what to do."""
    return CheckpointError(
        f"{path} cannot be read as weights: {why}; allowed are safetensors and torch.save files",
        hint=hint,
    )


def check_members(path: Path, archive: zipfile.ZipFile, opened: BinaryIO) -> None:
    """Refuse an archive that ``check_listing`` does, or that is damaged.

    Every file of it is read: zipfile compares what comes out with its checksum, which torch's own
    reader does not. Damaged weights would be measured without a word.
    """
    limit = check_listing(path, archive, opened)
    for member in archive.infolist():
        with archive.open(member) as stream:
            pass_over(stream, limit, member.filename)


def check_listing(path: Path, archive: zipfile.ZipFile, opened: BinaryIO) -> int:
    """Refuse an archive of code, of two files with one name, or of far more than its own size.

    Returns
    -------
    int
        The most bytes that may come out of it.
    """
    names = archive.namelist()
    unpacked = sum(member.file_size for member in archive.infolist())
    limit = allowance(opened.seek(0, io.SEEK_END))
    if any(name.endswith("constants.pkl") for name in names):
        raise unreadable(
            path, "it is a TorchScript archive, which holds code", "save model.state_dict()"
        )
    if len(set(names)) < len(names):
        raise unreadable(path, "it is an archive with two files of one name", "fetch it again")
    if unpacked > limit:
        raise unreadable(
            path,
            f"it would unpack to {unpacked:,} bytes, a file of its size may to {limit:,}",
            "no file of weights does: fetch it from where it was published",
        )
    return limit


def check_directory(path: Path, archive: zipfile.ZipFile, opened: BinaryIO) -> None:
    """Refuse an archive in which another reader may find another list of files than this one.

    An archive's end states where the list is. Where it does so twice, or not at its very end, torch
    may read another list than the one checked here.
    """
    size = opened.seek(0, io.SEEK_END)
    opened.seek(-min(size, _ENDS_BYTES), io.SEEK_END)
    ends = opened.read().rjust(_ENDS_BYTES, b"\0")
    whole, locator, end = ends[:56], ends[56:76], ends[76:]
    one_end = end.startswith(b"PK\x05\x06") and not archive.comment
    start = struct.unpack("<I", end[16:20])[0]
    if locator.startswith(b"PK\x06\x07"):
        place = struct.unpack("<Q", locator[8:16])[0]
        one_end = one_end and whole.startswith(b"PK\x06\x06") and place == size - _ENDS_BYTES
        start = struct.unpack("<Q", whole[48:56])[0]
    if not one_end or start != archive.start_dir:
        raise unreadable(
            path,
            "it is an archive whose list of files is ambiguous",
            "fetch it again, or save it anew with torch.save",
        )
