"""From a picture's bytes to the pixels a network sees, a few pictures ahead of the reader.

The transform is that of torchvision's classification presets. What a broken picture
makes Pillow raise is listed here.
"""

from __future__ import annotations

import struct
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from catalog.models.base import InputTransform

if TYPE_CHECKING:
    import torch
    from PIL import Image

#: Formats Pillow may try, whatever a file calls itself: others run programs (EPS: Ghostscript).
FORMATS = ("JPEG", "PNG", "PPM", "BMP", "TIFF", "WEBP")

#: Pixels of the largest picture decoded: Pillow's limit for decompression bombs.
MOST_PIXELS = 89_478_485

#: Raised when the same bytes become other pixels than before: what was kept of them is then stale.
REVISION = 3

#: What Pillow's and scipy's readers raise on files that are not what they claim to be.
DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    RuntimeError,
    EOFError,
    MemoryError,
    struct.error,
    zlib.error,
    Warning,
)

#: Threads that decode where a worker has no more of its own.
_THREADS = 2

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


def decoded(file: BinaryIO, transform: InputTransform) -> Image.Image:
    """Return a picture in RGB.

    Of 16 bits a channel the upper 8 are kept, in grey as Pillow keeps them in colour and as
    torchvision scales 16 bits to 8; Pillow alone would cut grey off at 255 of 65,535.

    Parameters
    ----------
    file : binary file
        The encoded picture, in one of ``FORMATS``.
    transform : InputTransform
        How it will be resized: what would then grow beyond ``MOST_PIXELS`` is refused before it
        is decoded.

    Raises
    ------
    Exception
        One of ``DECODE_ERRORS``, for a picture that cannot be decoded.
    """
    import numpy as np
    from PIL import Image

    try:
        opened = Image.open(file, formats=FORMATS)
    except Image.DecompressionBombError as problem:
        raise ValueError(str(problem)) from problem
    _check_size(*opened.size, transform)
    if opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format == "PPM"):
        # Pillow scales whatever white a PGM file declares to 65,535.
        bits, inverted = _grey_of_tiff(opened) if opened.format == "TIFF" else (16, False)
        upper = (np.asarray(opened) >> (bits - 8)).astype(np.uint8)
        return Image.fromarray(255 - upper if inverted else upper).convert("RGB")
    if opened.mode in ("I", "F"):
        raise ValueError(f"its values are {_WIDE[opened.mode]}, and it does not say which is white")
    return opened.convert("RGB")


def _grey_of_tiff(picture: Any) -> tuple[int, bool]:
    """Return the bits of a value, of which Pillow fills the lower ones, and whether 0 is white."""
    tags = picture.tag_v2
    return int(tags.get(_BITS_PER_SAMPLE, (16,))[0]), tags.get(_PHOTOMETRIC, 1) == 0


#: Tags of TIFF 6.0, section 8.
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262

_WIDE = {"I": "whole numbers of 32 bits", "F": "floating-point numbers"}


def fitted(picture: Image.Image, transform: InputTransform) -> torch.Tensor:
    """Return a picture resized and cropped at its centre, as torchvision does it.

    Parameters
    ----------
    picture : Image
        In RGB.
    transform : InputTransform
        Its mean and deviation are not used.

    Returns
    -------
    torch.Tensor
        uint8, of shape (3, size, size).
    """
    # By Pillow alone: torchvision would do the same after some seconds of imports.
    import numpy as np
    import torch
    from PIL import Image

    side, size = transform.resize, transform.size
    shorter = min(picture.size)
    sides = (side, side)
    if transform.crop != "squash":
        # The shorter side is given, and the proportions are kept.
        width, height = picture.size
        sides = (side * width // shorter, side * height // shorter)
    if sides != picture.size:
        picture = picture.resize(sides, Image.Resampling[transform.interpolation.upper()])
    left, top = (_margin(each, size) for each in picture.size)
    cropped = picture.crop((left, top, left + size, top + size))
    return torch.from_numpy(np.array(cropped)).permute(2, 0, 1)


def _margin(side: int, size: int) -> int:
    """Return where a centred crop begins; below 0 where it is larger, and black around."""
    return -((size - side) // 2) if size > side else round((side - size) / 2)


def ahead(
    work: Callable[[_Task], _Result], tasks: Iterable[_Task], window: int = 32
) -> Iterator[_Result]:
    """Yield the result of every task in order, worked on by threads a few tasks ahead.

    There are as many as torch computes with: an accelerator takes pictures faster than two decode.

    Parameters
    ----------
    work : callable
        What is done with each task; what it raises is raised here.
    tasks : iterable
        Drawn one by one as results are taken.
    window : int
        How many tasks the threads are ahead.
    """
    import torch

    waiting, threads = iter(tasks), max(_THREADS, torch.get_num_threads())
    with ThreadPoolExecutor(threads, thread_name_prefix="decode") as pool:
        submitted = deque(pool.submit(work, task) for task in islice(waiting, window))
        try:
            while submitted:
                result = submitted.popleft().result()
                submitted.extend(pool.submit(work, task) for task in islice(waiting, 1))
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


def reason(problem: BaseException) -> str:
    """Return why a picture cannot be decoded."""
    from PIL import UnidentifiedImageError

    if isinstance(problem, UnidentifiedImageError):
        return "the file is not a picture"
    return str(problem) or type(problem).__name__


def _check_size(width: int, height: int, transform: InputTransform) -> None:
    # A small file of a huge or hair-thin picture fills the memory, once decoded or once enlarged.
    resize, squashed = transform.resize, transform.crop == "squash"
    longer = 1 if squashed else max(width, height) / max(1, min(width, height))
    enlarged = resize * resize * longer
    if max(width * height, enlarged) > MOST_PIXELS:
        raise ValueError(
            f"it has {width} x {height} pixels, at most {MOST_PIXELS:,} are decoded"
            f" (as it is, and with the shorter side at {resize})"
        )
