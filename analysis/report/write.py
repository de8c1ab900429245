"""A report: one folder of pages, figures, data and SQL about a home, which opens from disk.

Read this first: it lists the pages in their order. ``pages``, ``sections`` and ``model_page`` make
their content; ``templates`` and ``assets`` hold their layout. The pages need no network and load
nothing but their style sheet and a script that sorts tables. The same runs give the same files,
whenever and wherever a report is written, but for the last digit of a mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from operator import add
from pathlib import Path

from jinja2 import Environment

from analysis.answers.material import Watch, unwatched
from analysis.data.selection import Selection
from analysis.report.data import ReportMaterial
from analysis.report.elements import Link, Page
from analysis.report.folder import report_folder
from analysis.report.model_page import model_pages
from analysis.report.page_drawings import Drawers, PageDrawings
from analysis.report.pages import missing_section, overview_page, provenance_section
from analysis.report.sections import PAGES, section
from analysis.report.templating import ASSETS, templates
from survey import __version__


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
    #: The conditions of its runs, and their mixed settings; see ``analysis.data.provenance``.
    conditions: tuple[str, ...]
    mixed: Mapping[str, Sequence[str]]
    #: Pages the data did not allow: title and reason.
    absent: tuple[tuple[str, str], ...]
    #: Figures that could not be drawn: name and reason.
    undrawn: tuple[tuple[str, str], ...]


def write_report(
    home: str | Path,
    out: str | Path,
    selection: Selection | None = None,
    title: str | None = None,
    watch: Watch = unwatched,
    color_by: str | None = None,
    processes: int = 1,
    kind: type[ReportMaterial] = ReportMaterial,
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
        The heading of every page; by default how many models were surveyed.
    watch : callable, optional
        Shows progress: given what is made and a list, returns its items one by one. A thousand
        models take minutes.
    color_by : str, optional
        A tag, such as ``tags.lr``, or column of models that colours them; by default their family.
    processes : int, optional
        How many processes draw the pages of many models; each takes some 600 MB.
    kind : type of ReportMaterial, optional
        What gives its frames; a service's names files without their folders.

    Returns
    -------
    Report
        What was written.

    Raises
    ------
    SettingsError
        If there is no home, nothing is selected, or something else lies at ``out``.
    UnknownName
        If no run has such a tag, and there is no such column.
    """
    out, material = Path(out), kind(home, selection, watch=watch, color_by=color_by)
    material.colours()
    title = title or f"A survey of {len(material.models)} models"
    made_from = material.provenance
    about = {
        "title": title,
        "survey_version": __version__,
        "selection": made_from.selection,
        "runs": made_from.runs,
        "runs_hash": made_from.runs_hash,
    }
    count = len(PAGES) + len(material.models)
    with report_folder(out, about) as write, Drawers(count, processes) as drawers:
        for path in sorted(ASSETS.iterdir()):
            write(f"assets/{path.name}", path.read_bytes())
        sections, pages = [], []
        for name in PAGES:
            sections.append(section(material, name))
            if sections[-1].present:
                pages.append(sections[-1].page())
                # Drawn while the next section is computed.
                drawers.begin(pages[-1])
        lacking = missing_section(material)
        overview = overview_page(material, title, sections, lacking)
        others = [each.page() for each in (lacking, provenance_section(material)) if each.present]
        links = [page.link for page in (*pages, *others)]
        layout = templates()
        layout.globals["site"] = {
            "title": title,
            "caption": made_from.caption(),
            "pages": [Link("Overview", overview.link.address), *links],
            "live": False,
        }
        written, undrawn = 0, list[tuple[str, str]]()
        for page, drawings in drawers.drawn(chain([overview, *others], model_pages(material))):
            for file, content in drawings.files.items():
                write(file, content)
            write(page.link.address, _text(page, drawings, layout))
            written += 1
            undrawn += drawings.undrawn
    absent = tuple((each.title, each.finding) for each in sections if not each.present)
    runs, failed = len(material.models), len(material.failed)
    index, conditions, mixed = out / "index.html", made_from.conditions, made_from.mixed
    return Report(out, index, runs, failed, written, conditions, mixed, absent, tuple(undrawn))


def _text(page: Page, drawings: PageDrawings, layout: Environment) -> str:
    """Return a page as HTML."""
    return layout.get_template(page.template).render(
        link=page.link,
        at=partial(add, "../" * page.link.address.count("/")),
        exhibits=drawings.exhibits,
        lacking=drawings.undrawn,
        **page.values,
    )
