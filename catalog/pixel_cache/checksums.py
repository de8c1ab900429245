"""Sums over images, which show that cached pixels are damaged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Sums:
    """A 64-bit sum over an image, to detect damage.

    Words of 64 bits are added under odd weights, modulo 2^64. Any change within one word shows,
    and so do pieces that are missing, exchanged or overwritten. What can hide is an even number of
    flips of one same bit, in different words: always for the topmost bit, half as often for each
    bit below. zlib's crc32 would show two flips anywhere, but takes longer than all else that
    reading costs.

    Parameters
    ----------
    image_bytes : int
        Bytes of one image.
    """

    def __init__(self, image_bytes: int) -> None:
        words = image_bytes // 8
        self._end = 8 * words
        self._weights = np.random.PCG64(0).random_raw(words) | np.uint64(1)
        # Up to seven bytes are left where an image is no whole number of words.
        self._places = np.uint64(256) ** np.arange(image_bytes % 8, dtype=np.uint64)

    def of(self, images: NDArray[np.uint8]) -> list[int]:
        """Return the sum of each image of a stack whose images lie in one piece each."""
        flat = images.reshape(len(images), -1)
        words, rest = flat[:, : self._end].view("<u8"), flat[:, self._end :].astype(np.uint64)
        sums = np.einsum("ni,i->n", words, self._weights) + rest @ self._places
        return [int(value) for value in sums]
