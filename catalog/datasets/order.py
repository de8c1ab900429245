"""The fixed order of named images, and the fingerprint over their content in that order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from catalog.datasets.base import ORDER_SEED


def place(name: str, seed: int = ORDER_SEED) -> bytes:
    """Return a key that shuffles images by name, the same way on every platform and for ever.

    Parameters
    ----------
    name : str
        The image's name. Images more or less leave the others in their order.
    seed : int
        Seed of the order.
    """
    # A hash, and no random generator, whose numbers may change with its library.
    return hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest()


def fingerprint_of(
    class_names: tuple[str, ...], images: Iterable[tuple[str, int | None, str]]
) -> str:
    """Return a sha256 (hex) over class names and images, in the order given.

    Parameters
    ----------
    class_names : tuple of str
        Class names by label.
    images : iterable of (str, int or None, str)
        Name, label and the content's sha256 (hex) of every image. The same pictures under the
        same names give the same fingerprint, be they files, members of an archive or rows.
    """
    digest = hashlib.sha256(repr(class_names).encode())
    for name, label, content in images:
        digest.update(repr((name, label, content)).encode())
    return digest.hexdigest()
