"""What is listed: each list and its items, declared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pyarrow as pa

from catalog.copied_home import CopiedRows
from catalog.home import Home
from catalog.listing import list_datasets
from catalog.models import index
from catalog.registry.pages import SENT_EVENTS, SUBMITTED_SURVEYS, RegistryRows
from catalog.registry.tables import JOBS, SAVED_QUERIES, SURVEYS
from catalog.store.pages import RowsInMemory, StoredRows
from catalog.store.schema import BATCH_SCORES, RUNS
from catalog.store.views import FAILURES, LABELLED, VIEWS, with_labels
from jobs.service.api.listing import Listing
from jobs.service.api.routes import router_of
from jobs.service.api.schedules import SCHEDULES, schedules_table
from survey.column_fields import Column

_SITE, _SCORE = ("run_id", "site"), ("run_id", "batch", "site")


def _view(name: str, key: tuple[str, ...]) -> Listing:
    """Return the list of a view that is computed from scores."""
    (view,) = (each for each in VIEWS if each.name == name)
    shown = with_labels(view) if name in LABELLED else view
    return Listing(name, view.sentence, CopiedRows(shown, is_wide="site" in key), key)


def _catalog(
    name: str,
    sentence: str,
    key: str,
    columns: Mapping[str, str],
    table: Callable[[Home], pa.Table],
) -> Listing:
    """Return the list of what can be measured, as the verb of its name shows it."""
    declared = (Column(each, kind, f"{each.replace('_', ' ')}.") for each, kind in columns.items())
    return Listing(name, sentence, RowsInMemory(tuple(declared), table), (key,), slashes=True)


def _sql_types(columns: Mapping[str, tuple[pa.DataType, object]]) -> dict[str, str]:
    names = {"string": "VARCHAR", "int64": "BIGINT", "double": "DOUBLE"}
    return {name: names.get(str(kind), "VARCHAR[]") for name, (kind, _) in columns.items()}


_DATASETS = {
    **dict.fromkeys(("dataset", "holds", "licence", "source"), "VARCHAR"),
    **dict.fromkeys(("images", "classes", "download"), "BIGINT"),
    "here": "BOOLEAN",
}

LISTINGS = (
    Listing(
        RUNS.name,
        RUNS.sentence,
        CopiedRows(RUNS),
        ("run_id",),
        lasting=True,
        brief_without=("traceback", "skipped_names"),
    ),
    _view("models", ("run_id",)),
    _view("signatures", _SITE),
    _view("latest_signatures", _SITE),
    Listing(
        BATCH_SCORES.name, BATCH_SCORES.sentence, StoredRows(BATCH_SCORES, is_wide=True), _SCORE
    ),
    Listing(FAILURES.name, FAILURES.sentence, StoredRows(FAILURES), _SCORE),
    _catalog(
        "architectures",
        "One architecture that can be measured.",
        "architecture",
        _sql_types(index.ARCHITECTURES),
        lambda home: index.architectures(home.cache),
    ),
    _catalog(
        "checkpoints",
        "One set of published weights.",
        "checkpoint",
        _sql_types(index.CHECKPOINTS),
        lambda home: index.checkpoints(home.cache),
    ),
    _catalog(
        "datasets",
        "One kind of dataset.",
        "dataset",
        _DATASETS,
        lambda home: list_datasets(home.path),
    ),
    Listing("jobs", JOBS.comment or "", RegistryRows(JOBS), ("run_id",)),
    Listing("declared_surveys", SURVEYS.comment or "", RegistryRows(SURVEYS), ("id",)),
    Listing(
        "surveys",
        "One survey that was submitted to the service.",
        SUBMITTED_SURVEYS,
        ("id",),
        brief_without=("definition",),
        sort=("-id",),
        itemised=False,
    ),
    Listing("events", "One notice of what happened.", SENT_EVENTS, ("id",), sort=("-timestamp",)),
    Listing(
        "saved_queries",
        "One query that users of the service keep.",
        RegistryRows(SAVED_QUERIES),
        ("name",),
        as_sent=frozenset(("name", "sql")),
    ),
    replace(
        _catalog(
            "schedules",
            "One survey that is run at given times.",
            "name",
            SCHEDULES,
            schedules_table,
        ),
        itemised=False,
    ),
)

#: Their routes.
ROUTERS = tuple(map(router_of, LISTINGS))
