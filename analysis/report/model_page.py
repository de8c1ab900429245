"""The page of one model: its signature, its numbers site by site, and where they come from."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from analysis.data.provenance import provenance_of
from analysis.report.data import Material, runs_sql, sites_sql, slug
from analysis.report.elements import (
    Column,
    Exhibit,
    Fact,
    Table,
    facts,
    fixed,
    missing,
    percent,
    table,
    whole,
    words,
)
from survey.errors import SettingsError, UnknownName
from survey.metrics import listed_quantities
from survey.metrics.base import Quantity

#: Columns of a model's signature in its data and SQL.
SITE_COLUMNS = (
    *("site", "site_name", "activation", "role", "repeat", "graph_depth", "spatial", "channels"),
    *("affinity", "affinity_std", "affinity_se", "batches"),
)

#: How many neighbours a page shows.
NEIGHBOURS = 5

_SITES = (
    Column("site_name", "site"),
    Column("site", "number", whole),
    Column("affinity", "affinity", fixed(4), "affinity score in [0, 1], the mean over batches"),
    Column("affinity_se", "error", fixed(4), "standard error of that mean"),
    Column("activation", "activation"),
    Column("role", "role", meaning="gate where the output only scales another value, else main"),
    Column("repeat", "place in block", whole),
    Column("graph_depth", "depth", whole, "activations on the longest path to here"),
    Column("spatial", "size"),
    Column("channels", "channels", whole),
    Column("batches", "batches", whole),
)


@dataclass(frozen=True, slots=True)
class Titled:
    """A table under a heading of its own."""

    name: str
    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class ModelPage:
    """What the page of a model shows."""

    heading: str
    lead: str
    facts: list[Fact]
    #: What is wrong with the run, as pairs of what and why.
    problems: list[dict[str, str]]
    exhibits: list[Exhibit]
    tables: list[Titled]
    provenance: list[Fact]
    sql: str


def model_page(material: Material, run: dict[str, Any]) -> ModelPage:
    """Return what the page of a run shows.

    Parameters
    ----------
    material : Material
        The report's frames.
    run : dict
        A row of ``material.models``.
    """
    own = material.signatures[material.signatures["run_id"] == run["run_id"]]
    gaps = material.gaps[material.gaps["run_id"] == run["run_id"]]
    return ModelPage(
        heading=run["model"],
        lead=_lead(run, own),
        facts=_facts(run),
        problems=_problems(run, own, gaps),
        exhibits=_exhibits(own, run),
        tables=[*_sites(own, gaps), *_neighbours(material, run)],
        provenance=_provenance(run),
        sql=runs_sql([run["run_id"]]),
    )


def _lead(run: dict[str, Any], own: pd.DataFrame) -> str:
    scores = own["affinity"].dropna()
    if run["status"] != "done":
        return f"This run is {run['status']} and has no signature."
    if scores.empty:
        return f"This run finished, but none of its {len(own)} sites has an affinity score."
    return (
        f"The affinity score goes from {scores.min():.3f} to {scores.max():.3f} over"
        f" {len(scores)} activation sites, with a median of {scores.median():.3f}."
    )


def _facts(run: dict[str, Any]) -> list[Fact]:
    return facts(
        architecture=f"{run['source']}:{run['architecture']}",
        checkpoint=run["checkpoint"],
        dataset=run["dataset"],
        family=run["family"],
        group=run["family_group"],
        year=_written(run["year"], "d"),
        top_1_measured=_written(run["measured_top1"], ".2%"),
        top_1_reported=_reported(run),
        top_1_expected=_expected(run),
        top_5_measured=_written(run["measured_top5"], ".2%"),
        images=_written(run["images"], ",d"),
        activation_sites=_written(run["sites"], "d"),
        layers_deep=_written(run["depth"], "d"),
        parameters=_written(run["parameters"], ",d"),
        GFLOPs=_written(run["gflops"], ".3g"),
    )


def _reported(run: dict[str, Any]) -> str | None:
    if missing(run["reported_top1"]):
        return None
    details = [run["reported_dataset"], run["reported_protocol"]]
    where = ", ".join(str(detail) for detail in details if not missing(detail))
    return percent(run["reported_top1"]) + (f" ({where})" if where else "")


def _expected(run: dict[str, Any]) -> str | None:
    if missing(run["expected_top1"]):
        return None
    source = "" if missing(run["expected_source"]) else f" ({run['expected_source']})"
    return percent(run["expected_top1"]) + source


def _written(value: Any, form: str) -> str | None:
    if missing(value):
        return None
    return format(int(value) if form.endswith("d") else float(value), form)


def _problems(run: dict[str, Any], own: pd.DataFrame, gaps: pd.DataFrame) -> list[dict[str, str]]:
    found = []
    if run["status"] == "failed":
        found.append({"what": f"Failed ({words(run['stage'])})", "why": words(run["error"])})
    if not missing(run["suspicion"]):
        found.append({"what": "Suspect", "why": str(run["suspicion"])})
    unscored = own[own["affinity"].isna()]
    if len(unscored):
        said = gaps["reason"].fillna(gaps["status"]).astype(str)
        reasons = "; ".join(dict.fromkeys(said))
        what = f"{len(unscored)} of {len(own)} sites without a score"
        found.append({"what": what, "why": reasons or "no whole batch was measured"})
    if not missing(run["skipped_images"]) and run["skipped_images"] > 0:
        names = words(list(run["skipped_names"])[:5])
        found.append({"what": f"{run['skipped_images']} images not decoded", "why": names})
    return found


def _exhibits(own: pd.DataFrame, run: dict[str, Any]) -> list[Exhibit]:
    if own["affinity"].notna().sum() == 0:
        return []
    from analysis.figures.signatures import model_chart

    name = f"signature-{slug(run['model'])}-{slug(run['run_id'])}"
    columns = (*SITE_COLUMNS, *(quantity.name for quantity in _others()))
    rows = own.reindex(columns=columns)
    sql = sites_sql([run["run_id"]], columns)
    made_from = provenance_of(own)
    selection = f"{made_from.selection}, model {run['model']}"
    chart = model_chart(own, replace(made_from, selection=selection))
    return [Exhibit(name, chart, rows, sql, "these rows")]


def _sites(own: pd.DataFrame, gaps: pd.DataFrame) -> list[Titled]:
    if own.empty:
        return []
    why = gaps.groupby("site").agg(
        why=("reason", lambda reasons: "; ".join(dict.fromkeys(map(words, reasons))))
    )
    others = [Column(each.name, each.title, fixed(3), each.sentence) for each in _others()]
    rows = own.merge(why, on="site", how="left")
    rows = rows.reindex(
        columns=[*rows, *(each.name for each in _others() if each.name not in rows)]
    )
    columns = (*_SITES, *others, Column("why", "without a score"))
    caption = "Every activation site in the order of execution."
    return [Titled("sites", "Site by site", table("sites", caption, rows, columns))]


def _others() -> list[Quantity]:
    """Return the quantities that the page lists beside the affinity."""
    return [quantity for quantity in listed_quantities() if quantity.name != "affinity"]


def _neighbours(material: Material, run: dict[str, Any]) -> list[Titled]:
    from analysis.similarity.neighbours import neighbours

    try:
        found = neighbours(material.matrix, run["run_id"], number=NEIGHBOURS)
    except (SettingsError, UnknownName):
        # Too few curves, or none of this run: the page of clusters says so.
        return []
    columns = (
        Column("other_model", "model", links=material.pages_by_model),
        Column("rank", "rank", whole),
        Column("other_family", "family"),
        Column("distance", "distance", fixed(3), "DTW between signatures at relative depth"),
    )
    caption = f"The {len(found)} models with the most similar signatures."
    return [Titled("neighbours", "Nearest models", table("neighbours", caption, found, columns))]


def _provenance(run: dict[str, Any]) -> list[Fact]:
    names = ("torch", "torchvision", "numpy", "scipy", "python")
    versions = [
        f"{name} {run[f'{name}_version']}" for name in names if not missing(run[f"{name}_version"])
    ]
    return facts(
        run=run["run_id"],
        job_key=run["job_key"],
        weights_sha256=run["checkpoint_sha256"],
        dataset_fingerprint=run["dataset_fingerprint"],
        settings=_settings(run["settings"]),
        input_transform=_settings(run["transform"]),
        device=" ".join(
            words(run[name]) for name in ("device", "device_name") if not missing(run[name])
        ),
        number_format=run["dtype"],
        versions=", ".join(versions),
        survey_version=run["survey_version"],
        measuring_version=_written(run["measuring_version"], "d"),
        attempt=_written(run["attempt"], "d"),
        finished=None if missing(run["finished_at"]) else f"{words(run['finished_at'])} UTC",
        seconds=_written(run["seconds"], ".1f"),
    )


def _settings(text: Any) -> str | None:
    if missing(text):
        return None
    values = json.loads(text)
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
