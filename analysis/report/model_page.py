"""The pages of models: signature, numbers site by site, and provenance."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import pandas as pd

from analysis.answers.columns import Table, TableColumn, columns_of
from analysis.answers.neighbours import NearestNeighbours
from analysis.answers.network_measures import OF_A_RUN
from analysis.data.provenance import narrowed
from analysis.report.data import ReportMaterial, libraries, slug, statement
from analysis.report.elements import Exhibit, Link, Page, PageTable, facts, page_table, table_of
from analysis.text import cell, fixed, missing, percent, whole
from survey.errors import SettingsError, UnknownName
from survey.few_images import enough_images
from survey.metrics import listed_quantities
from survey.metrics.base import Quantity
from survey.network_measures.base import conventions
from survey.results import FLAGS, LEFT_OUT
from survey.text import counted

#: Columns of a model's signature in its data and SQL.
SITE_COLUMNS = (
    *("site", "site_name", "activation", "role", "repeat", "graph_depth", "spatial", "channels"),
    *("affinity", "affinity_std", "affinity_se", "batches"),
)

#: A row of a table or frame.
Row = Mapping[Any, Any]

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


def model_pages(material: ReportMaterial) -> Iterator[Page]:
    """Yield the page of each run, with links to those before and after it."""
    runs: list[dict[Any, Any]] = material.models.to_dict("records")
    links = [Link(run["model"], material.pages[run["run_id"]]) for run in runs]
    signatures, *others = map(
        _ByRun, (material.every_signature, material.gaps, material.measures, _nearest(material))
    )
    around = zip(runs, [None, *links], links, [*links[1:], None], strict=False)
    for run, before, here, after in material.watch("pages of models", list(around)):
        group = signatures.of(run)
        gaps, measures, near = (rows.of(run) for rows in others)
        parts = (rows.to_dict("records") for rows in (group, gaps, measures))
        values = model_values(run, *parts) | {"before": before, "after": after}
        values["tables"] |= _nearest_table(material, near)
        yield Page(here, "model.html", values, signature_exhibits(group, run))


class _ByRun:
    """The rows of a frame by their run."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._places = frame.groupby("run_id", sort=False).indices

    def of(self, run: Row) -> pd.DataFrame:
        """Return the rows of a run, in the order of the frame."""
        return self._frame.iloc[self._places.get(run["run_id"], [])]


def model_values(
    run: Row, sites: Sequence[Row], gaps: Sequence[Row], measures: Sequence[Row]
) -> dict[str, Any]:
    """Return what the page of a run states.

    Parameters
    ----------
    run : mapping
        Its row of ``ReportMaterial.models``.
    sites, gaps, measures : sequence of mapping
        Its rows of ``ReportMaterial.every_signature``, of ``ReportMaterial.gaps`` and of
        ``ReportMaterial.measures``.
    """
    return {
        "lead": _lead(run, sites),
        "facts": _facts(run),
        "problems": _problems(run, sites, gaps),
        "tables": _measures(measures) | _sites(sites, gaps),
        "provenance": _provenance(run),
        "sql": statement([run["run_id"]], view="runs"),
    }


def _lead(run: Row, sites: Sequence[Row]) -> str:
    scores = [site["affinity"] for site in sites if not missing(site["affinity"])]
    if run["status"] != "done":
        return f"This run is {run['status']} and has no signature."
    if not scores:
        return f"This run finished, but none of its {len(sites)} sites has a score that counts."
    return (
        f"The affinity score goes from {min(scores):.3f} to {max(scores):.3f} over"
        f" {len(scores)} activation sites, with a median of {median(scores):.3f}."
    )


def _facts(run: Row) -> dict[str, str]:
    return facts(
        architecture=f"{run['source']}:{run['architecture']}",
        checkpoint=run["checkpoint"],
        dataset=run["dataset"],
        family=run["family"],
        group=run["family_group"],
        year=run["year"],
        top_1_measured=percent(run["measured_top1"]),
        top_1_reported=_accuracy(run, "reported_top1", "reported_dataset", "reported_protocol"),
        top_1_expected=_accuracy(run, "expected_top1", "expected_source"),
        top_5_measured=percent(run["measured_top5"]),
        images=whole(run["images"]),
        activation_sites=whole(run["sites"]),
        layers_deep=whole(run["depth"]),
        parameters=whole(run["parameters"]),
        GFLOPs=run["gflops"],
    )


def _accuracy(run: Row, name: str, *details: str) -> str:
    """Return an accuracy with the known ones of its details in brackets."""
    known = ", ".join(str(run[each]) for each in details if not missing(run[each]))
    return percent(run[name]) + (f" ({known})" if known and not missing(run[name]) else "")


