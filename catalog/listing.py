"""What can be surveyed, as tables: architectures, published weights and kinds of dataset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from catalog.datasets.kind import DatasetInfo
from catalog.datasets.subset import split_name
from catalog.home import Home
from catalog.models.index import architectures, checkpoints, matching
from catalog.models.sets import SETS, NamedSet
from survey import SettingsError, UnknownName
from survey.errors import CatalogError


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


def list_models(wanted: Wanted, cache: Path) -> pa.Table:
    """Return one row an architecture that is wanted.

    Parameters
    ----------
    wanted : Wanted
        Which.
    cache : Path
        Where listings are kept.

    Raises
    ------
    UnknownName
        If a pattern, family or group fits nothing.
    SettingsError
        If a number is out of its range.
    """
    _check_range("--year", wanted.year, 1950, 2100)
    _check_range("--max-params", wanted.most_parameters, 0, math.inf)
    if wanted.pattern is not None and wanted.pattern.startswith("python:"):
        raise CatalogError(
            f"{wanted.pattern}: networks of your own are named, not listed",
            hint="survey models show python:MODULE:FUNCTION",
        )
    table = everything = architectures(cache)
    if named := SETS.get(wanted.pattern or ""):
        kept = _only_members(checkpoints(cache), named)["architecture"].combine_chunks()
        table = table.filter(pc.is_in(table["architecture"], kept))
    else:
        table = matching(table, "architecture", wanted.pattern, "architecture")
    table = _only(table, everything, "family", wanted.family)
    table = _only(table, everything, "family_group", wanted.group, "group of families")
    if wanted.year is not None:
        table = table.filter(pc.equal(table["year"], wanted.year))
    if wanted.most_parameters is not None:
        table = table.filter(pc.less_equal(table["parameters"], wanted.most_parameters * 1e6))
    return table


def list_checkpoints(wanted: WantedWeights, cache: Path) -> pa.Table:
    """Return one row a set of published weights that is wanted.

    Parameters
    ----------
    wanted : WantedWeights
        A pattern fits the weights' own name, or that of their architecture.
    cache : Path
        Where listings are kept.

    Raises
    ------
    UnknownName
        If a pattern, family or protocol fits nothing.
    CatalogError
        If the pattern fits architectures that nobody publishes weights for.
    SettingsError
        If an accuracy is not in [0, 1].
    """
    from catalog.models.published import canonical

    _check_range("--min-top1", wanted.least_top1, 0, 1)
    table = everything = checkpoints(cache)
    if named := SETS.get(wanted.pattern or ""):
        table = _only_members(table, named)
    else:
        table = _matching_either(table, wanted.pattern and canonical(wanted.pattern), cache)
    table = _only(table, everything, "family", wanted.family)
    table = _only(table, everything, "protocol", wanted.protocol)
    if wanted.least_top1 is not None:
        table = table.filter(pc.greater_equal(table["reported_top1"], wanted.least_top1))
    return table


def list_datasets(home: Path, pattern: str | None = None, *, here: bool = False) -> pa.Table:
    """Return one row a kind of dataset, and whether its files are in the home.

    Parameters
    ----------
    home : Path
        The home; it need not exist.
    pattern : str, optional
        A dataset as it is written, with a selection or without, what stands before its colon, or
        a glob.
    here : bool
        Whether to leave out those whose files have yet to come into the home.

    Raises
    ------
    UnknownName, DatasetError
        If the pattern fits nothing, or its selection cannot be used.
    """
    from catalog.datasets import DATASETS
    from catalog.downloads import FileStore

    place = Home(home.absolute())
    store = FileStore(place.files, offline=True)

    def is_here(info: DatasetInfo) -> bool | None:
        """Return whether a dataset's files are in the home; None where it needs none there."""
        if info.home_folder is not None:
            return any((place.datasets / info.home_folder).glob("*"))
        return not store.missing(info.files) if info.files else None

    rows = [
        {
            "dataset": info.syntax,
            "holds": info.sentence,
            "images": info.images,
            "classes": info.classes,
            "download": info.download_bytes or None,
            "here": is_here(info),
            "licence": info.licence,
            "source": info.source,
        }
        for info in _datasets(DATASETS, pattern)
    ]
    kept = [not here or row["here"] is not False for row in rows]
    return pa.Table.from_pylist(rows).filter(pa.array(kept))


def _datasets(infos: Sequence[DatasetInfo], pattern: str | None) -> list[DatasetInfo]:
    if pattern is None:
        return list(infos)
    wanted = [info for info in infos if pattern == info.prefix or fnmatchcase(info.syntax, pattern)]
    if not wanted:
        whole, _ = split_name(pattern)
        wanted = [info for info in infos if info.names(whole)]
    if not wanted:
        names = {name for info in infos for name in (info.prefix, info.syntax)}
        raise UnknownName("dataset", pattern, names)
    return wanted


def _only_members(weights: pa.Table, named: NamedSet) -> pa.Table:
    return weights.filter(pc.is_in(weights["checkpoint"], pa.array(named.members)))


def _matching_either(table: pa.Table, pattern: str | None, cache: Path) -> pa.Table:
    try:
        return matching(table, "checkpoint", pattern, "checkpoint")
    except UnknownName as unknown:
        try:
            return matching(table, "architecture", pattern, "checkpoint")
        except UnknownName:
            _refuse_unpublished(str(pattern), cache)
            raise unknown from None


def _refuse_unpublished(pattern: str, cache: Path) -> None:
    """Say so where there are such architectures, and only their weights are unheard of."""
    try:
        named = matching(architectures(cache), "architecture", pattern, "architecture")
    except UnknownName:
        return
    bundled = "bundled" in named["default"].to_pylist()
    raise CatalogError(
        f"nobody publishes weights for {pattern}",
        hint="its weights come with this package: --checkpoint bundled"
        if bundled
        else "measure it with --checkpoint init:SEED or file:PATH",
    )


def _check_range(option: str, value: float | None, least: float, most: float) -> None:
    # Written so that NaN, which compares with nothing, is refused too.
    if value is not None and not least <= value <= most:
        allowed = f"at least {least}" if most == math.inf else f"from {least} to {most}"
        raise SettingsError(f"{option} is {value}, must be {allowed}")


def _only(
    table: pa.Table, everything: pa.Table, column: str, value: str | None, kind: str | None = None
) -> pa.Table:
    """Return the rows with a value, upper and lower case being the same.

    Only a value that ``everything`` lacks is unknown: another filter may leave none of its rows.
    """
    if value is None:
        return table
    known = [name for name in pc.unique(everything[column]).to_pylist() if name is not None]
    same = [name for name in known if name.lower() == value.lower()]
    if not same:
        raise UnknownName(kind or column, value, known)
    return table.filter(pc.is_in(table[column], pa.array(same)))
