"""Tar archives read in place, by the names of their members: nothing is ever unpacked to disk."""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, cast

from catalog.bounds import AtMost, allowance, open_file, read_at_most
from catalog.datasets.base import INCOMPLETE, require_unchanged
from catalog.files import change_mark
from survey.errors import DatasetError
from survey.text import first_names

#: How a compressed archive begins; publishers pack with gzip alone.
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Member:
    """Where one file lies in an uncompressed archive."""

    #: The first byte of its content.
    offset: int
    #: Bytes of its content.
    bytes: int


def read_members(
    archive: Path, most_bytes: dict[str, int], *, whole: bool = False
) -> dict[str, bytes]:
    """Return the content of some files of an archive, compressed or not.

    Parameters
    ----------
    archive : Path
        The archive.
    most_bytes : dict of str to int
        The largest content that is read, by the member's path in the archive.
    whole : bool
        Whether to read on to the end, where a compressed file has the checksum of its content:
        for archives whose hash is not known.

    Raises
    ------
    DatasetError
        If the archive cannot be read to the last of them, lacks one, or one is larger.
    """
    contents: dict[str, bytes] = {}
    with _reading(archive), _unpacking(archive) as stream, _members(stream) as opened:
        for member in opened:
            # tarfile would go on to there block by block, though the archive has long ended.
            if opened.offset > stream.limit:
                raise DatasetError(
                    f"{archive} cannot be read: {member.name!r} states {member.size:,} bytes,"
                    f" more than the {stream.limit:,} that the archive may hold",
                    hint=INCOMPLETE,
                )
            name = member.name.removeprefix("./")
            if name not in most_bytes or not member.isreg():
                continue
            if member.size > most_bytes[name]:
                raise DatasetError(
                    f"{name} in {archive.name} has {member.size:,} bytes,"
                    f" at most {most_bytes[name]:,} are right",
                    hint=INCOMPLETE,
                )
            content = opened.extractfile(member)
            contents[name] = read_at_most(content, member.size, name) if content else b""
            if contents.keys() == most_bytes.keys():
                break
        while whole and stream.read(1 << 20):
            pass
    _require_all(archive, most_bytes, contents)
    return contents


def index_members(archive: Path, wanted: Collection[str]) -> dict[str, Member]:
    """Return where files lie in an uncompressed archive, by file name without folders.

    Parameters
    ----------
    archive : Path
        The archive; only its headers are read.
    wanted : collection of str
        Names of the files that must be there; others are passed over.

    Raises
    ------
    DatasetError
        If the archive is compressed, cut off or no archive, or lacks a file.
    """
    names = frozenset(wanted)
    members: dict[str, Member] = {}
    # To its end: a cut within a file's content is met where the next header is looked for.
    with _reading(archive), tarfile.open(archive, "r:") as opened:
        for member in opened:
            name = PurePosixPath(member.name).name
            if name not in names or not member.isreg():
                continue
            members[name] = Member(member.offset_data, member.size)
    _require_all(archive, names, members)
    return members


def read_at(archive: Path, member: Member, mark: int) -> bytes:
    """Return a file's content from its place in an uncompressed archive.

    Parameters
    ----------
    archive : Path
        The archive.
    member : Member
        The place.
    mark : int
        The archive's ``change_mark`` of when it was indexed.

    Raises
    ------
    DatasetError
        If the archive cannot be read any more, or changed since then.
    """
    with _reading(archive), open_file(archive) as file:
        file.seek(member.offset)
        content = file.read(member.bytes)
        require_unchanged(archive, mark, change_mark(file.fileno()))
    return content


@contextmanager
def _unpacking(archive: Path) -> Iterator[AtMost]:
    """Give the unpacked bytes of an archive, of which there may be so many and no more."""
    with open_file(archive) as file:
        compressed = file.peek(2).startswith(_GZIP)
        limit = allowance(archive.stat().st_size)
        unpacked = gzip.GzipFile(fileobj=file) if compressed else file
        yield AtMost(unpacked, limit, "what is in it")


def _members(stream: AtMost) -> tarfile.TarFile:
    """Return the members of an archive, which is read once from its start to its end."""
    # tarfile reads whatever length a header declares for a name: of no more than is allowed.
    return tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|")


#: What tarfile and its decompressors raise.
_ERRORS = (tarfile.TarError, OSError, EOFError, zlib.error, ValueError)


@contextmanager
def _reading(archive: Path) -> Iterator[None]:
    try:
        yield
    except _ERRORS as problem:
        raise DatasetError(f"{archive} cannot be read: {problem}", hint=INCOMPLETE) from problem


def _require_all(archive: Path, wanted: Collection[str], present: Collection[str]) -> None:
    missing = sorted(set(wanted) - set(present))
    if missing:
        raise DatasetError(
            f"{archive} lacks {len(missing):,} of {len(wanted):,} files: {first_names(missing, 3)}",
            hint=INCOMPLETE,
        )
