"""The kinds of dataset that come with this package; a new one is a module here and a line below."""

from __future__ import annotations

from catalog.datasets.kind import DatasetKind
from catalog.datasets.kinds import (
    cifar,
    digits,
    fashion_mnist,
    folder,
    imagenet,
    memory,
    parquet,
    random,
)

#: Every kind, in the order in which they are listed: by name.
KINDS: tuple[DatasetKind, ...] = (
    cifar.KIND,
    digits.KIND,
    fashion_mnist.KIND,
    folder.KIND,
    imagenet.KIND,
    memory.KIND,
    parquet.KIND,
    random.KIND,
)
