"""Questions: every answer that ``analysis`` declares, with the options and filters of its verb."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from fastapi import APIRouter, Depends, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field, create_model

from analysis.answers import ANSWERS, Answer
from analysis.answers.material import Material
from analysis.choices import Role
from analysis.data.run_tags import with_tag_columns
from analysis.data.selection import Selection
from catalog.home import Home
from jobs.choices import Suffix
from jobs.operations.answering import given_answer, require_sites
from jobs.service.api.formats import format_of, page_headers, table_response
from jobs.service.api.parameters import ALL_RUNS, option_parameters, options_from
from jobs.service.api.result_page import PageParameters, page_of
from jobs.service.api.routes import add_table_routes
from jobs.service.dependencies import HomeOfService, RecentAnswersOfService
from jobs.service.first_copy import first_copy_made
from jobs.service.kept_material import kept_material
from jobs.service.recent_answers import age_header, minute_of
from jobs.service.renderer import revision

router = APIRouter(tags=["questions"])

#: Those that are computed from the copy of the home.
_copied = APIRouter(dependencies=[Depends(first_copy_made)])

#: What an answer says beside its rows.
_SENTENCES = ("finding", "warning", "details", "notes", "caption")


class Question(BaseModel):
    """A question that can be asked about what was measured."""

    name: str
    question: str
    #: Its verb on the command line; empty where the report alone has it.
    command: str
    title: str
    method: str


class Questions(BaseModel):
    """Every question."""

    items: list[Question]
    next: None = None


class Answered(BaseModel):
    """An answer: its rows, and what it found."""

    items: list[dict[str, Any]]
    #: The next page's token.
    next: str | None = None
    #: The result in a sentence.
    finding: str
    #: Which settings of runs meet in it that do not compare; empty where none do.
    warning: str
    #: How it was computed, and what is left out, in sentences.
    details: list[str]
    notes: list[str]
    #: What it was made from.
    caption: str


@router.get("/questions", summary="Every question.")
def questions() -> Questions:
    """Return every question in the order of a report."""
    return Questions(
        items=[
            Question(
                name=each.name,
                question=each.question(),
                command=each.command,
                title=each.title,
                method=each.method,
            )
            for each in ANSWERS
        ]
    )


def _parameters(answer: type[Answer]) -> type[BaseModel]:
    """Return the query parameters of a question: options of its own, what selects runs, a page."""
    fields = {**option_parameters(Selection), **option_parameters(answer)}
    if "role" not in answer.without:
        fields["role"] = (Role, Field("all", description="Which sites."))
    fields["all_runs"] = ALL_RUNS
    # An option of such a name would be another parameter.
    assert not PageParameters.model_fields.keys() & fields.keys()  # noqa: S101
    name = f"{answer.name.replace('-', '_')}_parameters"
    return create_model(name, __base__=PageParameters, **fields)


def _given(
    home: Home, revision: str, name: str, asked: Mapping[str, Any]
) -> tuple[dict[str, Any], pa.Table]:
    """Return an answer's sentences, and its rows with the tags of their runs."""
    (answer_type,) = (each for each in ANSWERS if each.name == name)
    selection = Selection(**options_from(Selection, asked), newest=not asked.get("all_runs"))
    material = kept_material(Material, home.path, revision, selection, asked.get("role", "all"))
    answer = answer_type(material, **options_from(answer_type, asked))
    if "role" not in answer_type.without:
        require_sites(material, answer.read)
    result = given_answer(answer)
    rows = with_tag_columns(result.rows, lambda: material.models)
    sentences = {each: getattr(result, each) for each in _SENTENCES}
    return sentences, pa.Table.from_pandas(rows, preserve_index=False)


def _size(given: tuple[dict[str, Any], pa.Table]) -> int:
    return int(given[1].nbytes)


def _add(answer_type: type[Answer]) -> None:
    async def answer(
        request: Request,
        home: HomeOfService,
        recent: RecentAnswersOfService,
        asked: Any,
        suffix: Suffix | None = None,
    ) -> Response:
        form = format_of(request, suffix)
        # The whole is kept, whatever page of it is asked for.
        given = asked.model_dump(
            exclude_none=True, exclude_unset=True, exclude=PageParameters.model_fields.keys()
        )
        now = await run_in_threadpool(revision, home)
        compute = partial(_given, home, now, answer_type.name, given)
        # Options are in the order of their declaration, and their values are plain.
        key = answer_type.name, repr(given), minute_of(given)
        (sentences, rows), age = await recent.answer(request, compute, key, now, _size)
        # Of the next page too, whose duration reaches back from another moment.
        made_from = (*key[:2], sentences["caption"])
        rows, token = await run_in_threadpool(page_of, rows, asked, made_from)
        beside = {"next": token} | sentences
        headers = page_headers(request, token) | age_header(age)
        return await run_in_threadpool(table_response, rows, form, beside, headers=headers)

    path = f"/questions/{answer_type.name}"
    add_table_routes(
        _copied, path, answer, _parameters(answer_type), Answered, answer_type.question()
    )


for _answer in ANSWERS:
    _add(_answer)
router.include_router(_copied)
