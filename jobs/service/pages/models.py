"""The page of models: searched, filtered, sorted, with chosen columns, ticked to be compared."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import RedirectResponse

from analysis.answers.columns import COLUMNS, Table, TableColumn
from analysis.report.elements import page_table
from analysis.text import fixed, percent, whole
from jobs.operations.server_paths import without_paths_in
from jobs.service import API
from jobs.service.api.lists import LISTINGS
from jobs.service.api.parameters import page_parameters
from jobs.service.dependencies import HomeOfService
from jobs.service.first_copy import require_first_copy
from jobs.service.pages import site
from jobs.service.pages.site import PageRoute, page_response

router = APIRouter(route_class=PageRoute)

(_MODELS,) = (each for each in LISTINGS if each.name == "models")
_Asked = page_parameters(_MODELS)

#: Columns that the page shows where none are chosen, and the rows of a page.
FIELDS = (
    *("architecture", "checkpoint", "family", "dataset", "status", "measured_top1"),
    *("sites", "affinity_min", "affinity", "affinity_max", "parameters", "year"),
)
ROWS = 100

_FORMS = {
    **dict.fromkeys(("affinity", "affinity_min", "affinity_median", "affinity_max"), fixed(4)),
    **dict.fromkeys(("measured_top1", "reported_top1"), percent),
    **dict.fromkeys(("parameters", "sites", "images", "batches", "depth"), whole),
}

#: Columns by whose values a list offers to narrow it.
_NARROWING = ("family", "dataset", "status")


@router.get("/models", dependencies=[Depends(require_first_copy)])
def show(request: Request, home: HomeOfService, asked: Annotated[_Asked, Query()]) -> Response:  # type: ignore[valid-type]
    """Return a page of the list; the parameters are those of ``/api/v1/models``."""
    query = [(n, v) for n, v in request.query_params.multi_items() if n != "next"]
    if left := [pair for pair in query if not pair[1]]:
        # A form sends what was left open too; the address holds what was asked for alone.
        return RedirectResponse(f"/models?{urlencode([p for p in query if p not in left])}")
    given: Any = asked
    fields = tuple(given.fields or FIELDS)
    page = {"fields": ["run_id", *fields], "limit": ROWS}
    wanted = _MODELS.request(given.model_copy(update=page))
    table = _MODELS.rows.page(home, wanted)
    token = _MODELS.next_token(table, wanted)
    rows = without_paths_in(table.slice(0, ROWS).select(["run_id", *fields])).to_pandas()
    shown = page_table(Table("models", "", rows, list(map(_column, ("run_id", *fields)))))
    facets = {by: _MODELS.rows.facet(home, wanted, by).to_pylist() for by in _NARROWING}
    return page_response(
        request,
        "models.html",
        site.MODELS,
        table=shown,
        headings=[(each, *_sorting(query, each.name, wanted.sort)) for each in shown.columns],
        every=_MODELS.scalars,
        fields=fields,
        facets=facets,
        given=request.query_params,
        next=f"/models?{urlencode([*query, ('next', token)])}" if token else "",
        formats=[(f, f"{API}/models.{f}?{urlencode(query)}") for f in ("csv", "parquet", "json")],
    )


def _column(name: str) -> TableColumn:
    known = COLUMNS.get(name, TableColumn(name))
    return TableColumn(name, known.heading, _FORMS.get(name, known.form), known.meaning)


def _sorting(
    query: list[tuple[str, str]], name: str, sort: tuple[str, ...]
) -> tuple[str, str | None]:
    """Return the address of the list sorted by a column, and how it is sorted by that now."""
    ascends = sort[:1] == (name,)
    direction = "ascending" if ascends else "descending" if sort[:1] == (f"-{name}",) else None
    kept = [(key, value) for key, value in query if key != "sort"]
    return f"/models?{urlencode([*kept, ('sort', f'-{name}' if ascends else name)])}", direction
