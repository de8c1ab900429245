"""Texts and tables without the paths of this machine: files by their last names alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

Rows = TypeVar("Rows", "pa.Table", "pa.RecordBatch")

# Texts may be anybody's, of any length: each expression takes time in proportion to its text.

# Where a file of an installed package begins in a traceback; else a rest of a line, which is kept:
# none begins at its other slashes either.
_PACKAGES = re.compile(r"(?<![\w.])(?:/[^\n\"']*?/(?:site|dist)-packages/|(/[^\n\"']*))")

# A value such as `file:/my folder/name.pth[:10]`, which may hold spaces.
_REFERENCE = re.compile(r"(?<!\w)(\w+:)(?:~|\.{1,2})?/(?!/)(?:[^/\n]*/)*")

# Neither the second part of `a/b` nor of a URL: a path begins after a space, a quote or a colon. A
# folder's name may hold spaces, but neither begins nor ends with one: `a / b` is no path, nor are
# `</a>` and the `*/5` of cron.
_PATH = re.compile(
    r"(?<![\w./\\*<])(?:~|\.{1,2})?/(?![/\s])"
    r"(?:[^/\n'\"`,;:()<>\[\]]*[^\s/'\"`,;:()<>\[\]]/)*"
)

# Files of packages go by their place in them.
_IMPORTED = sorted({f"{each}/" for each in sys.path if len(each) > 1}, key=len, reverse=True)


def without_paths(text: str, roots: Sequence[Path] = ()) -> str:
    """Return a text with files and folders by their last names alone.

    Parameters
    ----------
    text : str
        Any text.
    roots : sequence of Path
        Folders whose paths may hold spaces, such as the home.
    """
    for root in roots:
        text = text.replace(f"{root.parent}/", "")
    for folder in _IMPORTED:
        text = text.replace(folder, "")
    return _PATH.sub("", _PACKAGES.sub(r"\1", text))


def without_folders(value: Any) -> Any:
    """Return a value whose texts name files without the folders that they lie in."""
    if isinstance(value, str):
        return _bare(value) if "/" in value else value
    if isinstance(value, bytes):
        return without_folders(value.decode(errors="surrogateescape")).encode(
            errors="surrogateescape"
        )
    if isinstance(value, dict):
        return {name: without_folders(each) for name, each in value.items()}
    # A map is a list of pairs.
    return type(value)(map(without_folders, value)) if isinstance(value, list | tuple) else value


# The same files are named again and again, and looking for paths takes longer than all else.
@lru_cache(maxsize=50_000)
def _bare(text: str) -> str:
    return without_paths(_REFERENCE.sub(r"\1", text) if _REFERENCE.match(text) else text)


def without_paths_in(rows: Rows) -> Rows:
    """Return a table or batch whose texts and names have files without their folders."""
    import pyarrow as pa

    for place, field in enumerate(rows.schema):
        column = rows.column(place)
        if isinstance(column, pa.ChunkedArray):
            bare = pa.chunked_array(map(_without_folders_each, column.chunks), field.type)
        else:
            bare = _without_folders_each(column)
        rows = rows.set_column(place, field, bare)
    # A statement can make a value a column's name.
    return rows.rename_columns([without_folders(name) for name in rows.schema.names])


def _without_folders_each(values: pa.Array) -> pa.Array:
    """Return texts, or lists and structures of them, without folders; the same where none has."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        # Most texts are of few values, or hold no path.
        if not pc.any(pc.match_substring(values, "/")).as_py():
            return values
        coded = values.dictionary_encode()
        return pa.array(map(without_folders, coded.dictionary.to_pylist()), kind).take(
            coded.indices
        )
    if re.search("string|binary", str(kind)):
        return pa.array([without_folders(each) for each in values.to_pylist()], kind)
    return values
