"""Everything that can be surveyed, as two tables: architectures and published weights.

Asking all sources imports torch and timm and takes seconds; the tables are therefore kept in the
home's cache, under a key of everything they are made from.
"""

from __future__ import annotations

import functools
import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet

from catalog.arrow_arrays import table_of
from catalog.files import keep_in_cache
from catalog.models import ModelSource, find, sources
from catalog.models.base import Architecture, Published, RemoteFile
from catalog.models.cost_table import CountedCost, counted
from catalog.models.family_facts import FamilyFacts, family_of
from catalog.models.library_source import tables_sha256
from catalog.models.published import other_names, published_for
from catalog.models.suggestions import unknown_pattern
from survey.extensions import announced

_log = logging.getLogger(__name__)

#: Libraries whose version decides what is listed.
LIBRARIES = ("timm", "torchvision", "model-zoo-survey")

T = TypeVar("T")

#: The columns of a table: the type of each, and how its value is got from what a row is about.
Columns = Mapping[str, tuple[pa.DataType, Callable[[T], Any]]]


@dataclass(frozen=True, slots=True)
class _Listed:
    """An architecture with what is known of it."""

    architecture: Architecture
    weights: list[Published]
    default: Published | None
    cost: CountedCost | None
    family: FamilyFacts


def _default(listed: _Listed) -> str | None:
    if listed.architecture.bundled:
        return "bundled"
    return listed.default.full_name if listed.default else None


@functools.cache
def _family(architecture: str) -> str:
    return find(architecture)[0].family


def _top1(weights: Published) -> float | None:
    return next((report.top1 for report in weights.reported), None)


def _bytes(file: RemoteFile | None) -> int | None:
    return (file.bytes or file.about_bytes) if file else None


ARCHITECTURES: Columns[_Listed] = {
    "architecture": (pa.string(), lambda listed: listed.architecture.full_name),
    "family": (pa.string(), lambda listed: listed.architecture.family),
    "family_group": (pa.string(), lambda listed: listed.family.group),
    "year": (pa.int64(), lambda listed: listed.family.year),
    "parameters": (pa.int64(), lambda listed: listed.cost and listed.cost.parameters),
    "published_parameters": (pa.int64(), lambda listed: listed.architecture.published_parameters),
    "gflops": (pa.float64(), lambda listed: listed.cost and listed.cost.gflops),
    "published_gflops": (pa.float64(), lambda listed: listed.architecture.published_gflops),
    "depth": (pa.int64(), lambda listed: listed.cost and listed.cost.depth),
    "size": (pa.int64(), lambda listed: listed.architecture.transform.size),
    "classes": (pa.int64(), lambda listed: listed.architecture.classes),
    "checkpoints": (pa.int64(), lambda listed: len(listed.weights) + listed.architecture.bundled),
    "default": (pa.string(), _default),
    "reported_top1": (pa.float64(), lambda listed: listed.default and _top1(listed.default)),
}

CHECKPOINTS: Columns[Published] = {
    "checkpoint": (pa.string(), lambda weights: weights.full_name),
    "architecture": (pa.string(), lambda weights: weights.architecture),
    "family": (pa.string(), lambda weights: _family(weights.architecture)),
    "size": (pa.int64(), lambda weights: weights.transform.size),
    "reported_top1": (pa.float64(), _top1),
    "protocol": (pa.string(), lambda weights: next((r.protocol for r in weights.reported), None)),
    "recipe": (pa.string(), lambda weights: weights.recipe),
    "bytes": (pa.int64(), lambda weights: _bytes(weights.file)),
    "licence": (pa.string(), lambda weights: weights.file and weights.file.licence),
    "url": (pa.string(), lambda weights: weights.file and weights.file.url),
    "aliases": (pa.list_(pa.string()), other_names),
    "refusal": (pa.string(), lambda weights: weights.refusal),
    "evidence": (pa.string(), lambda weights: weights.evidence or None),
    "notes": (pa.string(), lambda weights: weights.notes or None),
}


