"""What can be surveyed, as tables for the command line; and all that is known of one model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from catalog.index import architectures, checkpoints, matching
from catalog.models.base import Architecture, Published
from catalog.models.sets import SETS
from survey import UnknownName

#: What tables on a terminal show, and under which heading; other formats show everything.
MODEL_HEADINGS: dict[str, str | None] = {
    **dict.fromkeys(("architecture", "family", "family_group", "year", "parameters", "gflops")),
    **dict.fromkeys(("depth", "size", "checkpoints")),
    "reported_top1": "top1",
}
CHECKPOINT_HEADINGS: dict[str, str | None] = {
    **dict.fromkeys(("checkpoint", "architecture", "size")),
    "reported_top1": "top1",
    **dict.fromkeys(("protocol", "licence", "refusal")),
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which architectures are wanted; None where anything will do."""

    pattern: str | None = None
    family: str | None = None
    group: str | None = None
    year: int | None = None
    #: In millions.
    most_parameters: float | None = None


@dataclass(frozen=True, slots=True)
class WantedWeights:
    """Which published weights are wanted; None where anything will do."""

    pattern: str | None = None
    family: str | None = None
    protocol: str | None = None
    least_top1: float | None = None


def list_models(wanted: Wanted, cache: Path | None = None) -> pa.Table:
    """Return one row an architecture that is wanted.

    Parameters
    ----------
    wanted : Wanted
        Which.
    cache : Path, optional
        Where listings are kept.

    Raises
    ------
    UnknownName
        If a pattern, family or group fits nothing.
    """
    table = architectures(cache)
    if wanted.pattern is not None and wanted.pattern in SETS:
        weights = checkpoints(cache)
        members = pc.is_in(weights["checkpoint"], pa.array(SETS[wanted.pattern].members))
        kept = weights.filter(members)["architecture"].combine_chunks()
        table = table.filter(pc.is_in(table["architecture"], kept))
    else:
        table = matching(table, "architecture", wanted.pattern, "architecture")
    table = _only(table, "family", wanted.family)
    table = _only(table, "family_group", wanted.group, "group of families")
    if wanted.year is not None:
        table = table.filter(pc.equal(table["year"], wanted.year))
    if wanted.most_parameters is not None:
        table = table.filter(pc.less_equal(table["parameters"], wanted.most_parameters * 1e6))
    return table


def list_checkpoints(wanted: WantedWeights, cache: Path | None = None) -> pa.Table:
    """Return one row a set of published weights that is wanted.

    Parameters
    ----------
    wanted : WantedWeights
        A pattern fits the weights' own name, or that of their architecture.
    cache : Path, optional
        Where listings are kept.

    Raises
    ------
    UnknownName
        If a pattern, family or protocol fits nothing.
    """
    table = checkpoints(cache)
    if wanted.pattern is not None and wanted.pattern in SETS:
        members = pa.array(SETS[wanted.pattern].members)
        table = table.filter(pc.is_in(table["checkpoint"], members))
    else:
        table = _matching_either(table, wanted.pattern)
    table = _only(table, "family", wanted.family)
    table = _only(table, "protocol", wanted.protocol)
    if wanted.least_top1 is not None:
        table = table.filter(pc.greater_equal(table["reported_top1"], wanted.least_top1))
    return table


def list_datasets(home: Path) -> pa.Table:
    """Return one row a kind of dataset, and whether its files are in the home."""
    from catalog.datasets import DATASETS, needed_files
    from catalog.downloads import FileStore
    from catalog.home import Home

    store = FileStore(Home(home.absolute()).files, offline=True)
    rows = []
    for info in DATASETS:
        files = needed_files(info.syntax) if info.download_bytes else ()
        rows.append(
            {
                "dataset": info.syntax,
                "holds": info.sentence,
                "images": info.images,
                "classes": info.classes,
                "download": info.download_bytes or None,
                "here": not store.missing(files) if files else None,
                "licence": info.licence,
                "source": info.source,
            }
        )
    return pa.Table.from_pylist(rows)


