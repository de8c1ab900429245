"""Kinds of files: weights or something else, by their first bytes and never by their names."""

from __future__ import annotations

import zipfile
from pathlib import Path

from survey.errors import CheckpointError

#: How other files begin, what they are, and what to do about them.
_OTHER_FILES = (
    (b"<", "a web page", "the download gave an error page: fetch again"),
    (b"version https://git-lfs", "a Git LFS pointer", "fetch the content with: git lfs pull"),
    (b"\x89HDF", "an HDF5 file", "load it with the package that wrote it, and save a state dict"),
    (b"\x93NUMPY", "an array of numpy", "save a dict of named tensors with torch.save"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it first"),
)


def check_file(path: Path) -> None:
    """Refuse a path that is not a file.

    Raises
    ------
    CheckpointError
        If there is no file there.
    """
    if not path.is_file():
        happened = "is not a file" if path.exists() else "does not exist"
        raise CheckpointError(
            f"checkpoint file {path} {happened}",
            hint="a relative path starts where the command was called, or beside the survey file",
        )


def check_kind(path: Path) -> None:
    """Refuse what is no file of weights at all, naming what it is.

    Raises
    ------
    CheckpointError
        If there is no file, it is empty, or it is of another kind.
    """
    check_file(path)
    if is_safetensors(path):
        # Begins with a number, which may look like anything below.
        return
    with path.open("rb") as file:
        start = file.read(512)
    head = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not head:
        raise unreadable(path, "it is empty", "fetch the file again")
    for signature, what, hint in _OTHER_FILES:
        if head.startswith(signature):
            raise unreadable(path, f"it is {what}", hint)
    if start[257:262] == b"ustar":
        raise unreadable(path, "it is a tar archive", "unpack it, or save it anew with torch.save")
    if zipfile.is_zipfile(path) and _is_torchscript(path):
        raise unreadable(
            path, "it is a TorchScript archive, which holds code", "save model.state_dict()"
        )


def _is_torchscript(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("constants.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def is_safetensors(path: Path) -> bool:
    """Return whether a file begins as safetensors do."""
    with path.open("rb") as file:
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
