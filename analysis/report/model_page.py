"""The page of one model: its signature, its numbers site by site, and where they come from."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from analysis.answers.columns import TableColumn
from analysis.answers.neighbours import Neighbours
from analysis.data.provenance import narrowed
from analysis.report.data import ReportMaterial, slug, statement
from analysis.report.elements import Exhibit, PageTable, facts, table
from analysis.text import cell, fixed, missing, percent, whole
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
    TableColumn("site_name", "site"),
    TableColumn("site", "number", whole),
    TableColumn("affinity", "affinity", fixed(4), "in [0, 1], the mean over batches"),
    TableColumn("affinity_se", "error", fixed(4), "standard error of that mean"),
    "activation",
    TableColumn("role", "role", meaning="gate where the output only scales another, else main"),
    TableColumn("repeat", "place in block", whole),
    TableColumn("graph_depth", "depth", whole, "activations on the longest path to here"),
    TableColumn("spatial", "size"),
    TableColumn("channels", "", whole),
    TableColumn("batches", "", whole),
)


def model_page(material: ReportMaterial, run: dict[str, Any]) -> dict[str, Any]:
    """Return what the page of a run shows, by its names in the template.

    Parameters
    ----------
    material : Material
        The report's frames.
    run : dict
        A row of ``material.models``.
    """
    group = material.signatures[material.signatures["run_id"] == run["run_id"]]
    gaps = material.gaps[material.gaps["run_id"] == run["run_id"]]
    return {
        "lead": _lead(run, group),
        "facts": _facts(run),
        "problems": _problems(run, group, gaps),
        "exhibits": _exhibits(group, run),
        "tables": _sites(group, gaps) | _neighbours(material, run),
        "provenance": _provenance(run),
        "sql": statement([run["run_id"]], view="runs"),
    }


def _lead(run: dict[str, Any], group: pd.DataFrame) -> str:
    scores = group["affinity"].dropna()
    if run["status"] != "done":
        return f"This run is {run['status']} and has no signature."
    if scores.empty:
        return f"This run finished, but none of its {len(group)} sites has an affinity score."
    return (
        f"The affinity score goes from {scores.min():.3f} to {scores.max():.3f} over"
        f" {len(scores)} activation sites, with a median of {scores.median():.3f}."
    )


def _facts(run: dict[str, Any]) -> dict[str, str]:
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


def _problems(run: dict[str, Any], group: pd.DataFrame, gaps: pd.DataFrame) -> list[dict[str, str]]:
    result = []
    if run["status"] == "failed":
        result.append({"what": f"Failed ({cell(run['stage'])})", "why": cell(run["error"])})
    if not missing(run["suspicion"]):
        result.append({"what": "Suspect", "why": str(run["suspicion"])})
    unscored = group[group["affinity"].isna()]
    if len(unscored):
        text = gaps["reason"].fillna(gaps["status"]).astype(str)
        reasons = "; ".join(dict.fromkeys(text))
        what = f"{len(unscored)} of {len(group)} sites without a score"
        result.append({"what": what, "why": reasons or "no whole batch was measured"})
    if not missing(run["skipped_images"]) and run["skipped_images"] > 0:
        names = cell(list(run["skipped_names"])[:5])
        result.append({"what": f"{run['skipped_images']} images not decoded", "why": names})
    return result


def _exhibits(group: pd.DataFrame, run: dict[str, Any]) -> list[Exhibit]:
    if group["affinity"].notna().sum() == 0:
        return []
    from analysis.figures.signatures import model_chart

    name = f"signature-{slug(run['model'])}-{slug(run['run_id'])}"
    columns = (*SITE_COLUMNS, *(quantity.name for quantity in _others()))
    sql = statement([run["run_id"]], columns)
    chart = model_chart(narrowed(group, f"model {run['model']}"))
    return [Exhibit(name, chart, group.reindex(columns=columns), sql, "these rows")]


def _sites(group: pd.DataFrame, gaps: pd.DataFrame) -> dict[str, PageTable]:
    """Return the table of a run's sites by its heading; none where there is no site."""
    if group.empty:
        return {}
    why = gaps.groupby("site").agg(
        why=("reason", lambda reasons: "; ".join(dict.fromkeys(map(cell, reasons))))
    )
    others = [TableColumn(each.name, each.title, fixed(3), each.sentence) for each in _others()]
    rows = group.merge(why, on="site", how="left")
    columns: list[str | TableColumn] = [*_SITES, *others, TableColumn("why", "without a score")]
    caption = "Every activation site in the order of execution."
    return {"Site by site": table("sites", caption, rows, columns)}


def _others() -> list[Quantity]:
    """Return the quantities that the page lists beside the affinity."""
    return [quantity for quantity in listed_quantities() if quantity.name != "affinity"]


def _neighbours(material: ReportMaterial, run: dict[str, Any]) -> dict[str, PageTable]:
    answer = Neighbours(material, model=run["run_id"], number=NEIGHBOURS)
    try:
        rows = answer.rows
    except (SettingsError, UnknownName):
        # Too few curves, or none of this run: the page of clusters says so.
        return {}
    caption = f"The {len(rows)} models with the most similar signatures."
    columns = ("other_model", "rank", "other_family", "distance")
    return {"Nearest models": table("neighbours", caption, rows, columns, material.links)}


def _provenance(run: dict[str, Any]) -> dict[str, str]:
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
            cell(run[name]) for name in ("device", "device_name") if not missing(run[name])
        ),
        number_format=run["dtype"],
        versions=", ".join(versions),
        survey_version=run["survey_version"],
        measuring_version=_written(run["measuring_version"], "d"),
        attempt=_written(run["attempt"], "d"),
        finished=None if missing(run["finished_at"]) else f"{cell(run['finished_at'])} UTC",
        seconds=_written(run["seconds"], ".1f"),
    )


def _settings(text: Any) -> str | None:
    if missing(text):
        return None
    values = json.loads(text)
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
