"""The questions that have a page, and the page of each with a form of its options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from analysis.answers import ANSWERS, Answer
from analysis.answers.columns import Table
from analysis.data.selection import Selection
from analysis.report.elements import Link, Page, PageTable, Section
from analysis.report.pages import missing_section, provenance_section
from analysis.report.sections import PAGES, section_of
from analysis.text import spaced
from jobs.service.pages import site
from jobs.service.pages.asked import Asked
from jobs.service.pages.material import ServiceMaterial
from jobs.service.pages.options import (
    Given,
    option_form,
    option_names,
    option_values,
    options_in,
)
from jobs.service.pages.selections import query_of, selection_of
from survey.errors import SurveyError, UnknownName

#: The answers to each question: those of a page of a report, or one that is on none.
KINDS_OF_QUESTIONS: dict[str, Sequence[type[Answer]]] = {
    **PAGES,
    **{each.name: (each,) for each in ANSWERS if not each.page},
}

#: Sections of a report that answer no question.
_OTHERS = {"missing": missing_section, "provenance": provenance_section}


def question(material: ServiceMaterial, asked: Asked) -> Page:
    """Return the page of a question, answered with the options that are asked for."""
    if make_section := _OTHERS.get(asked.name):
        return _page(make_section(material), asked)
    kinds = KINDS_OF_QUESTIONS.get(asked.name)
    if kinds is None:
        raise UnknownName("question", asked.name, [*KINDS_OF_QUESTIONS, *_OTHERS])
    answers = [kind.of(material) for kind in kinds]
    if asked.options:
        answers = [kinds[0](material, **option_values(kinds[0], asked.options))]
    answered = section_of(material, asked.name, _title(kinds), answers)
    if not answered.present:
        return _page(answered, asked)
    if not kinds[0].caption:
        answered = replace(answered, tables=(_whole_table(material, answers[0]),))
    # The runs of the answer: it may count other ones than the home holds.
    return _page(answered, asked, caption=answers[0].made_from.caption())


def _page(answered: Section, asked: Asked, **values: str) -> Page:
    page, selected = answered.page(), parse_qsl(query_of(asked.selection))
    values = {**page.values, **values, **_form(asked.name, asked.options, selected)}
    return replace(page, template="question.html", link=_place(answered), values=values)


def unanswered(name: str, query: str) -> Page | None:
    """Return the page of a question that is refused as it was asked; None where it has no options.

    Parameters
    ----------
    name : str
        The question's name.
    query : str
        The part of an address behind its question mark.
    """
    declared = with_options(name)
    if declared is None:
        return None
    selecting = option_names(Selection)
    selected = [(each, text) for each, text in parse_qsl(query) if each in selecting]
    try:
        selection_of(urlencode(selected))
    except SurveyError:
        # The form shows no field of it: it would be refused for ever.
        selected = []
    values = _form(name, options_in(query, declared), selected)
    return Page(Link(_title([declared]), f"questions/{name}"), "unanswered.html", values)


def _form(name: str, options: Given, selected: Sequence[tuple[str, str]]) -> dict[str, Any]:
    declared = with_options(name)
    return {"options": option_form(declared, options) if declared else [], "selected": selected}


def with_options(name: str) -> type[Answer] | None:
    """Return the answer whose options a page takes: none where it has several answers."""
    kinds = KINDS_OF_QUESTIONS.get(name, ())
    return kinds[0] if len(kinds) == 1 else None


def _whole_table(material: ServiceMaterial, answer: Answer) -> PageTable:
    """Return what a terminal shows of an answer that no page of a report has."""
    return material.table(Table(answer.name, answer.question(), answer.rows, answer.columns))


def _title(kinds: Sequence[type[Answer]]) -> str:
    return kinds[0].title or spaced(kinds[0].name.replace("-", " ")).capitalize()


def _place(answered: Section) -> Link:
    is_map = answered.name == "clusters"
    return site.MAP if is_map else Link(answered.title, f"questions/{answered.name}")


#: Each question with its title, and with what it asks.
QUESTIONS = [
    (name, _title(kinds), kinds[0].question()) for name, kinds in KINDS_OF_QUESTIONS.items()
]
