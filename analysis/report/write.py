"""A report: one folder of pages, figures, data and SQL about a home, which opens from disk.

Read this first: it says which pages there are and in which order. What they show is made in
``pages``, ``model_page`` and ``sections``; how they look is in ``templates`` and ``assets``. The
pages need no network and load nothing but their own style sheet and a script that sorts tables.
Nothing in a report depends on when or where it was made: the same runs give the same files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.answers.material import Watch, unwatched
from analysis.data.selection import Selection
from analysis.report.data import ReportMaterial
from analysis.report.elements import Section
from analysis.report.folder import ReportFolder, require_free
from analysis.report.model_page import model_page
from analysis.report.pages import (
    lead,
    missing_page,
    missing_sentence,
    models_table,
    overview_exhibits,
    overview_facts,
    provenance_page,
)
from analysis.report.sections import PAGES, section
from analysis.report.svg import shown
from analysis.text import sentence
from survey import __version__

_HERE = Path(__file__).parent

_ASSETS = ("report.css", "report.js")


@dataclass(frozen=True, slots=True)
class Report:
    """A report that was written."""

    #: The folder, and the page to open.
    folder: Path
    index: Path
    #: How many runs it is about, and how many of them failed.
    runs: int
    failed: int
    pages: int
    #: Each way in which they were measured, as ``analysis.data.conditions`` says it.
    conditions: tuple[str, ...]
    #: Pages the data did not allow: title and reason.
    absent: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A page and where it lies, below the report's folder."""

    title: str
    address: str


def write_report(
    home: str | Path,
    out: str | Path,
    selection: Selection | None = None,
    title: str | None = None,
    watch: Watch = unwatched,
) -> Report:
    """Write a report about what a home holds.

    Parameters
    ----------
    home : str or pathlib.Path
        The home.
    out : str or pathlib.Path
        The folder to write: nothing, an empty folder, or an earlier report, which is replaced. It
        is there whole or not at all.
    selection : Selection, optional
        Which runs; by default the newest of everything.
    title : str, optional
        What stands at the top; by default how many models were surveyed.
    watch : callable, optional
        Shows progress: given what is made and a list, returns its items one by one. A thousand
        models take minutes.

    Returns
    -------
    Report
        What was written.

    Raises
    ------
    SettingsError
        If there is no home, nothing is selected, or something else lies at ``out``.
    """
    out = Path(out)
    require_free(out.absolute())
    return _Builder(ReportMaterial(home, selection, watch=watch), title).write(out)


class _Builder:
    """Puts values into templates and files into the folder, page by page."""

    def __init__(self, material: ReportMaterial, title: str | None) -> None:
        self._material = material
        self._sections = [section(material, page) for page in PAGES]
        self._missing = missing_page(material)
        self._provenance = provenance_page(material)
        self._site = {
            "title": title or f"A survey of {len(material.models)} models",
            "caption": material.provenance.caption(),
            "pages": list(self._navigation()),
        }
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            keep_trailing_newline=True,
        )
        self._pages = 0

    def write(self, out: Path) -> Report:
        material = self._material
        about = {
            "title": self._site["title"],
            "survey_version": __version__,
            "selection": material.provenance.selection,
            "runs": material.provenance.runs,
            "runs_hash": material.provenance.runs_hash,
        }
        with ReportFolder(out, about) as folder:
            for name in _ASSETS:
                folder.write(f"assets/{name}", (_HERE / "assets" / name).read_bytes())
            self._write_overview(folder)
            for page in self._written():
                self._write_section(folder, page)
            self._write_models(folder)
        absent = [(each.title, each.finding) for each in self._sections if not each.present]
        failed = len(material.failed)
        index = out / "index.html"
        ways = material.provenance.conditions
        return Report(out, index, len(material.models), failed, self._pages, ways, tuple(absent))

    def _written(self) -> list[Section]:
        """Return the sections that become pages."""
        result = [section for section in self._sections if section.present]
        return [*result, *([self._missing] if self._missing else []), self._provenance]

    def _navigation(self) -> Iterator[Link]:
        yield Link("Overview", "index.html")
        for page in self._written():
            yield Link(page.title, f"{page.name}.html")

    def _write_overview(self, folder: ReportFolder) -> None:
        material = self._material
        self._page(
            folder,
            "index.html",
            "index.html",
            str(self._site["title"]),
            lead=lead(material),
            facts=overview_facts(material),
            exhibits=[shown(each, folder) for each in overview_exhibits(material)],
            sections=[section for section in self._sections if section.present],
            absent=[section for section in self._sections if not section.present],
            models=models_table(material),
            missing_sentence=missing_sentence(material),
            missing_page=self._missing is not None,
        )

    def _write_section(self, folder: ReportFolder, section: Section) -> None:
        exhibits = [shown(each, folder) for each in section.exhibits]
        # The first figure's heading may say it already.
        text = exhibits and sentence(exhibits[0].finding) == section.finding
        values = {"section": section, "exhibits": exhibits, "lead": "" if text else section.finding}
        self._page(folder, f"{section.name}.html", "section.html", section.title, **values)

    def _write_models(self, folder: ReportFolder) -> None:
        material = self._material
        runs: list[dict[Any, Any]] = material.models.to_dict("records")
        links = [Link(run["model"], material.pages[run["run_id"]]) for run in runs]
        around = zip([None, *links], links, [*links[1:], None], strict=False)
        placed = list(zip(runs, around, strict=True))
        for run, (before, here, after) in material.watch("pages of models", placed):
            page = model_page(material, run) | {"before": before, "after": after}
            page["exhibits"] = [shown(each, folder) for each in page["exhibits"]]
            self._page(folder, here.address, "model.html", here.title, **page)

    def _page(
        self, folder: ReportFolder, address: str, template: str, heading: str, **values: Any
    ) -> None:
        text = self._templates.get_template(template).render(
            site=self._site,
            here=address,
            root="../" * address.count("/"),
            heading=heading,
            **values,
        )
        folder.write(address, text)
        self._pages += 1
