"""Pages of answers, as HTML and files, from the code that makes a report's pages.

It runs in other processes (``jobs.service.renderer``): what it computes keeps no request waiting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

from analysis.answers import ANSWERS, Answer
from analysis.answers.columns import Table
from analysis.data.few_runs import OneRun, RunRows
from analysis.data.provenance import banner, provenance_of_run
from analysis.data.selection import Selection
from analysis.report.architecture_runs import architecture_exhibits, architecture_table
from analysis.report.comparison_page import comparison_page
from analysis.report.elements import Exhibit, Link, Page, PageTable, Section
from analysis.report.inline_svg import drawn, write_data
from analysis.report.model_page import (
    model_values,
    nearest_models,
    signature_exhibits,
    signature_name,
)
from analysis.report.pages import missing_section, provenance_section, survey_facts, survey_lead
from analysis.report.sections import PAGES, section, section_of
from analysis.text import spaced, whole
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.registry.rows import EventRow
from jobs.operations.bare_material import NAMING_FILES, BareMaterial, bare
from jobs.operations.server_paths import without_folders
from jobs.service.kept_material import kept_material
from jobs.service.pages.options import Given, option_form, option_values
from jobs.service.pages.selections import query_of
from jobs.service.pages.site import NAVIGATION, Addresses, rendered
from survey.errors import SettingsError, UnknownName
from survey.settings import MEASURING_VERSION

#: Letters of drawings in a page about all runs, and in one about a few, whose marks show values:
#: with tables, a page is to have less than 300 kB.
_ROOM, _ROOM_OF_FEW = 100_000, 250_000

#: Events that the overview lists.
EVENTS_SHOWN = 10

#: Sections of a report that answer no question.
_OTHERS = {"missing": missing_section, "provenance": provenance_section}


@dataclass(frozen=True, slots=True)
class Asked:
    """A page that is asked for."""

    home: Path
    #: What the home held: another value, another page.
    revision: str
    kind: str
    selection: Selection = field(default_factory=Selection)
    #: The question's name, or the metric that runs are compared by.
    name: str = ""
    runs: tuple[str, ...] = ()
    #: The rows of a page about these runs alone; the revision changes with them.
    rows: RunRows | None = field(default=None, compare=False, repr=False)
    #: Options of the question.
    options: Given = ()

    @property
    def file_query(self) -> str:
        """What the addresses of its figures' files name beside the selection."""
        if self.kind != "comparison":
            return urlencode(self.options)
        return urlencode([*(("run", run) for run in self.runs), ("metric", self.name)])


@dataclass(frozen=True, slots=True)
class Made:
    """A page that was made, or the data of its figures."""

    #: What the home held.
    revision: str
    html: str
    #: Files of its figures, by their addresses below the page's.
    files: Mapping[str, bytes]

    def size(self) -> int:
        """Return the bytes that it takes."""
        return len(self.html) + sum(map(len, self.files.values()))


class ServiceMaterial(BareMaterial):
    """The frames of pages; every model's page has its run's id for an address."""

    most_rows = 100

    @cached_property
    def pages(self) -> dict[str, str]:
        """The address of each run's page, by run id."""
        return {run: f"models/{run}.html" for run in self.models["run_id"].tolist()}


class RunMaterial(ServiceMaterial):
    """The frames of pages about a few runs, which hold nothing of the others."""

    def __init__(self, home: Path, rows: RunRows) -> None:
        super().__init__(home)
        self._rows = rows

    @cached_property
    def models(self) -> Any:
        """One row a run, without the folders that files lie in."""
        return bare(self._rows.models)

    @property
    def every_signature(self) -> Any:
        """One row a run and site."""
        return self._rows.signatures

    signatures = every_signature

    @property
    def gaps(self) -> Any:
        """Sites without a score, with the reasons."""
        return self._rows.gaps


def make(asked: Asked) -> Made:
    """Return a page with the drawings of its figures.

    Raises
    ------
    SettingsError
        If nothing is selected, or the data do not allow the page.
    UnknownName
        If there is no such question or run.
    """
    material, page = _page(asked)
    files: dict[str, bytes] = {}
    room = _ROOM if asked.rows is None else _ROOM_OF_FEW
    exhibits, lacking = drawn(page.exhibits, partial(_keep, files), data=False, room=room)
    html = rendered(
        page.template,
        page.link,
        Addresses(page.link.address, query_of(asked.selection), asked.file_query),
        **{**page.values, "exhibits": exhibits, "lacking": lacking},
        caption=material.provenance.caption() if page.values else "",
    )
    return Made(asked.revision, html, files)


def make_data(asked: Asked) -> Made:
    """Return data and SQL of a page's figures; errors are those of ``make``.

    They are made when they are asked for: of thousands of runs they take as long as the page.
    """
    files: dict[str, bytes] = {}
    for each in _page(asked)[1].exhibits:
        write_data(each, partial(_keep, files))
        files[f"data/{each.name}.parquet"] = _parquet(each)
    return Made(asked.revision, "", files)


def _page(asked: Asked) -> tuple[ServiceMaterial, Page]:
    if asked.rows is None:
        material = kept_material(ServiceMaterial, asked.home, asked.revision, asked.selection)
    else:
        material = RunMaterial(asked.home, asked.rows)
    return material, _KINDS[asked.kind](material, asked)


def _keep(files: dict[str, bytes], name: str, content: str | bytes) -> None:
    files[name] = content.encode() if isinstance(content, str) else content


def _parquet(exhibit: Exhibit) -> bytes:
    rows, stream = exhibit.rows().copy(deep=False), BytesIO()
    # They name the home, and pandas writes them into the file.
    rows.attrs = {}
    rows.to_parquet(stream, index=False)
    return stream.getvalue()


