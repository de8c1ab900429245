"""Pages about a few runs: a run, its signature, those nearest to it, and a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.data.few_runs import OneRun
from analysis.data.provenance import provenance_of_run
from analysis.data.selection import Selection
from analysis.report.architecture_runs import architecture_exhibits, architecture_table
from analysis.report.comparison_page import comparison_page
from analysis.report.elements import Link, Page
from analysis.report.model_page import (
    model_values,
    nearest_models,
    signature_exhibits,
    signature_name,
)
from jobs.operations.bare_material import NAMING_FILES
from jobs.operations.server_paths import without_folders
from jobs.service.pages import site
from jobs.service.pages.asked import Asked
from jobs.service.pages.material import ServiceMaterial
from jobs.service.pages.selections import query_of
from jobs.service.pages.site import Addresses, rendered


def model_html(one: OneRun, selection: Selection) -> str:
    """Return the page of a run, which fetches its figure and the nearest models itself."""
    files = {name: without_folders(one.row[name]) for name in NAMING_FILES}
    run = {**one.row, **files}
    here = _page_of(run)
    has_scores = any(site["affinity"] is not None for site in one.sites)
    return rendered(
        "live_model.html",
        here,
        Addresses(here.address, query_of(selection)),
        **model_values(run, one.sites, one.gaps, one.measures),
        before=None,
        after=None,
        figure=signature_name(run) if has_scores else "",
        caption=provenance_of_run(run).caption(),
    )


def signature(material: ServiceMaterial, _asked: Asked) -> Page:
    """Return the drawing of a run's signature, which its page fetches."""
    run, here = _run_of(material)
    exhibits = signature_exhibits(material.every_signature, run)
    return Page(here, "signature.html", {}, exhibits)


def runs(material: ServiceMaterial, _asked: Asked) -> Page:
    """Return the page of every run of a run's architecture."""
    run, here = _run_of(material)
    values = {"model": here, "tables": {"Every run": architecture_table(material)}}
    exhibits = architecture_exhibits(material, run)
    return Page(Link(here.title, f"{here.address}/runs"), "runs.html", values, exhibits)


def nearest(material: ServiceMaterial, _asked: Asked) -> Page:
    """Return the models whose signatures are nearest to a run's."""
    run, here = _run_of(material)
    return Page(here, "nearest.html", {"tables": nearest_models(material, run)})


def comparison(material: ServiceMaterial, asked: Asked) -> Page:
    """Return the page that compares a few runs."""
    if not asked.runs:
        return Page(site.COMPARE, "comparison.html", {"runs": ()})
    return comparison_page(material, site.COMPARE, asked.runs, asked.name)


def _page_of(run: Mapping[Any, Any]) -> Link:
    return Link(run["model"], f"models/{run['run_id']}")


def _run_of(material: ServiceMaterial) -> tuple[dict[Any, Any], Link]:
    run = material.models.iloc[0].to_dict()
    return run, _page_of(run)
