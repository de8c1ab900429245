"""The lines above the table of ``survey show``: a run's model, settings, accuracy and device."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from catalog.home import Home
from catalog.store.queries import batch_affinities, run_measures
from catalog.store.reader import query
from catalog.store.records import RunRecord, details_of
from survey.network_measures import NETWORK_QUANTITIES
from survey.network_measures.base import conventions
from survey.stopping import mean_interval
from survey.text import counted, format_duration

if TYPE_CHECKING:
    import pyarrow as pa


def headline(home: Home, run: RunRecord) -> list[str]:
    """Return a run's model, settings, accuracy, device and measures in a few lines.

    Parameters
    ----------
    home : Home
        Where its scores lie.
    run : RunRecord
        The run.
    """
    model = f"{run.source}:{run.architecture} with {run.checkpoint} on {run.dataset}"
    settings = f"{run.shrinkage} shrinkage, {run.ridge} ridge, {run.pooling} pooling"
    weights = f"weights sha256 {(run.checkpoint_sha256 or '')[:16]}, torch {run.torch_version}"
    lines = [
        f"run {run.run_id}: {model}, {run.status}",
        f"{counted(run.images or 0, 'image')} in batches of {run.images_per_score}, {settings}",
        _accuracy_line(home, run),
        f"{weights} on {run.device_name}, {format_duration(run.seconds or 0)}",
    ]
    if run.reported_top1 is not None:
        reported = f"{_percent(run.reported_top1)} ({run.reported_protocol})"
        lines.append(f"reported for its weights: top-1 {reported} on {run.reported_dataset}")
    if metrics := json.loads(run.settings or "{}").get("metrics"):
        lines.append(f"metrics: {', '.join(metrics)}; the others were not asked for")
    if (precision := precision_line(home, run)) is not None:
        lines.append(precision)
    lines += map(_measure_line, run_measures(home, run.run_id).to_pylist())
    if run.suspicion:
        lines.append(f"suspect: {run.suspicion}")
    if run.skipped_images:
        skipped = counted(run.skipped_images, "image")
        lines.append(f"{skipped} skipped: {'; '.join(run.skipped_names)}")
    if run.status == "failed":
        lines.append(f"failed at {run.stage}: {run.error}")
    return lines


def _measure_line(row: Mapping[str, Any]) -> str:
    title = row["measure"].replace("_", " ")
    if row["value"] is None:
        return f"{title}: none, {row['reason']}"
    error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.2g}"
    unit = {each.name: each.unit for each in NETWORK_QUANTITIES}.get(row["measure"], "1")
    counts = "" if unit == "1" else f" {unit}"
    resting = "; ".join(conventions(details_of(row["details"])))
    return f"{title}: {row['value']:.5g}{error}{counts}{f' ({resting})' if resting else ''}"


def metric_columns(sites: pa.Table) -> tuple[list[str], pa.Table]:
    """Return which columns tables for readers list of the metrics, and a table that has them all.

    Parameters
    ----------
    sites : pyarrow.Table
        What ``run_sites`` gave, to which empty columns of metrics that it lacks are added.
    """
    import pyarrow as pa

    from survey.metrics import listed_quantities

    names = [quantity.name for quantity in listed_quantities()]
    for name in names:
        if name not in sites.column_names:
            sites = sites.append_column(name, pa.nulls(sites.num_rows, pa.float64()))
    return ["site", "site_name", *names], sites


def precision_line(home: Home, run: RunRecord) -> str | None:
    """Return the precision a run was to reach and did reach; None where it had none to reach.

    Parameters
    ----------
    home : Home
        Where its scores lie.
    run : RunRecord
        The run.
    """
    if run.precision is None:
        return None
    wanted = f"a standard error of {run.precision:g} was wanted at every site"
    if run.reached_precision is None:
        if (run.batches or 0) > 1:
            return f"{wanted}; a site with a score in one batch alone has none"
        return f"{wanted}; {counted(run.batches or 0, 'batch', 'batches')} cannot tell any"
    if run.status == "done" and not reached(run):
        wanted += "; all"
    else:
        wanted += ";"
    return (
        f"{wanted} {run.images} images gave {run.reached_precision:.2g}, so that the 95 % interval"
        f" of each site's mean is within {_reach(home, run):.2g} of it ({run.batches} batches)"
    )


def reached(run: RunRecord) -> bool:
    """Return whether a run reached its precision, with the least number of batches."""
    if run.precision is None:
        return True
    enough = (run.batches or 0) >= (run.least_batches or 2)
    got = run.reached_precision
    return enough and got is not None and got <= run.precision


def _reach(home: Home, run: RunRecord) -> float:
    """Return how far the interval of any site's mean reaches from it."""
    sites: defaultdict[int, list[float]] = defaultdict(list)
    for row in batch_affinities(home, [run.run_id]).to_pylist():
        if row["affinity"] is not None:
            sites[row["site"]].append(row["affinity"])
    furthest = 0.0
    for scores in sites.values():
        low, high = mean_interval(scores)
        mean = sum(scores) / len(scores)
        furthest = max(furthest, mean - low, high - mean)
    return furthest


def _accuracy_line(home: Home, run: RunRecord) -> str:
    """Return a run's accuracy, or how many labels there are to count it by."""
    if run.measured_top1 is not None:
        return f"top-1 {_percent(run.measured_top1)}, top-5 {_percent(run.measured_top5)}"
    sql = "SELECT coalesce(sum(labelled), 0) AS labelled FROM batches WHERE run_id = $id"
    (row,) = query(home, sql, {"id": run.run_id}).to_pylist()
    of_all = f"{row['labelled']} of {counted(run.images or 0, 'image')}"
    return f"top-1 unknown: {of_all} with a label that fits the network's outputs"


def _percent(fraction: float | None) -> str:
    return "unknown" if fraction is None else f"{100 * fraction:.2f} %"
