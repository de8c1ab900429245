"""Everything that can be surveyed, as two tables: architectures and published weights.

Asking all sources imports torch and timm and takes seconds; the tables are therefore kept in the
home's cache, under a key of everything they are made from.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from catalog.models import ModelSource, find, sources
from catalog.models.base import Published
from catalog.models.cost_table import counted
from catalog.models.family_facts import family_of
from catalog.models.published import other_names, published_for
from catalog.models.suggestions import unknown_pattern
from survey.extensions import announced

_log = logging.getLogger(__name__)

#: Libraries whose version decides what is listed.
LIBRARIES = ("timm", "torchvision", "model-zoo-survey")

ARCHITECTURES = pa.schema(
    [
        ("architecture", pa.string()),
        ("family", pa.string()),
        ("family_group", pa.string()),
        ("year", pa.int64()),
        ("parameters", pa.int64()),
        ("published_parameters", pa.int64()),
        ("gflops", pa.float64()),
        ("published_gflops", pa.float64()),
        ("depth", pa.int64()),
        ("size", pa.int64()),
        ("classes", pa.int64()),
        ("checkpoints", pa.int64()),
        ("default", pa.string()),
        ("reported_top1", pa.float64()),
    ]
)

CHECKPOINTS = pa.schema(
    [
        ("checkpoint", pa.string()),
        ("architecture", pa.string()),
        ("family", pa.string()),
        ("size", pa.int64()),
        ("reported_top1", pa.float64()),
        ("protocol", pa.string()),
        ("recipe", pa.string()),
        ("bytes", pa.int64()),
        ("licence", pa.string()),
        ("url", pa.string()),
        ("aliases", pa.list_(pa.string())),
        ("refusal", pa.string()),
        ("evidence", pa.string()),
        ("notes", pa.string()),
    ]
)


def architectures(cache: Path) -> pa.Table:
    """Return one row an architecture, in the order of the sources and of their names.

    Parameters
    ----------
    cache : Path
        Folder in which the table is kept; where it is not there yet, all sources are asked.

    Returns
    -------
    pyarrow.Table
        Of schema ``ARCHITECTURES``. Parameters and GFLOPs are counted by us on the real network,
        the published figures stand beside them.
    """
    return _kept("architectures", cache, _architectures_of, ARCHITECTURES)


def checkpoints(cache: Path) -> pa.Table:
    """Return one row a set of published weights; see ``architectures``."""
    return _kept("checkpoints", cache, _checkpoints_of, CHECKPOINTS)


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
    rows_of: Callable[[ModelSource], Iterator[dict[str, Any]]],
    schema: pa.Schema,
) -> pa.Table:
    path = cache / f"{name}-{_key()}.parquet"
    try:
        return pyarrow.parquet.read_table(path)
    except (OSError, pa.ArrowInvalid):
        # Not there, or damaged: it is made again.
        rows, complete = _rows(rows_of)
    table = pa.Table.from_pylist(rows, schema)
    if complete:
        _keep(table, path, name)
    return table


def _keep(table: pa.Table, path: Path, name: str) -> None:
    partial = path.with_suffix(f".{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for older in path.parent.glob(f"{name}-*.parquet"):
            older.unlink(missing_ok=True)
        pyarrow.parquet.write_table(table, partial)
        partial.replace(path)
    except OSError:
        # A cache that cannot be written makes the next call slow, and nothing else.
        partial.unlink(missing_ok=True)


def _key() -> str:
    """Return a hash of the versions and of our own tables that the listing is made from."""
    brought = announced("model source")
    versions = [(name, version(name)) for name in LIBRARIES]
    versions += [(entry.value, entry.dist.version if entry.dist else "") for entry in brought]
    # Whoever writes a source changes it without a new version.
    versions += [(entry.value, _changed(entry.module)) for entry in brought]
    digest = hashlib.sha256(repr(versions).encode())
    here = files("catalog.models")
    for folder in (here, here / "tables"):
        for table in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if table.name.endswith((".csv", ".py")):
                digest.update(table.read_bytes())
    return digest.hexdigest()[:16]


def _changed(module: str) -> str:
    """Return when the file of a module was last changed; empty where it has none."""
    try:
        spec = find_spec(module)
        return str(Path(spec.origin).stat().st_mtime_ns) if spec and spec.origin else ""
    except (ImportError, OSError, ValueError):
        return ""


def _rows(
    rows_of: Callable[[ModelSource], Iterator[dict[str, Any]]],
) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows of every source, and whether no source had to be left out."""
    rows: list[dict[str, Any]] = []
    complete = True
    for source in sources():
        try:
            # Asked for the table of architectures too, which counts the weights.
            source.published()
            rows += list(rows_of(source))
        except Exception as problem:  # noqa: BLE001 - anything may go wrong in another's package
            complete = False
            _log.warning("the model source %s is left out: %r", source.name, problem)
    return rows, complete


def _architectures_of(source: ModelSource) -> Iterator[dict[str, Any]]:
    for name in source.names():
        architecture = source.get(name)
        weights = published_for(architecture)
        default = next((each for each in weights if each.default), None)
        cost = counted(source.name, name)
        family = family_of(source.name, architecture.module or name, name)
        yield {
            "architecture": architecture.full_name,
            "family": architecture.family,
            "family_group": family.group,
            "year": family.year,
            "parameters": cost.parameters if cost else None,
            "published_parameters": architecture.published_parameters,
            "gflops": cost.gflops if cost else None,
            "published_gflops": architecture.published_gflops,
            "depth": cost.depth if cost else None,
            "size": architecture.transform.size,
            "classes": architecture.classes,
            "checkpoints": len(weights) + architecture.bundled,
            "default": "bundled" if architecture.bundled else default and default.full_name,
            "reported_top1": _top1(default) if default else None,
        }


def _checkpoints_of(source: ModelSource) -> Iterator[dict[str, Any]]:
    for weights in source.published():
        file = weights.file
        yield {
            "checkpoint": weights.full_name,
            "architecture": weights.architecture,
            "family": _family(weights.architecture),
            "size": weights.transform.size,
            "reported_top1": _top1(weights),
            "protocol": weights.reported[0].protocol if weights.reported else None,
            "recipe": weights.recipe,
            "bytes": (file.bytes or file.about_bytes) if file else None,
            "licence": file.licence if file else None,
            "url": file.url if file else None,
            "aliases": other_names(weights),
            "refusal": weights.refusal,
            "evidence": weights.evidence or None,
            "notes": weights.notes or None,
        }


@functools.cache
def _family(architecture: str) -> str:
    return find(architecture)[0].family


def _top1(weights: Published) -> float | None:
    return weights.reported[0].top1 if weights.reported else None
