"""One entry of decoded pixels: how a dataset's samples lie in a folder, and how they are read.

Owns the two files of an entry, and the detection of damage. Where entries lie, who writes one and
which has to go is decided in ``catalog.pixel_cache.cache``.

::

    pixels.npy      uint8, images x 3 x size x size; zeros where an image has no pixels
    samples.json    names, labels, errors and sums of the images, under a sha256 of their own
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.datasets.base import Sample
from catalog.datasets.images.decoding import ahead
from catalog.pixel_cache.checksums import Sums

#: The two files.
PIXELS, SAMPLES = "pixels.npy", "samples.json"

#: Raised when entries are laid out, or their sums taken, in another way.
FORMAT = 1

#: What is listed of a sample beside its pixels; its position is the place in the list.
LISTED = tuple(
    field.name for field in dataclasses.fields(Sample) if field.name not in {"position", "pixels"}
)

#: Bytes of a file that are mapped at a time.
MAP_BYTES = 256 * 2**20

#: Images summed in one call.
_SUMMED_AT_ONCE = 16

#: Stacks that the summing threads are ahead.
_AHEAD = 4


class EntryUnreadable(Exception):
    """An entry cannot be read on.

    Parameters
    ----------
    reason : str
        Why.
    position : int
        The first position that was not yielded.
    damaged : bool
        Whether it is not what was written; otherwise it could not be opened or mapped.
    """

    def __init__(self, reason: str, position: int, *, damaged: bool) -> None:
        super().__init__(reason)
        self.position = position
        self.damaged = damaged


class _Damaged(Exception):
    """An entry is not what was written."""


class Unfit(Exception):
    """A sample cannot be given back by an entry as it is."""


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """How the pixels of an entry lie in their file."""

    #: Number of images.
    images: int
    #: Side of each, in pixels.
    size: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of one image."""
        return 3, self.size, self.size

    @property
    def image_bytes(self) -> int:
        """Bytes of one image."""
        return 3 * self.size * self.size

    @property
    def header(self) -> bytes:
        """What the file begins with: numpy's header with its type and shape."""
        file = io.BytesIO()
        header = {"descr": "|u1", "fortran_order": False, "shape": (self.images, *self.shape)}
        np.lib.format.write_array_header_1_0(file, header)
        return file.getvalue()

    @property
    def file_bytes(self) -> int:
        """Bytes of the whole file."""
        return len(self.header) + self.images * self.image_bytes


class EntryWriter:
    """Writes the two files into a new folder. What it writes counts only once both are there.

    Parameters
    ----------
    folder : Path
        The folder, which is made here.
    layout : EntryLayout
        How many images of which size are to come.
    """

    def __init__(self, folder: Path, layout: EntryLayout) -> None:
        self.folder = folder
        self._layout = layout
        self._sums = Sums(layout.image_bytes)
        self._expected: list[int | None] = []
        self._rows: list[list[Any]] = []
        folder.mkdir()
        self._file = (folder / PIXELS).open("xb")
        self._file.write(layout.header)
        # At once of its whole size, so that others that make room know of it. Never written through
        # a map: a full disk would then end the process rather than raise.
        self._file.flush()
        self._file.truncate(layout.file_bytes)

    @property
    def complete(self) -> bool:
        """Whether all images are in."""
        return len(self._rows) == self._layout.images

    def add(self, sample: Sample) -> None:
        """Write the next image.

        Raises
        ------
        Unfit
            If it is not the next image, or not a uint8 picture of the size.
        OSError
            If it cannot be written.
        """
        require_fit(sample, self._layout, len(self._rows))
        self._rows.append([getattr(sample, name) for name in LISTED])
        if sample.pixels is None:
            self._file.seek(self._layout.image_bytes, os.SEEK_CUR)
            self._expected.append(None)
        else:
            pixels = np.ascontiguousarray(sample.pixels.numpy())
            self._file.write(pixels.data)
            self._expected.extend(self._sums.of(pixels[np.newaxis]))

    def listing(self, key: str) -> bytes:
        """Return the content of ``samples.json``.

        Parameters
        ----------
        key : str
            The name of the entry, which a reader asks for again.
        """
        content = {"key": key, "fields": LISTED, "samples": self._rows, "sums": self._expected}
        return _sealed(content)

    def finish(self, listing: bytes) -> None:
        """Write ``samples.json`` and close both files.

        Nothing is forced to the disk: the sums show what a power failure left.
        """
        (self.folder / SAMPLES).write_bytes(listing)
        self._file.close()

    def close(self) -> None:
        """Close the file, whatever was written so far."""
        # A full disk refuses what was still to be written; the file is closed all the same.
        with suppress(OSError):
            self._file.close()


