"""Attention as the operations that it consists of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def plain_attention() -> Iterator[None]:
    """Have torch's attention and transformer layers run as the operations they consist of."""
    # Their fused kernel is one operation, which torch can neither count nor differentiate forward.
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
