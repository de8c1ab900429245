"""A report: one folder of pages, figures, data and SQL about a home, which opens from disk.

Read this first: it lists the pages in their order. ``pages``, ``sections`` and ``model_page`` make
their content; ``templates`` and ``assets`` hold their layout. The pages need no network and load
nothing but their style sheet and a script that sorts tables. The same runs give the same files,
whenever and wherever a report is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.answers.material import Watch, unwatched
from analysis.data.selection import Selection
from analysis.report.data import ReportMaterial
from analysis.report.elements import Link, Page
from analysis.report.folder import Write, report_folder
from analysis.report.inline_svg import Shown, shown
from analysis.report.model_page import model_pages
from analysis.report.pages import missing_section, overview_page, provenance_section
from analysis.report.sections import PAGES, section
from analysis.text import sentence
from survey import __version__
from survey.errors import FigureError
from survey.text import printable_lines

_HERE = Path(__file__).parent


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

    Returns
    -------
    Report
        What was written.

    Raises
    ------
    SettingsError
        If there is no home, nothing is selected, or something else lies at ``out``.
    """
    out, material = Path(out), ReportMaterial(home, selection, watch=watch)
    title = title or f"A survey of {len(material.models)} models"
    made_from = material.provenance
    about = {
        "title": title,
        "survey_version": __version__,
        "selection": made_from.selection,
        "runs": made_from.runs,
        "runs_hash": made_from.runs_hash,
    }
    with report_folder(out, about) as write:
        for path in sorted((_HERE / "assets").iterdir()):
            write(f"assets/{path.name}", path.read_bytes())
        questions = [section(material, page) for page in PAGES]
        missing = missing_section(material)
        present = [each for each in (*questions, missing) if each.present]
        pages = [
            overview_page(material, title, questions, missing),
            *(each.page() for each in (*present, provenance_section(material))),
        ]
        links = [Link("Overview", pages[0].link.address), *(page.link for page in pages[1:])]
        site = {"title": title, "caption": made_from.caption(), "pages": links}
        templates = _templates(site)
        written, undrawn = 0, list[tuple[str, str]]()
        for page in chain(pages, model_pages(material)):
            exhibits, lacking = _drawn(page, write)
            template = templates.get_template(page.template)
            root = "../" * page.link.address.count("/")
            text = template.render(
                link=page.link, root=root, exhibits=exhibits, lacking=lacking, **page.values
            )
            write(page.link.address, text)
            written += 1
            undrawn += lacking
    absent = tuple((each.title, each.finding) for each in questions if not each.present)
    runs, failed = len(material.models), len(material.failed)
    index, conditions, mixed = out / "index.html", made_from.conditions, made_from.mixed
    return Report(out, index, runs, failed, written, conditions, mixed, absent, tuple(undrawn))


def _drawn(page: Page, write: Write) -> tuple[list[Shown], list[tuple[str, str]]]:
    """Return a page's exhibits, and the name of each that cannot be drawn with the reason."""
    exhibits: list[Shown] = []
    undrawn: list[tuple[str, str]] = []
    for each in page.exhibits:
        try:
            exhibits.append(shown(each, write))
        except FigureError as problem:
            undrawn.append((each.name, problem.message))
    return exhibits, undrawn


def _finalized(value: object) -> object:
    """Return what a template writes, text printable; drawings, which are markup, are so already."""
    is_markup = hasattr(value, "__html__")
    return printable_lines(value) if isinstance(value, str) and not is_markup else value


def _templates(site: Mapping[str, object]) -> Environment:
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    templates.globals["site"] = site
    templates.filters["sentence"] = sentence
    return templates
