"""The metrics of an activation site: built-in ones, a file each, and those of packages.

A package announces a ``Metric`` by an entry point of the group ``model_zoo_survey.metrics``.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from typing import TYPE_CHECKING

from survey.errors import SettingsError, UnknownName
from survey.extensions import BrokenExtension, Extensions, load_extensions
from survey.metrics.base import Metric, NoValue, Quantity
from survey.results import Site, SiteScore
from survey.settings import MeasureSettings

if TYPE_CHECKING:
    from survey.metrics.pair import Pair

#: The files of this folder that declare a metric, in the order of the result's columns.
_FILES = ("affinity", "cka", "difference_norm", "sparsity", "entropy", "r2", "spectrum")

#: The metrics of this package.
METRICS: tuple[Metric, ...] = tuple(
    importlib.import_module(f"survey.metrics.{name}").METRIC for name in _FILES
)

#: Every column that is one of these metrics', in order; the affinity is the first.
QUANTITIES: tuple[Quantity, ...] = tuple(q for metric in METRICS for q in metric.quantities)

#: Names of other columns: of this room's rows, of the store's views and of frames made of them.
RESERVED = {
    *(field.name for row in (Site, SiteScore) for field in dataclasses.fields(row)),
    *(field.name for field in dataclasses.fields(MeasureSettings)),
    *("run_id", "architecture", "source", "family", "checkpoint", "dataset", "run_status", "sites"),
    *("affinity_std", "affinity_se", "affinity_min", "affinity_max", "batches", "without_score"),
    *("model", "family_group", "year", "relative_depth", "measured_top1", "parameters", "why"),
    *("label", "tags"),
}


def all_quantities() -> tuple[Quantity, ...]:
    """Return every quantity that is measured: built-in ones, then those of packages."""
    return (*QUANTITIES, *(q for metric in _installed().loaded for q in metric.quantities))


@functools.cache
def chosen_quantities(names: tuple[str, ...] | None) -> tuple[Quantity, ...]:
    """Return the quantities that settings ask for, by their columns; all for None.

    Raises
    ------
    UnknownName
        If there is no such metric here.
    """
    known = {quantity.name: quantity for quantity in all_quantities()}
    for name in names or ():
        if name not in known:
            raise UnknownName("metric", name, known)
    return tuple(each for name, each in known.items() if names is None or name in names)


def reads_counts(names: tuple[str, ...] | None) -> bool:
    """Return whether metrics read counts of values near zero: sparsity does, a package's may."""
    others = {q.name for metric in METRICS if metric.name != "sparsity" for q in metric.quantities}
    return not {quantity.name for quantity in chosen_quantities(names)} <= others


def with_known_metrics(settings: MeasureSettings) -> MeasureSettings:
    """Return settings whose metrics are all known, and None where they are all there are.

    Raises
    ------
    UnknownName
        If a metric is not known here.
    """
    if settings.metrics is None or chosen_quantities(settings.metrics) != all_quantities():
        return settings
    return dataclasses.replace(settings, metrics=None)


def listed_quantities() -> tuple[Quantity, ...]:
    """Return the quantities that tables for readers list."""
    return tuple(quantity for quantity in all_quantities() if quantity.listed)


@functools.cache
def title_of(name: str) -> str:
    """Return what readers call a column: a quantity's heading, or its name with spaces."""
    titles = {quantity.name: quantity.title for quantity in all_quantities()}
    return titles.get(name, name.replace("_", " "))


def broken() -> tuple[BrokenExtension, ...]:
    """Return the announced metrics that cannot be used, with the reason."""
    return _installed().broken


@functools.cache
def _installed() -> Extensions[Metric]:
    taken = {*RESERVED, *(quantity.name for quantity in QUANTITIES)}

    def accept(announced: object) -> Metric:
        if not isinstance(announced, Metric) or not announced.quantities:
            raise SettingsError(f"{announced!r} is no survey.metrics.base.Metric with quantities")
        names = [quantity.name for quantity in announced.quantities]
        for name in names:
            if name in taken or names.count(name) > 1:
                raise SettingsError(f"its column {name!r} has a name that is taken")
        taken.update(names)
        return dataclasses.replace(
            announced, quantities=tuple(map(_shielded, announced.quantities))
        )

    return load_extensions("metric", accept)


def _shielded(quantity: Quantity) -> Quantity:
    """Return the quantity with errors as missing values, so that none of them ends a run."""

    def compute(pair: Pair) -> float | NoValue:
        try:
            result = quantity.compute(pair)
            return result if isinstance(result, NoValue) else float(result)
        except Exception as error:  # noqa: BLE001 - anything may go wrong in another's package
            return NoValue(f"{type(error).__name__}: {error}")

    return dataclasses.replace(quantity, compute=compute)
