"""The error that lists missing files: where each comes from, and where a person may put it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from catalog.downloads.urls import browser_address
from catalog.models.base import RemoteFile
from survey.errors import DownloadError
from survey.text import counted, format_bytes, printable


def missing_files(places: Mapping[RemoteFile, Path]) -> DownloadError:
    """Return the error that lists all missing files, each with its size, hash and address.

    Parameters
    ----------
    places : mapping of RemoteFile to Path
        The files, and where to put each.
    """
    count = counted(len(places), "file is", "files are")
    sizes = [file.bytes for file in places if file.bytes is not None]
    total = f" ({format_bytes(sum(sizes))} in all)" if len(places) == len(sizes) > 1 else ""
    listed = [_directions(file, place) for file, place in places.items()]
    return DownloadError(
        "\n".join([f"{count} missing{total}:", *listed]),
        hint="put each file at its place, or run the same command where there is a network",
    )


def known_facts(file: RemoteFile) -> str:
    """Return a file's size and hash, as far as they are known."""
    facts = [
        _size(file),
        f"sha256 {file.sha256}" if file.sha256 else None,
        f"sha256 beginning with {file.sha256_prefix}" if file.sha256_prefix else None,
        f"md5 {file.md5}" if file.md5 else None,
    ]
    return ", ".join(filter(None, facts)) or "size and hash are not known"


def _size(file: RemoteFile) -> str | None:
    if file.bytes is not None:
        return format_bytes(file.bytes)
    return f"about {format_bytes(file.about_bytes)}" if file.about_bytes else None


def _directions(file: RemoteFile, place: Path) -> str:
    lines = [
        f"  {printable(file.name)} ({known_facts(file)})",
        f"    from {browser_address(file.url)}",
        f"    to   {place}",
    ]
    if place.is_file():
        lines.append("    (what lies there now is not the file published)")
    return "\n".join(lines)
