"""Columns, labels, names and sizes of a Parquet file of images, read before any image.

Owns the model hub's layout: a column of pictures with their paths, and a column of labels whose
class names stand in the file's metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.bounds import parse_json
from catalog.datasets.base import INCOMPLETE
from catalog.datasets.kinds.parquet_pages import Footer, Pages
from catalog.files import change_mark
from survey.errors import DatasetError
from survey.text import first_line, printable

#: Columns that may hold the pictures and the labels; the first that is there is read.
IMAGE_COLUMNS = ("image", "img")
LABEL_COLUMNS = ("label", "fine_label")

#: Most classes of a dataset that does not name them: a larger label is no label.
MOST_CLASSES = 1_000_000

#: What the disk is asked for at a time.
_BUFFER_BYTES = 1 << 20

#: What is unpacked of a column at a time, at most: bytes, and rows of short values.
BATCH_BYTES = 1 << 26
_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read of one file at once."""

    file: Path
    #: Name of the column of pictures; the leaf of their bytes, where it is a structure.
    image: str
    #: Name of the column of labels; None where there is none.
    label: str | None
    #: Each row's path; None where a picture has none.
    paths: list[str | None]
    #: Each row's label, as it is there.
    labels: list[int | str | None]
    #: Class names by label, where the file has them.
    class_names: tuple[str, ...] | None
    #: Rows in each row group.
    groups: list[int]
    #: What the pages of its pictures unpack to.
    pages: Pages
    #: Its ``change_mark`` before it was read.
    mark: int


def read_columns(file: Path) -> Columns:
    """Return what is read of a file at once.

    Raises
    ------
    DatasetError
        If it cannot be read, or has no column of encoded pictures.
    """
    mark = change_mark(file)
    with reading(file) as opened:
        schema = opened.schema_arrow
        image = _column(schema, IMAGE_COLUMNS)
        if image is None:
            raise DatasetError(
                f"{file} has no column {IMAGE_COLUMNS[0]!r};"
                f" its columns are {', '.join(schema.names) or 'none'}",
                hint="a dataset of images in the hub's layout has the columns image and label",
            )
        leaf, paths = _image_leaves(file, schema.field(image))
        label = _column(schema, LABEL_COLUMNS)
        footer = Footer(file)
        rows = sum(footer.rows)
        return Columns(
            file=file,
            image=leaf,
            label=label,
            paths=_values(opened, footer, paths) if paths else [None] * rows,
            labels=_values(opened, footer, label) if label else [None] * rows,
            class_names=_class_names(schema, label),
            groups=footer.rows,
            pages=footer.pages(leaf),
            mark=mark,
        )


def _column(schema: pa.Schema, names: Sequence[str]) -> str | None:
    return next((name for name in names if name in schema.names), None)


def _image_leaves(file: Path, field: pa.Field) -> tuple[str, str | None]:
    """Return the leaf that holds pictures' bytes, and the one that holds their paths."""
    if _is_binary(field.type):
        return field.name, None
    if pa.types.is_struct(field.type):
        parts = {part.name: part.type for part in field.type}
        if "bytes" in parts and _is_binary(parts["bytes"]):
            has_path = "path" in parts and _is_text(parts["path"])
            return f"{field.name}.bytes", f"{field.name}.path" if has_path else None
    raise DatasetError(
        f"the column {field.name!r} of {file} holds {field.type}",
        hint="encoded pictures are bytes, or a structure of bytes and path",
    )


def _values(opened: pq.ParquetFile, footer: Footer, leaf: str) -> list[Any]:
    """Return a column's values: one page may hold a large one, and every row name it."""
    part = leaf.partition(".")[2]
    rows = footer.pages(leaf).rows_within(BATCH_BYTES, _BATCH_ROWS)
    left, values = footer.limit, []
    for batch in opened.iter_batches(rows, columns=[leaf], use_threads=False):
        left -= batch.nbytes
        if left < 0:
            raise ValueError(f"the column {leaf} has more than a file of its size may")
        values += batch.column(0).to_pylist()
    return [value and value[part] for value in values] if part else values


def _class_names(schema: pa.Schema, label: str | None) -> tuple[str, ...] | None:
    """Return the class names that the hub's tools write beside the columns, if they are there."""
    try:
        features = parse_json((schema.metadata or {})[b"huggingface"])["info"]["features"]
        names = features[label]["names"]
        return tuple(str(name) for name in names) if isinstance(names, list) and names else None
    except (KeyError, TypeError, ValueError):
        return None


def require_alike(read: Sequence[Columns]) -> None:
    """Raise a DatasetError if files are not of one dataset."""
    first = read[0]
    for columns in read:
        kinds = {(c.image, c.label, c.class_names) for c in (first, columns)}
        if len(kinds) > 1:
            raise DatasetError(
                f"{columns.file} and {first.file} have different columns or classes",
                hint="name one of the files, or a folder with files of one dataset",
            )


def names_of(paths: Sequence[str | None]) -> list[str]:
    """Return pictures' names: their paths where all have one of their own, else their rows."""
    named = [path for path in paths if path]
    if len(set(named)) == len(paths):
        return named
    return [f"{row:08d}" for row in range(len(paths))]


def labelled(read: Sequence[Columns]) -> tuple[tuple[str, ...], list[int | None]]:
    """Return class names by label, and the label of every row."""
    file, named = read[0].file, read[0].class_names
    labels = [label for columns in read for label in columns.labels]
    numbers = [int(label) for label in labels if isinstance(label, int)]
    if any(not isinstance(label, (int, type(None))) for label in labels):
        return _named_labels(file, labels)
    # The hub writes -1 where a label is withheld.
    smallest, largest = min(numbers, default=-1), max(numbers, default=-1)
    names = named or tuple(str(number) for number in range(min(largest + 1, MOST_CLASSES)))
    if smallest < -1 or largest >= len(names):
        raise DatasetError(
            f"{file} has label {smallest if smallest < -1 else largest},"
            f" must be from 0 to {len(names) - 1}",
            hint=INCOMPLETE,
        )
    # Truth values are 0 and 1.
    shown = [int(label) if isinstance(label, int) and label >= 0 else None for label in labels]
    return names if largest >= 0 else (), shown


def _named_labels(
    file: Path, labels: Sequence[int | str | None]
) -> tuple[tuple[str, ...], list[int | None]]:
    if not all(label is None or isinstance(label, str) for label in labels):
        raise DatasetError(
            f"the labels of {file} are neither all whole numbers nor all text",
            hint="a label is a class's number or its name",
        )
    names = tuple(sorted({label for label in labels if isinstance(label, str)}))
    numbers = {name: number for number, name in enumerate(names)}
    return names, [numbers.get(label) if isinstance(label, str) else None for label in labels]


@contextmanager
def reading(file: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; the errors of a damaged one become a DatasetError."""
    try:
        # Read, not mapped: a mapped file that becomes shorter would end the process. Page by page,
        # not buffered ahead: a row group may be as large as the file.
        with pq.ParquetFile(
            file,
            buffer_size=_BUFFER_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as opened:
            yield opened
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise DatasetError(
            f"{file} cannot be read: {printable(first_line(problem))}",
            hint=INCOMPLETE,
        ) from problem


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
