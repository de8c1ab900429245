"""Segments that are not merged yet, as a reader sees them: rows of the tables like any other."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.home import Home, segment_paths

if TYPE_CHECKING:
    import duckdb

    from catalog.store.segments import Segment


def read_early(home: Home) -> dict[Path, Segment]:
    """Return the segments of the spool, read before the store's file is held."""
    # Most segments are read before the file is held: readers in a row would otherwise leave the
    # writer no moment to merge, and each would find more segments to read than the last.
    early = {}
    for path in segment_paths(home.spool):
        # Imported where there is one: it brings pyarrow, which takes as long as a short query.
        from catalog.store.segments import read_segment

        with suppress(FileNotFoundError):
            early[path] = read_segment(path)
    return early


def show_unmerged(
    connection: duckdb.DuckDBPyConnection,
    home: Home,
    early: dict[Path, Segment],
    metrics: Collection[str],
    *,
    older: bool,
) -> None:
    """Show rows that are not merged yet, and what an older store has no columns or views for."""
    # Listed again now: while the file is held here nothing is merged, and so nothing vanishes that
    # is not in the file.
    paths = segment_paths(home.spool)
    if not paths and not metrics and not older:
        return
    from catalog.store.segments import joined, read_segment
    from catalog.store.staging import merged_names, show_staged, stage

    known = merged_names(connection, paths)
    waiting = [path for path in paths if path.name not in known]
    if not waiting and not metrics and not older:
        return
    stored = f"{home.signatures.stem}.main"
    segments = (early[path] if path in early else read_segment(path) for path in waiting)
    show_staged(connection, stored, stage(connection, stored, joined(segments, metrics)))