def show_model(name: str) -> pa.Table:
    """Return all that is known of an architecture or of published weights, fact by fact.

    Returns
    -------
    pyarrow.Table
        ``fact``, ``value``, and ``source``: where each comes from.

    Raises
    ------
    UnknownName
        If nothing has that name.
    """
    from catalog.models.published import published
    from catalog.models.selection import select

    chosen = select(name)
    facts = _architecture_facts(chosen[0].architecture)
    named = [each.weights for each in chosen if each.weights is not None]
    for weights in named:
        facts += _weights_facts(published(weights))
    if not named:
        facts += _weights_names(chosen[0].architecture)
    rows = [
        {"fact": fact, "value": _words(value), "source": source}
        for fact, value, source in facts
        if value is not None
    ]
    return pa.Table.from_pylist(rows)


_Fact = tuple[str, Any, str | None]


def _architecture_facts(architecture: Architecture) -> list[_Fact]:
    from catalog.models.costs import counted
    from catalog.models.families import family_of

    source, name = architecture.source, architecture.name
    family = family_of(source, architecture.module or name, name)
    package = _package(source)
    transform = architecture.transform
    facts: list[_Fact] = [
        ("architecture", architecture.full_name, package),
        ("family", architecture.family, None),
        ("family group", family.group, "the affinity score's paper, extended"),
        ("year", family.year, family.reference),
        ("classes", architecture.classes, package),
        ("input", f"{transform.size} pixels", package),
    ]
    if (cost := counted(source, name)) is not None:
        by_us = f"counted by us on {cost.library}, at {cost.size} pixels"
        facts += [
            ("parameters", cost.parameters, by_us),
            ("GFLOPs (multiply-adds)", round(cost.gflops, 3), by_us),
            ("depth (layers with weights)", cost.depth, by_us),
        ]
    facts += [
        ("parameters, published", architecture.published_parameters, package),
        ("GFLOPs, published", architecture.published_gflops, package),
    ]
    return facts


def _weights_names(architecture: Architecture) -> list[_Fact]:
    from catalog.models.published import published_for

    bundled: list[_Fact] = [("weights", "bundled", "this package")] if architecture.bundled else []
    return bundled + [
        ("weights", weights.full_name + (" (default)" if weights.default else ""), None)
        for weights in published_for(architecture)
    ]


def _weights_facts(weights: Published) -> list[_Fact]:
    transform, file = weights.transform, weights.file
    prepared = (
        f"shorter side to {transform.resize} ({transform.interpolation}), centre crop of"
        f" {transform.size}, mean {transform.mean}, deviation {transform.std}"
    )
    facts: list[_Fact] = [
        ("checkpoint", weights.full_name, weights.evidence or _package(weights.source)),
        ("other names", ", ".join(weights.aliases) or None, None),
        ("images are prepared", prepared, None),
        ("recipe", weights.recipe, weights.recipe_url),
    ]
    facts += [
        (f"top-1 reported ({report.protocol}, {report.dataset})", report.top1, report.source)
        for report in weights.reported
    ]
    if file is not None:
        digest = file.sha256 or file.sha256_prefix
        facts += [
            ("file", file.url, None),
            ("bytes", file.bytes, None),
            ("sha256", f"begins {digest}" if digest else None, None),
            ("md5", file.md5, None),
            ("licence", file.licence, None),
        ]
    rules = weights.rules
    facts += [
        ("keys begin with", rules.prefix or None, None),
        ("keys left out", ", ".join(rules.drop) or None, None),
        ("classifier", None if rules.classifier else "not in the file", None),
        ("cannot be loaded", weights.refusal, None),
        ("notes", weights.notes or None, None),
    ]
    return facts


def _package(source: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"{source} {version(source)}"
    except PackageNotFoundError:
        return "this package"


def _words(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and value > 9999 else str(value)


def _matching_either(table: pa.Table, pattern: str | None) -> pa.Table:
    try:
        return matching(table, "checkpoint", pattern, "checkpoint")
    except UnknownName as unknown:
        try:
            return matching(table, "architecture", pattern, "checkpoint")
        except UnknownName:
            raise unknown from None


def _only(table: pa.Table, column: str, value: str | None, kind: str | None = None) -> pa.Table:
    """Return the rows with a value, upper and lower case being the same."""
    if value is None:
        return table
    known = [name for name in pc.unique(table[column]).to_pylist() if name is not None]
    same = [name for name in known if name.lower() == value.lower()]
    if not same:
        raise UnknownName(kind or column, value, known)
    return table.filter(pc.is_in(table[column], pa.array(same)))
