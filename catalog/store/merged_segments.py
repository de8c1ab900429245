"""Merged segments, kept for some time as the store's log: a damaged store is repaired from them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from catalog.files import sync_folder
from catalog.home import segment_paths

#: How long merged segments are kept, and how much of them at most.
KEPT_DAYS = 7
KEPT_BYTES = 512 << 20
KEPT_SEGMENTS = 20_000


def keep(segments: Sequence[Path], log: Path) -> None:
    """Move merged segments from the spool into the log."""
    log.mkdir(exist_ok=True)
    for segment in segments:
        segment.replace(log / segment.name)
    for folder in (log.parent, log, segments[0].parent):
        sync_folder(folder)


def prune(log: Path) -> None:
    """Remove the oldest segments of the log: those beyond its age, bytes or number."""
    newest_first = segment_paths(log)[::-1]
    facts = [path.stat() for path in newest_first]
    oldest = time.time() - KEPT_DAYS * 86_400
    sizes = accumulate(each.st_size for each in facts)
    for place, (path, size, each) in enumerate(zip(newest_first, sizes, facts, strict=True)):
        if place >= KEPT_SEGMENTS or size > KEPT_BYTES or each.st_mtime < oldest:
            path.unlink()
