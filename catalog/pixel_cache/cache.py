"""The cache of decoded pixels: what the first model decodes, every later one reads from memory.

Owns the folder of entries below a home's cache: their names, who builds one, and which has to go.
An entry is one dataset under one geometry. Mean and deviation are no part of it, so that models
which differ in them alone share one. ``catalog.pixel_cache.entry`` reads and writes one entry.

Any number of processes may use the folder at once. One builds an entry, under a lock, while it
decodes for its own model; the others never wait but decode for themselves. An entry appears
whole, by a rename, and is never written again; who reads it may go on reading when it is removed.
An entry that is damaged is thrown away, and the rest is decoded. Without room, or without a folder
to write to, all is decoded as if there were no cache, and a line is logged.

::

    KEY/                an entry
    KEY.lock            held by who builds the entry; never removed, or two could hold it
    KEY.RANDOM.part     an entry in the making
    KEY.RANDOM.trash    an entry on its way out
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import logging
import os
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock, Timeout

from catalog.datasets.base import ImageDataset, Sample
from catalog.datasets.images.decoding import REVISION
from catalog.models.base import InputTransform
from catalog.pixel_cache.entry import (
    FORMAT,
    LISTED,
    EntryLayout,
    EntryUnreadable,
    EntryWriter,
    Unfit,
    read_entry,
    require_fit,
)
from survey.errors import SurveyError

#: What the entries of one home may take together, in bytes: ImageNet's 50,000 validation images
#: take 7.5 GB at 224 pixels.
DEFAULT_LIMIT = 32 * 2**30

#: What is left free on the disk, in bytes.
FREE_BYTES = 2**30

#: How long a part must lie untouched before it is swept away, though its lock is free: where locks
#: do not reach other machines, its builder may be alive.
STALE_SECONDS = 600.0

#: Packages that decode and resize; another version of them may give other pixels.
_DECODERS = ("pillow", "torchvision")

#: Fields of a transform that are used on the device, not here.
_ON_THE_DEVICE = frozenset({"mean", "std"})

_PART, _TRASH = ".part", ".trash"

#: Bytes written between two looks at what the disk has left.
_BETWEEN_LOOKS = 64 * 2**20

_log = logging.getLogger(__name__)

# Entries that this process reads from, whichever cache object they were opened through.
_reading: Counter[Path] = Counter()
_counting = threading.Lock()


class PixelCache:
    """The entries of one home. Naming it touches no file.

    Parameters
    ----------
    root : Path
        The folder they lie in; made with the first entry.
    limit_bytes : int, optional
        What they may take together. The least recently used make room for another one.
    """

    def __init__(self, root: Path, limit_bytes: int = DEFAULT_LIMIT) -> None:
        self.root = root.absolute()
        self.limit_bytes = limit_bytes

    def samples(
        self, dataset: ImageDataset, fingerprint: str, transform: InputTransform, start: int = 0
    ) -> Iterator[Sample]:
        """Yield what ``dataset.samples(transform, start)`` would, bit for bit.

        An entry is built on the way from the first image to the last, and never otherwise: a
        resumed run would have to decode the images before its start for nothing of its own, and
        the next model builds anyway. Datasets that are no pictures are not kept.

        Parameters
        ----------
        dataset : ImageDataset
            The images.
        fingerprint : str
            Its ``fingerprint()``, taken when its ``stat_signature()`` was what it is now.
        transform : InputTransform
            Resize and crop. Its mean and deviation are not used.
        start : int
            The first position yielded.

        Yields
        ------
        Sample
            As the dataset's. Its pixels are the caller's own and may be written to.

        Raises
        ------
        DatasetError
            As ``dataset.samples``.
        """
        layout = EntryLayout(len(dataset), transform.size)
        entry = self.root / _key(dataset, fingerprint, transform)
        with _marked_as_read(entry):
            reached = yield from _stored(entry, layout, start)
        if reached < layout.images:
            build = _Build(_Room(self.root, self.limit_bytes), entry, layout, dataset)
            yield from _decoded(dataset, transform, reached, build)


def _key(dataset: ImageDataset, fingerprint: str, transform: InputTransform) -> str:
    """Return a sha256 (hex) over all that determines an entry's samples."""
    geometry = [
        (field.name, getattr(transform, field.name))
        for field in dataclasses.fields(transform)
        if field.name not in _ON_THE_DEVICE
    ]
    kind = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
    determining = (FORMAT, LISTED, kind, fingerprint, geometry, _decoders())
    return hashlib.sha256(repr(determining).encode()).hexdigest()


