"""The pages of a report about the whole: overview, what is missing, and provenance."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.answers.base import CURVE
from analysis.answers.columns import TableColumn
from analysis.data.conditions import mixed
from analysis.report.data import ReportMaterial, statement
from analysis.report.elements import Exhibit, PageTable, Section, facts, table
from analysis.text import cell, fixed, missing, percent, whole
from survey.text import counted

#: Columns of ``runs`` that say how a run was measured, and their headings.
_HOW = {
    "dataset": "dataset",
    "pooling": "pooling",
    "images_per_score": "images a score",
    "shrinkage": "shrinkage",
    "ridge": "ridge",
    "order_seed": "order seed",
    "dtype": "numbers",
    "device": "device",
    "device_name": "device's model",
    "measuring_version": "measuring",
    "survey_version": "survey",
}

#: What it was measured with, in one column: each of its own would leave the paper.
_WITH = ("python", "torch", "torchvision", "numpy", "scipy")


_FAILED = (
    "dataset",
    TableColumn("stage", meaning="what was being done when it failed"),
    TableColumn("error", "reason"),
)

_SUSPECT = (
    TableColumn("measured_top1", "measured top-1", percent),
    TableColumn("expected_top1", "expected top-1", percent),
    TableColumn("suspicion", "suspect because"),
)

_GAPS = (
    TableColumn("site_name", "site"),
    TableColumn("site", "number", whole),
    "status",
    TableColumn("batches", "", whole, "batches of images without a score at this site"),
    "reason",
)

#: Models up to which the overview draws every signature.
MOST_SIGNATURES = 60

_TRACING = (
    "The hash is the first 12 digits of the sha256 over the sorted run ids, one a line:"
    " two reports with the same hash were made from the same runs. SQL beside each figure"
    " is for `survey sql` on the home that holds the runs."
)


def lead(material: ReportMaterial) -> str:
    """Return what was surveyed, in a sentence or two."""
    done, scored = material.done, len(material.scored)
    sites = int(material.signatures["affinity"].notna().sum())
    kinds = {name: done[name].dropna().nunique() for name in ("family", "dataset")}
    models = len(done[["source", "architecture", "checkpoint"]].drop_duplicates())
    runs = f" ({counted(len(done), 'run')})" if len(done) != models else ""
    text = (
        f"{counted(models, 'model')} of {counted(kinds['family'], 'family', 'families')}"
        f" measured on {counted(kinds['dataset'], 'dataset')}{runs}: {sites:,} activation sites"
        f" have an affinity score, which is 1 where an activation acts as an affine map on its"
        f" inputs and smaller the less it does."
    )
    lacking = len(done) - scored
    others = [f"{counted(len(material.failed), 'run')} failed"] if len(material.failed) else []
    others += [f"{lacking} finished without any score"] if lacking else []
    return text + (f" {' and '.join(others)}." if others else "")


def overview_facts(material: ReportMaterial) -> dict[str, str]:
    """Return the survey in numbers."""
    done, models = material.done, material.models
    measured = done["finished_at"].dropna()
    return facts(
        selection=material.selection.describe(),
        runs=whole(len(models)),
        architectures=whole(models["architecture"].nunique()),
        families=whole(models["family"].nunique()),
        datasets=", ".join(sorted(models["dataset"].dropna().unique())),
        activation_sites=whole(len(material.signatures)),
        images_measured_over_all_runs=whole(done["images"].sum()),
        measured_between=(
            f"{measured.min():%Y-%m-%d} and {measured.max():%Y-%m-%d}" if len(measured) else None
        ),
        failed_runs=whole(len(material.failed)),
        beware=mixed(material.provenance.conditions),
    )


def overview_exhibits(material: ReportMaterial) -> list[Exhibit]:
    """Return the figure of signatures, a panel a family: all, or some that stand for them."""
    if not material.scored:
        return []
    from analysis.figures.signatures import signature_chart, signature_lines

    rows = material.signatures[material.signatures["run_id"].isin(material.scored)]
    lines = signature_lines(rows, MOST_SIGNATURES)
    sql = statement(lines["run_id"].unique(), CURVE)
    chart = signature_chart(rows, most=MOST_SIGNATURES)
    return [Exhibit("signatures", chart, lines, sql, "the measured rows")]


def models_table(material: ReportMaterial) -> PageTable:
    """Return every run in a line that leads to its page."""
    scores = material.signatures.groupby("run_id")["affinity"]
    result = scores.agg(lowest="min", median="median", highest="max", scored="count")
    rows = material.models.merge(result, on="run_id", how="left")
    columns = (
        "model",
        "family",
        "dataset",
        "status",
        TableColumn("measured_top1", "top-1", percent, "fraction right over every image measured"),
        TableColumn(
            "reported_top1", "reported", percent, "top-1 that the weights were published with"
        ),
        "sites",
        TableColumn("scored", "", whole, "sites with an affinity score"),
        "lowest",
        "median",
        "highest",
        "year",
        TableColumn("parameters", "", whole),
        TableColumn("suspicion", "suspect because"),
    )
    caption = "Every model of the selection; a heading sorts, a name leads to the model's page."
    return table("models", caption, rows, columns, material.links)


def missing_sentence(material: ReportMaterial) -> str:
    """Return how much is missing, in a sentence."""
    sites = material.gaps.drop_duplicates(["run_id", "site"])
    parts = []
    if failed := len(material.failed):
        parts.append(f"{counted(failed, 'run')} failed")
    if len(sites):
        runs = counted(sites["run_id"].nunique(), "run")
        verb = "has" if len(sites) == 1 else "have"
        parts.append(f"{counted(len(sites), 'site')} of {runs} {verb} batches without a score")
    unfinished = material.models[~material.models["status"].isin(["done", "failed"])]
    if len(unfinished):
        parts.append(f"{counted(len(unfinished), 'run')} without an end")
    suspect = int(material.models["suspicion"].notna().sum())
    if suspect:
        parts.append(f"{counted(suspect, 'run')} with an accuracy that was not expected")
    return f"{'; '.join(parts)}." if parts else "Nothing failed, and every site has its score."


def missing_page(material: ReportMaterial) -> Section | None:
    """Return the page of what failed and of sites without a score; None where all is well."""
    failed, gaps = material.failed, material.gaps
    suspect = material.models[material.models["suspicion"].notna()]
    kinds = (
        ("failed", "Runs that failed.", failed, _FAILED),
        ("suspect", "Runs whose accuracy is suspect.", suspect, _SUSPECT),
        ("gaps", "Sites and batches without a score.", gaps, _GAPS),
    )
    tables = [
        table(name, caption, rows, ("model", *columns), material.links)
        for name, caption, rows, columns in kinds
        if len(rows)
    ]
    if not tables:
        return None
    sentence = missing_sentence(material)
    return Section(sentence, "missing", "Missing", tables=tuple(tables))


def provenance_page(material: ReportMaterial) -> Section:
    """Return the page of versions, settings, devices and hashes."""
    return Section(
        f"Everything in this report was made from {material.provenance.caption()}.",
        "provenance",
        "Provenance",
        paragraphs=(_TRACING,),
        tables=(_settings_table(material), _runs_table(material)),
    )


def _settings_table(material: ReportMaterial) -> PageTable:
    models = material.models.assign(libraries=_libraries(material.models))
    names = [*(name for name in _HOW if name in models), "libraries"]
    shown = models[names].astype(object).map(lambda value: None if missing(value) else value)
    groups = shown.groupby(names, dropna=False, sort=False).size().rename("runs").reset_index()
    columns = [TableColumn(name, _HOW.get(name, name), _plain) for name in names]
    columns.append(TableColumn("runs", "", whole))
    caption = "How runs were measured, with what and on what; runs that agree in all of it."
    return table("settings", caption, groups, columns)


def _libraries(models: pd.DataFrame) -> list[str]:
    """Return what each run was measured with, in words; empty where nobody knows."""
    versions = models[[f"{name}_version" for name in _WITH]].set_axis(_WITH, axis="columns")
    return [
        ", ".join(f"{name} {version}" for name, version in row.items() if not missing(version))
        for row in versions.to_dict("records")
    ]


def _plain(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else cell(value)


def _runs_table(material: ReportMaterial) -> PageTable:
    columns = (
        TableColumn("run_id", "run"),
        "model",
        "checkpoint",
        TableColumn("checkpoint_sha256", "sha256 of the weights", _short),
        TableColumn("dataset_fingerprint", "fingerprint of the dataset", _short),
        TableColumn("job_key", "job", _short),
        TableColumn("finished_at", "finished (UTC)"),
        TableColumn("seconds", "", fixed(1)),
    )
    caption = "Every run; hashes by their first 12 digits, in full on the model's page."
    return table("runs", caption, material.models, columns, material.links)


def _short(value: Any) -> str:
    return str(value)[:12]