def require_fit(sample: Sample, layout: EntryLayout, position: int) -> None:
    """Raise Unfit for a sample that an entry could not give back as it is."""
    pixels = sample.pixels
    if pixels is not None and (str(pixels.dtype), pixels.shape) != ("torch.uint8", layout.shape):
        raise Unfit(f"image {position} is no uint8 picture of {layout.size} pixels")
    kinds = {type(getattr(sample, name)) for name in LISTED}
    if sample.position != position or not kinds <= {str, int, type(None)}:
        raise Unfit(f"image {position} is out of order, or has fields other than text and numbers")


def read_entry(entry: Path, layout: EntryLayout, start: int) -> Iterator[Sample]:
    """Yield an entry's samples from a position on, each checked.

    Parameters
    ----------
    entry : Path
        The folder.
    layout : EntryLayout
        How many images of which size it must hold.
    start : int
        The first position yielded.

    Yields
    ------
    Sample
        Its pixels lie in the page cache, for all who read them, until they are written to: the
        writer then gets a copy of its own.

    Raises
    ------
    EntryUnreadable
        In place of the first sample that is not what was written, or cannot be read.
    """
    import torch

    position = start
    try:
        rows, expected = _listed(entry, layout)
        sums = Sums(layout.image_bytes)
        summed = _summed(_mapped(entry / PIXELS, layout, start), sums)
        for position, (image, actual) in enumerate(summed, start):
            pixels = None
            if expected[position] is not None:
                if actual != expected[position]:
                    raise _Damaged(f"image {position} differs from what was written")
                pixels = torch.from_numpy(image)
            listed = dict(zip(LISTED, rows[position], strict=True))
            yield Sample(position=position, pixels=pixels, **listed)
            position += 1  # noqa: PLW2901 - what was yielded is no longer to be had
    except (_Damaged, OSError) as problem:
        damaged = isinstance(problem, (_Damaged, FileNotFoundError))
        raise EntryUnreadable(str(problem), position, damaged=damaged) from problem


def _listed(entry: Path, layout: EntryLayout) -> tuple[list[list[Any]], list[int | None]]:
    """Return what is listed of each image, and each image's sum."""
    content = _unsealed((entry / SAMPLES).read_bytes())
    rows, expected = content["samples"], content["sums"]
    if (content["key"], len(rows)) != (entry.name, layout.images):
        raise _Damaged(f"{SAMPLES} belongs to another entry")
    return rows, expected


def _summed(
    mapped: Iterator[NDArray[np.uint8]], sums: Sums
) -> Iterator[tuple[NDArray[np.uint8], int]]:
    """Yield each image with its sum; a few stacks ahead are summed, and so paged in, meanwhile."""
    stacks = (
        images[first : first + _SUMMED_AT_ONCE]
        for images in mapped
        for first in range(0, len(images), _SUMMED_AT_ONCE)
    )
    for stack, values in ahead(lambda stack: (stack, sums.of(stack)), stacks, _AHEAD):
        yield from zip(stack, values, strict=True)


def _mapped(path: Path, layout: EntryLayout, start: int) -> Iterator[NDArray[np.uint8]]:
    """Yield stacks of images of shape (n, 3, size, size), memory maps that copy on write."""
    header = layout.header
    with path.open("rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if size_bytes != layout.file_bytes:
            raise _Damaged(f"{PIXELS} has {size_bytes:,} bytes, not {layout.file_bytes:,}")
        if file.read(len(header)) != header:
            raise _Damaged(f"{PIXELS} has another header")
        # Piece by piece: a system may refuse to promise copies of a file larger than its memory.
        step = max(1, MAP_BYTES // layout.image_bytes)
        for first in range(start, layout.images, step):
            shape = (min(step, layout.images - first), *layout.shape)
            offset = len(header) + first * layout.image_bytes
            piece = np.memmap(file, np.uint8, "c", offset=offset, shape=shape)
            # Images are cut from a plain array in a fraction of the time a memmap takes.
            yield piece.view(np.ndarray)


def _head(body: bytes) -> bytes:
    return b'{"sha256": "%s", ' % hashlib.sha256(body).hexdigest().encode()


def _sealed(content: dict[str, Any]) -> bytes:
    """Return JSON that begins with a sha256 over all that follows it."""
    body = json.dumps(content)[1:].encode()
    return _head(body) + body


def _unsealed(data: bytes) -> Any:
    """Return the content of sealed JSON; nothing of it is parsed before it is known to be whole."""
    body = data[len(_head(b"")) :]
    if not data.startswith(_head(body)):
        raise _Damaged(f"{SAMPLES} differs from what was written")
    return json.loads(data)