def _overview(material: ServiceMaterial, asked: Asked) -> Page:
    if not asked.selection.filters and not _measured(material):
        return Page(NAVIGATION[0], "welcome.html", {})
    timeline = section(material, "timeline")
    values = {
        "banner": banner(material.provenance.mixed),
        "lead": survey_lead(material),
        "facts": _facts(material),
        "events": _events(asked.home),
        "timeline": timeline,
        "latest": _latest(material),
        "missing": missing_section(material),
    }
    return Page(NAVIGATION[0], "overview.html", values, timeline.exhibits)


def _facts(material: ServiceMaterial) -> dict[str, str]:
    done = material.done
    counts = (
        ("measured", len(done)),
        ("failed", len(material.failed)),
        # Of weights and datasets that changed only a plan knows, which reads their files.
        ("stale (older measuring version)", (done["measuring_version"] != MEASURING_VERSION).sum()),
    )
    facts = {name: whole(count) for name, count in counts} | survey_facts(material)
    # The report's words for the second count.
    del facts["failed runs"]
    return facts


def _events(home: Path) -> list[EventRow]:
    with Registry(open_home(home, create=False)) as registry:
        return registry.events.latest(EVENTS_SHOWN)


def _measured(material: ServiceMaterial) -> bool:
    try:
        return len(material.models) > 0
    except SettingsError:
        # No home, or no run.
        return False


def _latest(material: ServiceMaterial) -> Sequence[tuple[Link, Any]]:
    """Return the runs that finished last, with when."""
    named = material.models[["run_id", "model", "finished_at"]]
    done = named.dropna(subset="finished_at").sort_values("finished_at").tail(10)
    rows = zip(done["run_id"], done["model"], done["finished_at"], strict=True)
    return [(Link(model, material.pages[run]), moment) for run, model, moment in rows][::-1]


def _question(material: ServiceMaterial, asked: Asked) -> Page:
    if make_section := _OTHERS.get(asked.name):
        answered = make_section(material)
    elif kinds := KINDS_OF_QUESTIONS.get(asked.name):
        answers = [kind.of(material) for kind in kinds]
        if asked.options:
            answers = [kinds[0](material, **option_values(kinds[0], asked.options))]
        answered = section_of(material, asked.name, _title(kinds), answers)
        if answered.present and not kinds[0].caption:
            answered = replace(answered, tables=(_whole_table(material, answers[0]),))
    else:
        raise UnknownName("question", asked.name, [*KINDS_OF_QUESTIONS, *_OTHERS])
    page, declared = answered.page(), with_options(asked.name)
    form = {
        "options": option_form(declared, asked.options) if declared else [],
        "selected": parse_qsl(query_of(asked.selection)),
    }
    values = {**page.values, **form}
    return replace(page, template="question.html", link=_place(answered), values=values)


def with_options(question: str) -> type[Answer] | None:
    """Return the answer whose options a page takes: none where it has several answers."""
    kinds = KINDS_OF_QUESTIONS.get(question, ())
    return kinds[0] if len(kinds) == 1 else None


def _whole_table(material: ServiceMaterial, answer: Answer) -> PageTable:
    """Return what a terminal shows of an answer that no page of a report has."""
    caption = _first_line(type(answer))
    return material.table(Table(answer.name, caption, answer.rows, answer.columns))


def _title(kinds: Sequence[type[Answer]]) -> str:
    return kinds[0].title or spaced(kinds[0].name.replace("-", " ")).capitalize()


def _first_line(kind: type[Answer]) -> str:
    return (kind.__doc__ or "").partition("\n")[0]


def _place(answered: Section) -> Link:
    is_map = answered.name == "clusters"
    return NAVIGATION[3] if is_map else Link(answered.title, f"questions/{answered.name}")


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


def _page_of(run: Mapping[Any, Any]) -> Link:
    return Link(run["model"], f"models/{run['run_id']}")


def _run_of(material: ServiceMaterial) -> tuple[dict[Any, Any], Link]:
    run = material.models.iloc[0].to_dict()
    return run, _page_of(run)


def _signature(material: ServiceMaterial, _asked: Asked) -> Page:
    run, here = _run_of(material)
    exhibits = signature_exhibits(material.every_signature, run)
    return Page(here, "signature.html", {}, exhibits)


def _runs(material: ServiceMaterial, _asked: Asked) -> Page:
    run, here = _run_of(material)
    values = {"model": here, "tables": {"Every run": architecture_table(material)}}
    exhibits = architecture_exhibits(material, run)
    return Page(Link(here.title, f"{here.address}/runs"), "runs.html", values, exhibits)


def _nearest(material: ServiceMaterial, _asked: Asked) -> Page:
    run, here = _run_of(material)
    return Page(here, "nearest.html", {"tables": nearest_models(material, run)})


def _comparison(material: ServiceMaterial, asked: Asked) -> Page:
    if not asked.runs:
        return Page(NAVIGATION[2], "comparison.html", {"runs": ()})
    return comparison_page(material, NAVIGATION[2], asked.runs, asked.name)


_KINDS = {
    "overview": _overview,
    "question": _question,
    "signature": _signature,
    "nearest": _nearest,
    "runs": _runs,
    "comparison": _comparison,
}

#: The answers to each question: those of a page of a report, or one that is on none.
KINDS_OF_QUESTIONS: dict[str, Sequence[type[Answer]]] = {
    **PAGES,
    **{each.name: (each,) for each in ANSWERS if not each.page},
}

#: Each question with its title, and with what it asks.
QUESTIONS = [
    (name, _title(kinds), _first_line(kinds[0])) for name, kinds in KINDS_OF_QUESTIONS.items()
]
