"""The cache of decoded pixels: what the first model decodes, every later one reads from memory.

Owns the folder of entries below a home's cache: their names, and which process builds one. An
entry is one dataset under one geometry. Mean and deviation are no part of it, so that models which
differ in them alone share one. ``catalog.pixel_cache.entry`` reads and writes one entry,
``catalog.pixel_cache.eviction`` makes room for it.

Any number of processes may use the folder at once. One builds an entry, under a lock, while it
decodes for its own model; the others never wait but decode for themselves. An entry appears
whole, by a rename, and is never written again; a reader may go on when it is removed.
An entry that is damaged is thrown away, and the rest is decoded. Without room, or without a folder
to write to, all is decoded as if there were no cache, and a line is logged.

::

    KEY/                an entry
    KEY.lock            held by the entry's builder; never removed, or two could hold it
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
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
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
from catalog.pixel_cache.eviction import (
    FREE_BYTES,
    PART,
    EntryFolder,
    NotKept,
    lock_of,
    marked_as_read,
    removed,
)
from survey.errors import SurveyError

#: What the entries of one home may take together, in bytes: ImageNet's 50,000 validation images
#: take 7.5 GB at 224 pixels.
DEFAULT_LIMIT = 32 * 2**30

#: Packages that decode and resize; another version of them may give other pixels.
_DECODERS = ("pillow", "torchvision")

#: Fields of a transform that are used on the device, not here.
_ON_THE_DEVICE = frozenset({"mean", "std"})

#: Bytes written between two looks at what the disk has left.
LOOK_BYTES = 64 * 2**20

_log = logging.getLogger(__name__)


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
        resumed run would have to decode images before its start that it does not measure, and
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
        with marked_as_read(entry):
            reached = yield from _stored(entry, layout, start)
        if reached < layout.images:
            build = _Build(EntryFolder(self.root, self.limit_bytes), entry, layout, dataset)
            yield from _decoded(dataset, transform, reached, build)


def _key(dataset: ImageDataset, fingerprint: str, transform: InputTransform) -> str:
    """Return a sha256 (hex) over all that determines an entry's samples."""
    geometry = [
        (field.name, getattr(transform, field.name))
        for field in dataclasses.fields(transform)
        if field.name not in _ON_THE_DEVICE
    ]
    kind = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
    decoders = (f"revision {REVISION}", *(f"{package} {version(package)}" for package in _DECODERS))
    determining = (FORMAT, LISTED, kind, fingerprint, geometry, decoders)
    return hashlib.sha256(repr(determining).encode()).hexdigest()


def _stored(entry: Path, layout: EntryLayout, start: int) -> Generator[Sample, None, int]:
    """Yield from an entry as far as it can be had; return the position reached."""
    try:
        os.utime(entry)
    except FileNotFoundError:
        return start
    except OSError:
        # Another user's, or not to be written: then it counts as used when it was made.
        pass
    try:
        yield from read_entry(entry, layout, start)
    except EntryUnreadable as problem:
        if not problem.damaged:
            _warn_once(f"decoded pixels in {entry} cannot be read: {problem}")
        # Another process may have thrown it away before.
        elif removed(entry):
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


class _Build:
    """An entry in the making. No failure of it ends the decoding."""

    def __init__(
        self, folder: EntryFolder, entry: Path, layout: EntryLayout, dataset: ImageDataset
    ) -> None:
        self._folder, self._entry, self._layout, self._dataset = folder, entry, layout, dataset
        self._part = entry.with_name(f"{entry.name}.{uuid.uuid4().hex}{PART}")
        # A generator may be closed by another thread than the one that began it.
        self._lock = FileLock(lock_of(entry), timeout=0, thread_local=False)
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
            require_fit(first, self._layout, position=0)
            self._folder.root.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            if self._entry.exists():
                # Built meanwhile; or there but not to be read, which was logged.
                self.close()
                return
            self._folder.sweep(self._entry)
            self._writer = EntryWriter(self._part, self._layout)
            self._folder.make_room(more_bytes=0, unwritten_bytes=self._layout.file_bytes)

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
        except (NotKept, OSError, SurveyError) as problem:
            _warn_once(f"decoded pixels are not kept in {self._entry}: {problem}")
            self.close()

    def _look_at_disk(self) -> None:
        # What others write meanwhile is not known when room is made.
        self._unseen_bytes += self._layout.image_bytes
        if self._unseen_bytes >= LOOK_BYTES:
            self._unseen_bytes = 0
            if shutil.disk_usage(self._folder.root).free < FREE_BYTES:
                raise NotKept(f"less than {FREE_BYTES:,} bytes are free on the disk")

    def _publish(self, writer: EntryWriter) -> None:
        if self._dataset.stat_signature() != self._signature:
            raise NotKept("the dataset changed while it was decoded")
        listing = writer.listing(self._entry.name)
        self._folder.make_room(more_bytes=len(listing), unwritten_bytes=len(listing))
        writer.finish(listing)
        self._part.rename(self._entry)
        self.close()


@functools.cache
def _warn_once(text: str) -> None:
    # A folder that cannot be written is met again with every model.
    _log.warning(text)
