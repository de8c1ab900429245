"""The signature store's schema: every table and column, each with a sentence.

The columns of runs, batches and scores are declared beside the fields of their records, those of
metrics by the metrics; what is left is declared here, and the views in ``catalog.store.views``.
SQL comments, Arrow schemas and the documentation are made from it; the tables themselves by the
numbered files below ``migrations``, to which ``catalog.store.upgrade`` adds the columns of metrics
and the views as they are declared.

A store may have columns of more metrics, of installed packages: wherever there may be such, they
are the argument ``extra``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from catalog.store.records import BatchRecord, RunRecord
from survey.column_fields import Column, columns_of
from survey.metrics import QUANTITIES, all_quantities
from survey.metrics.base import Quantity
from survey.results import BatchScores, Site, SiteScore


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view of the store."""

    #: Its name in SQL.
    name: str
    #: What one row is, in a sentence.
    sentence: str
    #: Its columns, in order.
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class View(Relation):
    """A view; the same SQL serves the stored view and a reader's temporary one."""

    #: Its query, over unqualified names.
    sql: str


def comments(entry: Relation) -> Iterator[str]:
    """Yield the ``COMMENT ON`` statements of a relation and of its columns."""
    kind = "VIEW" if isinstance(entry, View) else "TABLE"
    yield f"COMMENT ON {kind} {entry.name} IS {quoted_text(entry.sentence)}"
    for column in entry.columns:
        yield column_comment(entry.name, column)


def column_comment(entry: str, column: Column) -> str:
    """Return the ``COMMENT ON`` statement of a column of a table or view."""
    return f"COMMENT ON COLUMN {entry}.{quoted_name(column.name)} IS {quoted_text(column.sentence)}"


def quoted_name(name: str) -> str:
    """Return a column's name as SQL takes it, were it a word of SQL."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as SQL takes it."""
    return "'" + text.replace("'", "''") + "'"


def metric_columns(quantities: Iterable[Quantity]) -> tuple[Column, ...]:
    """Return the column of each quantity."""
    return tuple(Column(each.name, "DOUBLE", each.sentence) for each in quantities)


def installed_columns() -> tuple[Column, ...]:
    """Return the columns of the metrics of installed packages, which are loaded for it."""
    return metric_columns(all_quantities()[len(QUANTITIES) :])


def chosen(names: str, columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns of some names, in the order of the names."""
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in names.split())


AFFINITY, *_OTHERS = metric_columns(QUANTITIES)

#: What is measured beside the affinity; NULL with an entry in ``notes`` where there is no value.
METRIC_COLUMNS = tuple(_OTHERS)

RUNS = Relation(
    "runs",
    "One row a run: what was measured, how, with what, and what became of it.",
    columns_of(RunRecord),
)

BATCHES = Relation(
    "batches",
    "One row a batch of images of a run: its accuracy counts and where to go on after it.",
    chosen(
        "run_id batch attempt images end_position skipped_images skipped_names labelled top1_hits"
        " top5_hits micro_batch threads device_name hostname seconds recorded_at",
        (
            *columns_of(BatchScores),
            *columns_of(BatchRecord),
            Column(
                "skipped_images", "BIGINT", "Images passed over because they cannot be decoded."
            ),
            Column("recorded_at", "TIMESTAMPTZ", "When the batch was made durable."),
        ),
    ),
)

_RUN_ID = RUNS.columns[0]
_SITE_COLUMNS = columns_of(Site)
_SCORE_COLUMNS = columns_of(SiteScore)

# No primary key: an index over so many rows costs more than the table. A batch and its scores come
# and go together, so the key of ``batches`` keeps both unique.
BATCH_SCORES = Relation(
    "batch_scores",
    "One row an activation site and batch, unique in (run_id, batch, site).",
    (
        _RUN_ID,
        *chosen("batch site", _SCORE_COLUMNS),
        *_SITE_COLUMNS,
        *chosen("channels images", _SCORE_COLUMNS),
        AFFINITY,
        *chosen("status reason raw_affinity", _SCORE_COLUMNS),
        *METRIC_COLUMNS,
        *chosen("input_variance output_variance constant_fraction flags notes", _SCORE_COLUMNS),
    ),
)

NETWORK_SCORES = Relation(
    "network_scores",
    "One row a run and measure of the whole network, unique in both.",
    (
        _RUN_ID,
        Column("measure", "VARCHAR", "The measure's name, such as path_length."),
        Column("value", "DOUBLE", "Its value; NULL unless status is ok."),
        Column("status", "VARCHAR", "What became of it: ok, or undefined where there is no value."),
        Column("reason", "VARCHAR", "Why there is no value, in a sentence."),
        Column("standard_error", "DOUBLE", "Of the value; NULL where it is exact, or unknown."),
        Column("samples", "BIGINT", "Images, lines or pairs it is estimated from; NULL for none."),
        Column("details", "VARCHAR", "Conventions, settings and what else belongs to it, as JSON."),
        Column(
            "version", "INTEGER", "Of the measure; others are computed again where it is asked for."
        ),
    ),
)

NETWORK_CURVES = Relation(
    "network_curves",
    "One row a point of a measure that is a curve, which come and go with its row in"
    " network_scores.",
    (
        _RUN_ID,
        NETWORK_SCORES.columns[1],
        Column("point", "INTEGER", "Which point of the curve, counting from 0."),
        Column("x", "DOUBLE", "Where it is; the measure says of what."),
        Column("y", "DOUBLE", "The curve's value there; NULL where there is none."),
        Column("standard_error", "DOUBLE", "Of y; NULL where it is exact, or unknown."),
    ),
)

SEGMENTS = Relation(
    "segments",
    "One row a spool segment already merged, so that each is merged at most once.",
    (
        Column("name", "VARCHAR", "The segment's file name."),
        Column("merged_at", "TIMESTAMPTZ", "When it was merged."),
    ),
)

MIGRATIONS = Relation(
    "migrations",
    "One row a numbered change of this schema that was applied.",
    (
        Column("version", "INTEGER", "Its number, counting from 1."),
        Column("name", "VARCHAR", "Its file's name."),
        Column("applied_at", "TIMESTAMPTZ", "When it was applied."),
    ),
)

TABLES = (RUNS, BATCHES, BATCH_SCORES, NETWORK_SCORES, NETWORK_CURVES, SEGMENTS, MIGRATIONS)