def architectures(cache: Path) -> pa.Table:
    """Return one row an architecture, in the order of the sources and of their names.

    Parameters
    ----------
    cache : Path
        Folder in which the table is kept; where it is not there yet, all sources are asked.

    Returns
    -------
    pyarrow.Table
        Of the columns ``ARCHITECTURES``. Parameters and GFLOPs are counted by us on the real
        network, the published figures stand beside them.
    """
    return _kept("architectures", cache, _architectures_of, ARCHITECTURES)


def checkpoints(cache: Path) -> pa.Table:
    """Return one row a set of published weights; see ``architectures``."""
    return _kept("checkpoints", cache, lambda source: source.published(), CHECKPOINTS)


def matching(table: pa.Table, column: str, pattern: str | None, kind: str) -> pa.Table:
    """Return the rows whose name is, or fits, a pattern.

    Parameters
    ----------
    table : pyarrow.Table
        Rows with a name in ``column``: ``source:name``.
    column : str
        Where the name is.
    pattern : str or None
        A full name, a name without its source, or a glob over either; None for all rows.
    kind : str
        What is looked up, for the error.

    Raises
    ------
    UnknownName
        If no row fits.
    """
    if pattern is None:
        return table
    names: list[str] = table[column].to_pylist()
    if ":" not in pattern:
        names = [name.partition(":")[2] for name in names]
    fits = [name == pattern or fnmatchcase(name, pattern) for name in names]
    if not any(fits):
        raise unknown_pattern(kind, pattern, table[column].to_pylist())
    return table.filter(pa.array(fits))


def _kept(
    name: str,
    cache: Path,
    listed_of: Callable[[ModelSource], Iterable[T]],
    columns: Columns[T],
) -> pa.Table:
    path = cache / f"{name}-{_key()}.parquet"
    try:
        return pyarrow.parquet.read_table(path)
    except (OSError, pa.ArrowInvalid):
        # Not there, or damaged: it is made again.
        rows, complete = _rows(listed_of, columns)
    schema = pa.schema([(name, kind) for name, (kind, _) in columns.items()])
    table = table_of(rows, schema)
    if complete:
        _keep(table, path, name)
    return table


def _keep(table: pa.Table, path: Path, name: str) -> None:
    with suppress(OSError):
        for older in path.parent.glob(f"{name}-*.parquet"):
            older.unlink(missing_ok=True)
    keep_in_cache(path, lambda partial: pyarrow.parquet.write_table(table, partial))


def _key() -> str:
    """Return a hash of the versions and of our own tables that the listing is made from."""
    brought = announced("model source")
    versions = [(name, version(name)) for name in LIBRARIES]
    versions += [(entry.value, entry.dist.version if entry.dist else "") for entry in brought]
    # Whoever writes a source changes it without a new version.
    versions += [(entry.value, _changed(entry.module)) for entry in brought]
    return hashlib.sha256(repr([versions, tables_sha256()]).encode()).hexdigest()[:16]


def _changed(module: str) -> str:
    """Return when the file of a module was last changed; empty where it has none."""
    try:
        spec = find_spec(module)
        return str(Path(spec.origin).stat().st_mtime_ns) if spec and spec.origin else ""
    except (ImportError, OSError, ValueError):
        return ""


def _rows(
    listed_of: Callable[[ModelSource], Iterable[T]], columns: Columns[T]
) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of every source, and whether no source had to be left out."""
    rows: list[dict[str, Any]] = []
    complete = True
    for source in sources():
        try:
            # Asked for the table of architectures too, which counts the weights.
            source.published()
            rows += [
                {name: value(listed) for name, (_, value) in columns.items()}
                for listed in listed_of(source)
            ]
        except Exception as problem:  # noqa: BLE001 - anything may go wrong in another's package
            complete = False
            _log.warning("the model source %s is left out: %r", source.name, problem)
    return rows, complete


def _architectures_of(source: ModelSource) -> Iterator[_Listed]:
    for name in source.names():
        architecture = source.get(name)
        weights = published_for(architecture)
        default = next((each for each in weights if each.default), None)
        family = family_of(source.name, architecture.module or name, name)
        yield _Listed(architecture, weights, default, counted(source.name, name), family)
