"""The store of files from elsewhere: taken from other caches or fetched, and always checked.

Below its root::

    sha256/ab/abcd...           contents, each under its own sha256: never under a name
    receipts/KEY.json           what an address gave: its content's digests and where that lies
    partial/KEY, KEY.json       a download that is not complete, and which version it is of
    incoming/KEY12/NAME         where a person puts a file by hand; it is checked and taken in
    locks/KEY.lock              held by the one process that fetches or takes in a file

KEY is the sha256 of the address, KEY12 its first digits. A content is complete and checked before
it gets its name, so a reader never sees half of one, and a killed process leaves a part that the
next one goes on from. Files that torch and huggingface_hub keep in their own caches are used where
they lie. Nothing is ever read as anything but bytes here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from filelock import FileLock

from catalog.downloads.caches import cached_copies
from catalog.downloads.missing_files import known_facts, missing_files
from catalog.downloads.partial import Partial
from catalog.downloads.receipts import (
    FileDigests,
    Receipt,
    content_of,
    difference,
    read_note,
    write_note,
)
from catalog.downloads.responses import notice
from catalog.downloads.transfer import Progress, Transfer
from catalog.downloads.urls import address_key, public_address
from catalog.files import file_identity, sync_folder
from catalog.models.base import RemoteFile
from survey.errors import DownloadError

#: A name of so many characters every file system takes, in whatever script.
_NAME_CHARACTERS = 60
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileStore:
    """Files from elsewhere, each fetched once. Any number of processes may use one store.

    Parameters
    ----------
    root : Path
        Its directory; made when the first file is fetched.
    offline : bool
        Whether to use what is here alone, and explain what is missing.
    """

    def __init__(self, root: Path, *, offline: bool = False) -> None:
        self.root = root
        self.offline = offline

    def find(self, file: RemoteFile) -> Path | None:
        """Return where a file lies already, checked; None where it is not here.

        Looks into the store, at the place for files put there by hand, and into the caches of
        torch and huggingface_hub; asks no network.

        Raises
        ------
        DownloadError
            If a file was put there by hand that is not the one published, or cannot be read.
        """
        return self._kept(file) or self._by_hand(file) or self._elsewhere(file)

    def get(self, file: RemoteFile, progress: Progress | None = None) -> Path:
        """Return where a file lies, fetched first where it is not here.

        Parameters
        ----------
        file : RemoteFile
            What is wanted.
        progress : callable, optional
            Called while bytes arrive; see ``Progress``.

        Raises
        ------
        DownloadError
            If it cannot be fetched, is not the file published, or is missing while offline.
        """
        present = self.find(file)
        if present is not None:
            return present
        if self.offline:
            raise missing_files({file: self.place(file)})
        with self._locked(file):
            # Another process may have fetched it while this one waited for the lock.
            return self._kept(file) or self._fetched(file, progress)

    def missing(self, files: Iterable[RemoteFile]) -> list[RemoteFile]:
        """Return the files that are not here, or not as published; each address once."""
        lacking = {file.url: file for file in files}
        for file in tuple(lacking.values()):
            # Where the wrong file was put there by hand, the right one is missing.
            with contextlib.suppress(DownloadError):
                if self.find(file) is not None:
                    del lacking[file.url]
        return list(lacking.values())

    def place(self, file: RemoteFile) -> Path:
        """Return where a person may put a file by hand. Nothing is made there."""
        shown = (c if c.isprintable() else "_" for c in PurePosixPath(file.name).name)
        # Its end shows what kind of file it is.
        name = "".join(shown)[-_NAME_CHARACTERS:]
        key = address_key(file.url)[:12]
        return self.root / "incoming" / key / (name if name not in {"", ".."} else "file")

    def require(self, files: Iterable[RemoteFile]) -> None:
        """Go on only if all files are here.

        Raises
        ------
        DownloadError
            If any is missing. Lists all of them: size, hash, address, and where to put each.
        """
        lacking = self.missing(files)
        if lacking:
            raise missing_files({file: self.place(file) for file in lacking})

    def _kept(self, file: RemoteFile) -> Path | None:
        """Return the file's place in the store, by its address or its sha256."""
        receipt = read_note(self._receipt_path(file), Receipt)
        places = [(self.root / receipt.path, receipt.sha256)] if receipt else []
        sha256 = (file.sha256 or "").lower()
        if _SHA256.fullmatch(sha256):
            places.append((self._content_path(sha256), sha256))
        return next((path for path, one in places if self._is(file, path, one, receipt)), None)

    def _is(self, file: RemoteFile, path: Path, sha256: str, receipt: Receipt | None) -> bool:
        """Return whether a path still holds the content it should, which is a file's."""
        content = self._content(path, receipt)
        if content is None or content.sha256 != sha256 or difference(file, content) is not None:
            return False
        if receipt is None or not receipt.matches(path, self.root):
            self._note(file, path, content)
        return True

    def _by_hand(self, file: RemoteFile) -> Path | None:
        """Return a file put there by hand, moved into the store where that can be written."""
        place = self.place(file)
        if not place.is_file():
            return None
        if not os.access(self.root, os.W_OK):
            self._checked(file, place)
            return place
        with self._locked(file):
            # Another process may have moved it while this one waited for the lock.
            if not place.is_file():
                return self._kept(file)
            content = self._checked(file, place)
            if place.is_symlink():
                # A link is there to save the copy. Its file is checked again when it changes.
                self._note(file, place, content)
                return place
            return self._stored(file, place, content)

    def _checked(self, file: RemoteFile, place: Path) -> FileDigests:
        """Return what a file put there by hand holds; refuse it where it is the wrong one."""
        try:
            content = content_of(place)
            wrong = _difference(file, place, content)
        except OSError as problem:
            raise DownloadError(
                f"{place} cannot be read: {problem.strerror}",
                hint="make it readable, or put another copy in its place",
            ) from problem
        if wrong is not None:
            raise DownloadError(
                f"{place} is not the {file.name} published: {wrong}",
                hint="remove it, or put the right file in its place (whole: copying takes a while)",
            )
        return content

    def _elsewhere(self, file: RemoteFile) -> Path | None:
        """Return the file where torch or huggingface_hub keeps it, if it is the one published."""
        for path, sha256 in cached_copies(file):
            known = dataclasses.replace(file, sha256=sha256)
            content = self._content(path, None)
            if content is not None and difference(known, content) is None:
                self._note(file, path, content)
                return path
        return None

    def _fetched(self, file: RemoteFile, progress: Progress | None) -> Path:
        """Fetch, check and keep a file; the caller holds the lock."""
        partial = Partial(self.root / "partial", address_key(file.url))
        by_hand = f"or fetch it by hand ({known_facts(file)}) and put it at {self.place(file)}"
        try:
            Transfer(file, partial, progress).run()
        except DownloadError as problem:
            hint = f"{problem.hint}; {by_hand}" if problem.hint else by_hand.removeprefix("or ")
            raise type(problem)(problem.message, hint=hint) from None
        version = partial.version
        stated = file.sha256 or (version.sha256 if version else None)
        content = content_of(partial.path)
        known = dataclasses.replace(file, sha256=stated)
        wrong = _difference(known, partial.path, content)
        if wrong is not None:
            partial.discard()
            raise DownloadError(
                f"{public_address(file.url)} is not the {file.name} published: {wrong}; what came"
                " was removed",
                hint=f"it may have been replaced there: try again later, {by_hand}",
            )
        path = self._stored(file, partial.path, content)
        partial.discard()
        return path

    def _stored(self, file: RemoteFile, source: Path, content: FileDigests) -> Path:
        """Move checked bytes durably to the place named by their sha256."""
        target = self._content_path(content.sha256)
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):
            # A file put there by hand may belong to another user; it is used all the same.
            source.chmod(0o444)
        with source.open("rb") as opened:
            os.fsync(opened.fileno())
        source.replace(target)
        sync_folder(target.parent)
        self._note(file, target, content)
        return target

    def _content(self, path: Path, receipt: Receipt | None) -> FileDigests | None:
        """Return what a file holds, read anew unless its note still fits; None if unreadable."""
        try:
            if receipt is not None and receipt.matches(path, self.root):
                return receipt
            return content_of(path)
        except (OSError, ValueError):
            return None

    def _note(self, file: RemoteFile, path: Path, content: FileDigests) -> None:
        inside = path.is_relative_to(self.root)
        # Without the note the file is read again next time, so a store that is only readable
        # still serves what it has.
        with contextlib.suppress(OSError):
            receipt = Receipt(
                url=public_address(file.url),
                path=str(path.relative_to(self.root) if inside else path.absolute()),
                modified_ns=file_identity(path)[1],
                received=datetime.now(UTC).isoformat(timespec="seconds"),
                sha256=content.sha256,
                md5=content.md5,
                bytes=content.bytes,
            )
            write_note(self._receipt_path(file), receipt)

    def _receipt_path(self, file: RemoteFile) -> Path:
        return self.root / "receipts" / f"{address_key(file.url)}.json"

    def _content_path(self, sha256: str) -> Path:
        return self.root / "sha256" / sha256[:2] / sha256

    @contextmanager
    def _locked(self, file: RemoteFile) -> Iterator[None]:
        """Be the one process that fetches or takes in a file."""
        folder = self.root / "locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with FileLock(folder / f"{address_key(file.url)}.lock"):
                yield
        except OSError as problem:
            raise DownloadError(
                f"the file store {self.root} cannot be used: {problem.strerror or problem}",
                hint="free some disk space, or check the directory's permissions",
            ) from problem


def _difference(file: RemoteFile, path: Path, content: FileDigests) -> str | None:
    """Return how a new file differs from the one published, a page in its place included."""
    with path.open("rb") as opened:
        message = notice(opened.read(512), file.name)
    if message is not None:
        return f"it is {message}"
    return difference(file, content) or (None if content.bytes else "it is empty")
