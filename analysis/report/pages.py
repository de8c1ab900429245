"""The pages of a report about all of its runs: overview, what is missing, and provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from analysis.answers.base import CURVE
from analysis.answers.columns import Table, TableColumn
from analysis.data.provenance import banner
from analysis.data.random_weights import trained
from analysis.report.data import ReportMaterial, libraries, statement
from analysis.report.elements import Exhibit, Link, Page, PageTable, Section, facts, page_table
from analysis.text import cell, fixed, missing, percent, whole
from survey.text import counted

#: Columns of ``runs`` that hold how a run was measured, and the headings of some.
_SETTINGS = (
    *("dataset", "pooling", "images_per_score", "shrinkage", "ridge", "order_seed", "dtype"),
    *("device", "device_name", "measuring_version", "survey_version"),
)
_HEADINGS = {
    "images_per_score": "images a score",
    "dtype": "numbers",
    "device_name": "device's model",
    "measuring_version": "measuring",
    "survey_version": "survey",
}

_FAILED = (
    "dataset",
    TableColumn("stage", meaning="the step that failed"),
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


def overview_page(
    material: ReportMaterial, title: str, sections: Sequence[Section], missing: Section
) -> Page:
    """Return the first page: the survey in numbers, the findings, every model, what is missing.

    Parameters
    ----------
    material : ReportMaterial
        The report's frames.
    title : str
        The report's title.
    sections : sequence of Section
        The sections about questions.
    missing : Section
        From ``missing_section``.
    """
    values = {
        "banner": banner(material.provenance.mixed),
        "lead": survey_lead(material),
        "facts": survey_facts(material),
        "sections": [section for section in sections if section.present],
        "absent": [section for section in sections if not section.present],
        "models": _models_table(material),
        "missing": missing,
    }
    return Page(Link(title, "index.html"), "index.html", values, tuple(overview_exhibits(material)))


def survey_lead(material: ReportMaterial) -> str:
    """Return what was surveyed, in a sentence or two."""
    done, every = material.done, material.every_signature
    scores = every[every["affinity"].notna()]
    sites, scored = len(scores), scores["run_id"].nunique()
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
    text += f" {' and '.join(others)}." if others else ""
    random = int((~trained(done["checkpoint"])).sum())
    if random and not material.selection.takes_untrained:
        text += (
            f" Families and trends leave out {counted(random, 'run')} of random weights (init:...);"
            " the training page and the pages of models show them."
        )
    return text


def survey_facts(material: ReportMaterial) -> dict[str, str]:
    """Return the survey in numbers."""
    done, models = material.done, material.models
    moments = done["finished_at"].dropna()
    ends = (moments.min(), moments.max()) if len(moments) else ()
    days = sorted({f"{each:%Y-%m-%d}" for each in ends})
    return facts(
        selection=material.selection.describe(),
        runs=whole(len(models)),
        architectures=whole(len(models[["source", "architecture"]].drop_duplicates())),
        families=whole(models["family"].nunique()),
        datasets=", ".join(sorted(models["dataset_name"].dropna().unique())),
        activation_sites=whole(len(material.every_signature)),
        images_measured_over_all_runs=whole(done["images"].sum()),
        measured_on=days[0] if len(days) == 1 else None,
        measured_between=f"{days[0]} and {days[-1]}" if len(days) > 1 else None,
        failed_runs=whole(len(material.failed)),
        flagged_sites=" ".join(material.of_every_run.made_from.notes()) or None,
    )


def overview_exhibits(material: ReportMaterial) -> list[Exhibit]:
    """Return the figure of signatures, a panel a family: all, or representatives of many."""
    if not material.scored:
        return []
    from analysis.figures.signatures import signature_chart, signature_lines

    rows = material.signatures[material.signatures["run_id"].isin(material.scored)]
    lines = signature_lines(rows, MOST_SIGNATURES)
    sql = statement(lines["run_id"].unique(), CURVE)
    chart = partial(signature_chart, rows, MOST_SIGNATURES, material.colours())
    return [Exhibit("signatures", chart, lines.copy, sql, "the measured rows")]


def _models_table(material: ReportMaterial) -> PageTable:
    """Return a row a run, with a link to its page."""
    scores = material.every_signature.groupby("run_id")["affinity"]
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
    caption = "Every model of the selection; a heading sorts, a name links to the model's page."
    return page_table(Table("models", caption, rows, columns), material.links)


def _missing_sentence(material: ReportMaterial) -> str:
    """Return how much is missing, in a sentence."""
    sites = material.gaps.drop_duplicates(["run_id", "site"])
    parts = []
    if failed := len(material.failed):
        parts.append(f"{counted(failed, 'run')} failed")
    if len(sites):
        runs = counted(sites["run_id"].nunique(), "run")
        verb = "has" if len(sites) == 1 else "have"
        parts.append(f"{counted(len(sites), 'site')} of {runs} {verb} batches without a score")
    states = Counter(material.models["status"])
    if running := states["running"]:
        parts.append(f"{counted(running, 'run')} interrupted or under way")
    if cancelled := states["cancelled"]:
        parts.append(f"{counted(cancelled, 'run')} cancelled")
    suspect = int(material.models["suspicion"].notna().sum())
    if suspect:
        parts.append(f"{counted(suspect, 'run')} with an accuracy that was not expected")
    return f"{'; '.join(parts)}." if parts else "Nothing failed, and every site has its score."


def missing_section(material: ReportMaterial) -> Section:
    """Return the page of runs that failed and of sites without a score; absent without any."""
    suspect = material.models[material.models["suspicion"].notna()]
    tables = (
        Table("failed", "Runs that failed.", material.failed, ("model", *_FAILED)),
        Table("suspect", "Runs whose accuracy is suspect.", suspect, ("model", *_SUSPECT)),
        Table("gaps", "Sites and batches without a score.", material.gaps, ("model", *_GAPS)),
    )
    shown = tuple(material.table(each) for each in tables if len(each.rows))
    sentence = _missing_sentence(material)
    return Section(sentence, "missing", "Missing", present=bool(shown), tables=shown)


def provenance_section(material: ReportMaterial) -> Section:
    """Return the page of versions, settings, devices and hashes."""
    return Section(
        f"Everything in this report was made from {material.provenance.caption()}.",
        "provenance",
        "Provenance",
        paragraphs=(_TRACING,),
        tables=(_settings_table(material), _runs_table(material)),
    )


def _settings_table(material: ReportMaterial) -> PageTable:
    # In one column: a printed page has no room for one each.
    versions = [libraries(run) for run in material.models.to_dict("records")]
    models = material.models.assign(libraries=versions)
    names = [*_SETTINGS, "libraries"]
    shown = models[names].astype(object).map(lambda value: None if missing(value) else value)
    groups = shown.groupby(names, dropna=False, sort=False).size().rename("runs").reset_index()
    columns = [TableColumn(name, _HEADINGS.get(name, ""), _plain) for name in names]
    caption = "Settings, devices and versions, and the number of runs that have all of them."
    return page_table(
        Table("settings", caption, groups, (*columns, TableColumn("runs", "", whole)))
    )


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
    return material.table(Table("runs", caption, material.models, columns))


def _short(value: Any) -> str:
    return str(value)[:12]
