"""The sections of a report about questions, each of the answers that name its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.answers import ANSWERS, Answer
from analysis.data.provenance import banner
from analysis.report.data import ReportMaterial, slug, statement
from analysis.report.elements import Exhibit, Section
from analysis.text import sentence
from survey.errors import SettingsError, UnknownName

#: The answers of each page; the first of them gives it its place among the pages.
PAGES: dict[str, list[type[Answer]]] = {}
for each in ANSWERS:
    if each.page:
        PAGES.setdefault(each.page, []).append(each)


def section(material: ReportMaterial, page: str) -> Section:
    """Return the section of a page; where the data do not allow it, its finding is the reason.

    Parameters
    ----------
    material : ReportMaterial
        The report's frames.
    page : str
        One of ``PAGES``.
    """
    answers = [kind.of(material) for kind in PAGES[page]]
    return section_of(material, page, PAGES[page][0].title, answers)


def section_of(material: ReportMaterial, name: str, title: str, asked: Sequence[Answer]) -> Section:
    """Return a section of some answers, the first of which gives its finding."""
    answers_read = (name for answer in asked for name in answer.read)
    # Read at once: to read a part first takes as long again.
    material.sites(("run_id", "affinity", *answers_read))
    if not material.scored:
        return Section("No run of the selection has a score.", name, title, present=False)
    answers, reasons = [], []
    for answer in asked:
        try:
            if answer.known:
                answers.append(answer)
            else:
                reasons.append(answer.finding())
        except (SettingsError, UnknownName) as error:
            reasons.append(error.message)
    if not answers:
        return Section(sentence(reasons[0]), name, title, present=False)
    first, *others = answers
    exhibits = {each.name: each for answer in answers for each in _exhibits(material, answer)}
    tables = [material.table(each) for answer in answers for each in answer.tables()]
    # The finding of an answer with a figure is the heading of that.
    undrawn = [sentence(each.finding()) for each in others if not each.figure]
    units = [line for answer in answers for line in answer.replication()]
    details = map(sentence, first.details())
    notes = first.made_from.notes()
    paragraphs = (*filter(None, (first.method,)), *details, *undrawn, *units, *notes)
    finding = sentence(first.finding())
    return Section(
        finding,
        name,
        title,
        paragraphs=paragraphs,
        exhibits=tuple(exhibits.values()),
        tables=tuple(tables),
        banner=banner(first.made_from.mixed, first.apart) or "",
    )


def _exhibits(material: ReportMaterial, answer: Answer) -> Iterator[Exhibit]:
    for drawing in answer.drawings():
        run_ids = drawing.run_ids or material.sites(("run_id",))["run_id"].unique()
        every = answer.every_score
        sql = statement(run_ids, answer.source, answer.view, every_score=every)
        yield Exhibit(slug(drawing.name), drawing.chart, drawing.rows, sql)