def _problems(run: Row, sites: Sequence[Row], gaps: Sequence[Row]) -> dict[str, str]:
    """Return the reasons of the run's problems, by what they are."""
    problems = {}
    if run["status"] == "failed":
        problems[f"Failed ({cell(run['stage'])})"] = cell(run["error"])
    if not missing(run["suspicion"]):
        problems["Suspect"] = str(run["suspicion"])
    unscored = [site for site in sites if missing(site["affinity"])]
    if out := sum(not LEFT_OUT.isdisjoint(site["flags"]) for site in unscored):
        what = f"{out} of {len(sites)} sites left out"
        problems[what] = "; ".join(FLAGS[flag] for flag in sorted(LEFT_OUT))
    if without := len(unscored) - out:
        text = (gap["status" if missing(gap["reason"]) else "reason"] for gap in gaps)
        reasons = "; ".join(dict.fromkeys(map(str, text)))
        what = f"{without} of {len(sites)} sites without a score"
        problems[what] = reasons or "no whole batch was measured"
    if few := [site["channels"] for site in sites if "few_images" in site["flags"]]:
        problems[f"few_images at {len(few)} of {len(sites)} sites"] = (
            f"{FLAGS['few_images']}; {enough_images(int(max(few)))} images a score would do"
        )
    if not missing(run["skipped_images"]) and run["skipped_images"] > 0:
        names = cell(list(run["skipped_names"])[:5])
        problems[f"{run['skipped_images']} images not decoded"] = names
    return problems


def signature_exhibits(group: pd.DataFrame, run: dict[str, Any]) -> tuple[Exhibit, ...]:
    """Return the figure of a run's signature; none where no site has a score."""
    if group["affinity"].notna().sum() == 0:
        return ()
    from analysis.figures.signatures import model_chart

    name = signature_name(run)
    columns = (*SITE_COLUMNS, *(quantity.name for quantity in _others()))
    sql = statement([run["run_id"]], columns)
    chart = partial(model_chart, narrowed(group, f"model {run['model']}"))
    return (Exhibit(name, chart, partial(group.reindex, columns=columns), sql, "these rows"),)


def signature_name(run: Row) -> str:
    """Return the stem of the files of the figure of a run's signature."""
    return f"signature-{slug(run['model'])}-{slug(run['run_id'])}"


def _measures(measures: Sequence[Row]) -> dict[str, PageTable]:
    """Return the table of a run's measures by its heading; none where it has none."""
    if not measures:
        return {}
    columns = columns_of(OF_A_RUN)
    rows = [{**each, "conventions": "; ".join(conventions(each["details"]))} for each in measures]
    values = {each.name: [row[each.name] for row in rows] for each in columns}
    caption = "Measures of the network as a whole, or why there is none."
    return {"Whole network": table_of("measures", caption, columns, values)}


def _sites(sites: Sequence[Row], gaps: Sequence[Row]) -> dict[str, PageTable]:
    """Return the table of a run's sites by its heading; none where there is no site."""
    if not sites:
        return {}
    reasons: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for gap in gaps:
        reasons[gap["site"]][cell(gap["reason"])] = None
    borne = {flag for site in sites for flag in site["flags"]}
    meaning = ", ".join(f"{flag} ({text})" for flag, text in FLAGS.items() if flag in borne)
    flags = TableColumn("flags", "", _on_one_line, meaning)
    others = [TableColumn(each.name, each.title, fixed(3), each.sentence) for each in _others()]
    columns = (*columns_of(_SITES), flags, *others, TableColumn("why", "without a score"))
    values: dict[str, list[Any]] = {
        each.name: [site.get(each.name) for site in sites] for each in columns
    }
    values["flags"] = [tuple(each) for each in values["flags"]]
    values["why"] = ["; ".join(reasons.get(site["site"], ())) for site in sites]
    caption = "Every activation site in the order of execution."
    return {"Site by site": table_of("sites", caption, columns, values)}


def _on_one_line(flags: Sequence[str]) -> str:
    return cell(flags).replace(" ", "\N{NO-BREAK SPACE}")


def _others() -> list[Quantity]:
    """Return the quantities that the page lists beside the affinity."""
    return [quantity for quantity in listed_quantities() if quantity.name != "affinity"]


def nearest_models(material: ReportMaterial, run: Row) -> dict[str, PageTable]:
    """Return the table of the models nearest to a run by its heading; none without any."""
    return _nearest_table(material, _nearest(material, run["run_id"]))


def _nearest(material: ReportMaterial, run_id: str | None = None) -> pd.DataFrame:
    """Return the models nearest to a run, or to each."""
    try:
        return NearestNeighbours(material, model=run_id, number=NEIGHBOURS).rows
    except (SettingsError, UnknownName):
        # There is no other signature, or none of this run.
        return pd.DataFrame({"run_id": []})


def _nearest_table(material: ReportMaterial, rows: pd.DataFrame) -> dict[str, PageTable]:
    if rows.empty:
        return {}
    caption = f"The {counted(len(rows), 'model')} with the most similar signatures."
    columns = ("other_model", "rank", "other_family", "distance")
    table = Table("neighbours", caption, rows, columns)
    return {"Nearest models": page_table(table, material.links)}


def _provenance(run: Row) -> dict[str, str]:
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
        versions=libraries(run),
        survey_version=run["survey_version"],
        measuring_version=run["measuring_version"],
        attempt=run["attempt"],
        finished=None if missing(run["finished_at"]) else f"{cell(run['finished_at'])} UTC",
        seconds=fixed(1)(run["seconds"]),
    )


def _settings(text: Any) -> str | None:
    if missing(text):
        return None
    values = json.loads(text)
    return ", ".join(f"{name} {value}" for name, value in values.items() if value is not None)