@functools.cache
def _decoders() -> tuple[str, ...]:
    return (f"revision {REVISION}", *(f"{package} {version(package)}" for package in _DECODERS))


@contextmanager
def _marked_as_read(entry: Path) -> Iterator[None]:
    with _counting:
        _reading[entry] += 1
    try:
        yield
    finally:
        with _counting:
            _reading[entry] -= 1
            if not _reading[entry]:
                del _reading[entry]


def _stored(entry: Path, layout: EntryLayout, start: int) -> Generator[Sample, None, int]:
    """Yield from an entry as far as it can be had; return the position reached."""
    try:
        os.utime(entry)
    except FileNotFoundError:
        return start
    except OSError:
        # Somebody else's, or not to be written: then it counts as used when it was made.
        pass
    try:
        yield from read_entry(entry, layout, start)
    except EntryUnreadable as problem:
        if not problem.damaged:
            _warn_once(f"decoded pixels in {entry} cannot be read: {problem}")
        # Another process may have thrown it away before.
        elif _removed(entry):
            _log.warning("decoded pixels in %s were removed: %s", entry, problem)
        return problem.position
    return max(start, layout.images)


def _decoded(
    dataset: ImageDataset, transform: InputTransform, start: int, build: _Build
) -> Iterator[Sample]:
    """Yield from a dataset, and keep the pixels on the way if it is the whole of it."""
    if start == 0:
        build.note_content()
    try:
        for sample in dataset.samples(transform, start):
            if sample.position == 0:
                build.begin(sample)
            build.take(sample)
            yield sample
    finally:
        build.close()


class _NotKept(Exception):
    """Pixels are decoded without being kept: no more than a line in the log."""


