"""The signature store's schema: every table, view and column, each with a sentence.

The columns of runs, batches and scores are declared beside the fields of their records, those of
metrics by the metrics; what is left is declared here. Views, SQL comments, Arrow schemas and the
documentation are made from it; the tables themselves by the numbered files below ``migrations``,
and applying them all gives exactly what is declared.

A store may have columns of more metrics, of installed packages: wherever there may be such, they
are the argument ``extra``.
"""

from __future__ import annotations

import dataclasses
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
    yield f"COMMENT ON {kind} {entry.name} IS {_quoted(entry.sentence)}"
    for column in entry.columns:
        yield column_comment(entry.name, column)


def column_comment(entry: str, column: Column) -> str:
    """Return the ``COMMENT ON`` statement of a column of a table or view."""
    return f"COMMENT ON COLUMN {entry}.{quoted_name(column.name)} IS {_quoted(column.sentence)}"


def quoted_name(name: str) -> str:
    """Return a column's name as SQL takes it, were it a word of SQL."""
    return f'"{name}"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def metric_columns(quantities: Iterable[Quantity]) -> tuple[Column, ...]:
    """Return the column of each quantity."""
    return tuple(Column(each.name, "DOUBLE", each.sentence) for each in quantities)


def installed_columns() -> tuple[Column, ...]:
    """Return the columns of the metrics of installed packages, which are loaded for it."""
    return metric_columns(all_quantities()[len(QUANTITIES) :])


def _chosen(names: str, columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns of some names, in the order of the names."""
    by_name = {column.name: column for column in columns}
    return tuple(by_name[name] for name in names.split())


_AFFINITY, *_OTHERS = metric_columns(QUANTITIES)

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
    _chosen(
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
        *_chosen("batch site", _SCORE_COLUMNS),
        *_SITE_COLUMNS,
        *_chosen("channels images", _SCORE_COLUMNS),
        _AFFINITY,
        *_chosen("status reason raw_affinity", _SCORE_COLUMNS),
        *METRIC_COLUMNS,
        *_chosen("input_variance output_variance constant_fraction flags notes", _SCORE_COLUMNS),
    ),
)

NETWORK_SCORES = Relation(
    "network_scores",
    "One row a measure of a whole network.",
    (
        _RUN_ID,
        Column("measure", "VARCHAR", "The measure's name."),
        Column("value", "DOUBLE", "Its value; NULL unless status is ok."),
        Column("status", "VARCHAR", "What became of it: ok, or why there is none."),
        Column("reason", "VARCHAR", "Why there is no value, in a sentence."),
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

TABLES = (RUNS, BATCHES, BATCH_SCORES, NETWORK_SCORES, SEGMENTS, MIGRATIONS)

#: What is the same in every batch of a site.
_PLACES = _chosen(
    "site_name activation graph_depth role repeat layout spatial channels", BATCH_SCORES.columns
)

#: What was measured, in views.
_MEASURED = _chosen("architecture source family checkpoint dataset pooling", RUNS.columns)

_BATCH, _SITE, _SITE_NAME = _chosen("batch site site_name", BATCH_SCORES.columns)


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(quoted_name(column.name) for column in columns)


def _each(columns: Iterable[Column], aggregate: str) -> str:
    """Return SQL that aggregates each of the columns under its own name."""
    names = [quoted_name(column.name) for column in columns]
    return ",\n    ".join(f"{aggregate}({name}) AS {name}" for name in names)


def _signatures(metrics: tuple[Column, ...]) -> View:
    return View(
        "signatures",
        "One row a site of a finished run: its metrics over all batches that have a value.",
        (
            *(_RUN_ID, *_MEASURED, _SITE, *_PLACES),
            Column(
                "affinity", "DOUBLE", "Mean affinity over the batches with a score; NULL if none."
            ),
            Column("affinity_std", "DOUBLE", "Sample deviation (batches - 1); NULL for one batch."),
            Column("affinity_se", "DOUBLE", "Standard error: deviation over the root of batches."),
            Column("batches", "BIGINT", "Batches with a score at this site."),
            *(
                dataclasses.replace(column, sentence=f"Mean over batches. {column.sentence}")
                for column in metrics
            ),
        ),
        f"""\
WITH spread AS (
  SELECT run_id, site,
    {_each(_PLACES, "any_value")},
    avg(affinity) AS affinity, stddev_samp(affinity) AS affinity_std, count(affinity) AS batches,
    {_each(metrics, "avg")}
  FROM batch_scores GROUP BY run_id, site
)
SELECT run_id, {_names(_MEASURED)}, site,
  {_names(_PLACES)},
  affinity, affinity_std, affinity_std / sqrt(spread.batches) AS affinity_se,
  spread.batches AS batches,
  {_names(metrics)}
FROM runs JOIN spread USING (run_id) WHERE runs.status = 'done'""",  # noqa: S608 - declared names
    )


def layer_scores(extra: tuple[Column, ...]) -> View:
    """Return the view of every score with what its run measured."""
    return View(
        "layer_scores",
        "One row an activation site and batch of any run, with what was measured.",
        (
            *(*BATCH_SCORES.columns, *extra, *_MEASURED),
            Column("run_status", "VARCHAR", "What became of the run: running, done or failed."),
        ),
        """\
SELECT batch_scores.*, runs.architecture, runs.source, runs.family, runs.checkpoint, runs.dataset,
  runs.pooling, runs.status AS run_status
FROM batch_scores JOIN runs USING (run_id)""",
    )


FAILURES = View(
    "failures",
    "One row a failed run, and one a site and batch without a score.",
    (
        *_chosen("run_id architecture checkpoint dataset", RUNS.columns),
        dataclasses.replace(_BATCH, sentence="The batch without a score; NULL for a failed run."),
        dataclasses.replace(_SITE, sentence="The site without a score; NULL for a failed run."),
        dataclasses.replace(_SITE_NAME, sentence="The site's name; NULL for a failed run."),
        Column("status", "VARCHAR", "failed for a run; what became of the score for a site."),
        Column("stage", "VARCHAR", "The stage a run failed in; score for a site."),
        Column("reason", "VARCHAR", "What went wrong, in a sentence."),
    ),
    """\
SELECT run_id, architecture, checkpoint, dataset, NULL::INTEGER AS batch, NULL::INTEGER AS site,
  NULL::VARCHAR AS site_name, status, stage, error AS reason
FROM runs WHERE status = 'failed'
UNION ALL
SELECT batch_scores.run_id, architecture, checkpoint, dataset, batch, site, site_name,
  batch_scores.status, 'score' AS stage, reason
FROM batch_scores LEFT JOIN runs USING (run_id) WHERE batch_scores.status <> 'ok'""",
)


def views(extra: tuple[Column, ...] = ()) -> tuple[View, ...]:
    """Return the views of a store whose scores have more columns, of metrics, than are declared."""
    return (_signatures((*METRIC_COLUMNS, *extra)), layer_scores(extra), FAILURES)


VIEWS = views()