class _Build:
    """An entry in the making. Nothing that happens to it ends the decoding."""

    def __init__(
        self, room: _Room, entry: Path, layout: EntryLayout, dataset: ImageDataset
    ) -> None:
        self._room, self._entry, self._layout, self._dataset = room, entry, layout, dataset
        self._part = entry.with_name(f"{entry.name}.{uuid.uuid4().hex}{_PART}")
        # A generator may be closed by another thread than the one that began it.
        self._lock = FileLock(_lock_of(entry), timeout=0, thread_local=False)
        self._writer: EntryWriter | None = None
        self._signature: str | None = None
        self._unseen_bytes = 0

    def note_content(self) -> None:
        """Note what the dataset holds, before any of it is decoded."""
        with self._giving_up():
            self._signature = self._dataset.stat_signature()

    def begin(self, first: Sample) -> None:
        """Make ready to take every image, unless there is no use in it or no room."""
        with self._giving_up():
            self._require_use(first)
            self._room.root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            if self._entry.exists():
                # Built meanwhile; or there but not to be read, which was logged.
                self.close()
                return
            self._room.sweep(self._entry)
            self._writer = EntryWriter(self._part, self._layout)
            self._room.make(more_bytes=0, unwritten_bytes=self._layout.file_bytes)

    def take(self, sample: Sample) -> None:
        """Write an image, and with the last one make the entry appear."""
        if self._writer is None:
            return
        with self._giving_up():
            self._writer.add(sample)
            self._look_at_disk()
            if self._writer.complete:
                self._publish(self._writer)

    def close(self) -> None:
        """Leave nothing unfinished behind."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        if self._lock.is_locked:
            shutil.rmtree(self._part, ignore_errors=True)
            self._lock.release()

    @contextmanager
    def _giving_up(self) -> Iterator[None]:
        """Give up building with a line in the log where anything stands in its way."""
        try:
            yield
        except Unfit as problem:
            # Ordinary: noise is drawn rather than decoded, and has no uint8 pixels.
            _log.debug("decoded pixels are not kept in %s: %s", self._entry, problem)
            self.close()
        except Timeout:
            _log.info("decoded pixels are not kept in %s: another process builds it", self._entry)
            self.close()
        except (_NotKept, OSError, SurveyError) as problem:
            _warn_once(f"decoded pixels are not kept in {self._entry}: {problem}")
            self.close()

    def _require_use(self, first: Sample) -> None:
        require_fit(first, self._layout, position=0)
        wanted, limit = self._layout.file_bytes, self._room.limit_bytes
        if wanted > limit:
            raise _NotKept(f"they take {wanted:,} bytes, more than the limit of {limit:,}")

    def _look_at_disk(self) -> None:
        # What others write meanwhile is not known when room is made.
        self._unseen_bytes += self._layout.image_bytes
        if self._unseen_bytes >= _BETWEEN_LOOKS:
            self._unseen_bytes = 0
            if shutil.disk_usage(self._room.root).free < FREE_BYTES:
                raise _NotKept(f"less than {FREE_BYTES:,} bytes are free on the disk")

    def _publish(self, writer: EntryWriter) -> None:
        if self._dataset.stat_signature() != self._signature:
            raise _NotKept("the dataset changed while it was decoded")
        listing = writer.listing(self._entry.name)
        self._room.make(more_bytes=len(listing), unwritten_bytes=len(listing))
        writer.finish(listing)
        self._part.rename(self._entry)
        self.close()


class _Room:
    """What a folder of entries holds, and what of it may go."""

    def __init__(self, root: Path, limit_bytes: int) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def make(self, more_bytes: int, unwritten_bytes: int) -> None:
        """Remove the least recently used entries until limit and disk have room.

        Parameters
        ----------
        more_bytes : int
            What is to come beside all that lies in the folder, unfinished entries included.
        unwritten_bytes : int
            What is to be written and not yet taken from the disk.

        Raises
        ------
        _NotKept
            If that were not enough; then nothing is removed. Entries that this process reads from
            stay.
        """
        # Names of entries have no dot; everything else in the folder has one.
        entries = {path: _bytes(path) for path in self.root.iterdir() if "." not in path.name}
        idle = {path: size for path, size in entries.items() if not _reading[path]}
        used_bytes = sum(entries.values()) + sum(map(_bytes, self.root.glob(f"*{_PART}")))
        over_limit = used_bytes + more_bytes - self.limit_bytes
        off_disk = unwritten_bytes + FREE_BYTES - shutil.disk_usage(self.root).free
        short_bytes = max(over_limit, off_disk)
        if short_bytes > sum(idle.values()):
            raise _NotKept(
                f"limit and disk leave {short_bytes:,} bytes too few, entries in use aside"
            )
        for path in sorted(idle, key=_changed_ns):
            if short_bytes > 0 and _removed(path):
                short_bytes -= idle[path]
        if short_bytes > 0:
            raise _NotKept("other entries cannot be removed")

    def sweep(self, entry: Path) -> None:
        """Remove what killed processes left; the caller holds the lock of the entry."""
        for path in self.root.glob(f"*{_TRASH}"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.root.glob(f"*{_PART}"):
            newest_ns = max(map(_changed_ns, [path, *path.glob("*")]))
            if time.time() - newest_ns / 1e9 < STALE_SECONDS:
                continue
            owner = self.root / path.name.partition(".")[0]
            if owner == entry:
                shutil.rmtree(path, ignore_errors=True)
                continue
            with suppress(Timeout, OSError), FileLock(_lock_of(owner), timeout=0):
                shutil.rmtree(path, ignore_errors=True)


@functools.cache
def _warn_once(text: str) -> None:
    # A folder that cannot be written is met again with every model.
    _log.warning(text)


def _lock_of(entry: Path) -> Path:
    return entry.with_name(f"{entry.name}.lock")


def _removed(entry: Path) -> bool:
    """Remove an entry, all of it at once as others see it; return whether it was."""
    trash = entry.with_name(f"{entry.name}.{uuid.uuid4().hex}{_TRASH}")
    try:
        entry.rename(trash)
    except OSError:
        return False
    shutil.rmtree(trash, ignore_errors=True)
    return True


def _bytes(folder: Path) -> int:
    """Return what the files of a folder take once they are written; 0 when it is gone."""
    try:
        return sum(path.stat().st_size for path in folder.iterdir())
    except OSError:
        return 0


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
