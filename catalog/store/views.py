"""The signature store's views: the query of each, and a sentence on it and on its columns."""

# ruff: noqa: S608 - every name in these statements is declared here or in catalog.store.schema

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from catalog.store.latest_runs import latest_of
from catalog.store.schema import (
    BATCH_SCORES,
    METRIC_COLUMNS,
    RUNS,
    Relation,
    View,
    chosen,
    quoted_name,
)
from survey.column_fields import Column
from survey.results import FLAGS, LEFT_OUT

_RUN_ID = RUNS.columns[0]

#: What is the same in every batch of a site.
_PLACES = chosen(
    "site_name activation graph_depth role repeat layout spatial channels", BATCH_SCORES.columns
)

#: What was measured, in views.
_MEASURED = chosen("architecture source family checkpoint dataset pooling", RUNS.columns)

#: The same, with what scores depend on.
DESCRIBED = chosen(
    "architecture source family family_group year checkpoint dataset pooling images_per_score"
    " shrinkage ridge",
    RUNS.columns,
)

#: What views of the latest runs have of them beside.
_FACTS = chosen("measured_top1 parameters", RUNS.columns)

_BATCH, _SITE, _SITE_NAME, _FLAGS = chosen("batch site site_name flags", BATCH_SCORES.columns)

#: Columns that hold affinity scores.
_SCORES = ("affinity", "affinity_std", "affinity_se", "affinity_plain")


def _names(columns: Iterable[Column]) -> str:
    return ", ".join(quoted_name(column.name) for column in columns)


def _each(columns: Iterable[Column], aggregate: str) -> str:
    """Return SQL that aggregates each of the columns under its own name."""
    names = [quoted_name(column.name) for column in columns]
    return ",\n    ".join(f"{aggregate}({name}) AS {name}" for name in names)


#: Whether the scores of a site are left out; no metric has a name with a space.
_IS_LEFT_OUT = '"left out"'

#: When a flag means something, where it does not always: older rows have the flag ridge under the
#: relative ridge too. Whoever reads flags reads them here.
_MEANT = {"ridge": "ridge = 'absolute'"}


def _bears(flag: str) -> str:
    """Return SQL for whether a site has a flag that means something, of its column ``has FLAG``."""
    return " AND ".join(filter(None, (f'"has {flag}"', _MEANT.get(flag))))


def scores_that_count() -> str:
    """Return SQL for every column of ``signatures``, without scores that no question counts.

    Those are of sites with a flag of ``survey.results.LEFT_OUT``: metrics that are no affinity
    stay.
    """
    return f"signatures.* REPLACE ({_without_scores(f'list_has_any(flags, {sorted(LEFT_OUT)})')})"


def _without_scores(left_out: str) -> str:
    """Return SQL for the scores of a signature, NULL at the sites that are left out."""
    return ",\n  ".join(f"if({left_out}, NULL, {name}) AS {name}" for name in _SCORES)


def _signature_columns(metrics: tuple[Column, ...]) -> tuple[Column, ...]:
    return (
        *(_RUN_ID, *DESCRIBED, _SITE, *_PLACES),
        Column("relative_depth", "DOUBLE", "The site over its run's last; 0 for the only one."),
        Column("affinity", "DOUBLE", "Mean affinity over the batches with a score; NULL if none."),
        Column("affinity_std", "DOUBLE", "Sample deviation (batches - 1); NULL for one batch."),
        Column("affinity_se", "DOUBLE", "Standard error: deviation over the root of batches."),
        Column("batches", "BIGINT", "Batches with a score at this site."),
        dataclasses.replace(_FLAGS, sentence=f"Those of any of its batches. {_FLAGS.sentence}"),
        *(
            dataclasses.replace(column, sentence=f"Mean over batches. {column.sentence}")
            for column in metrics
        ),
    )


def _sites(metrics: tuple[Column, ...]) -> str:
    """Return SQL for every site of a signature, and whether its scores are left out.

    Each flag is one truth value a site, which a query that asks for no flag does without; a list of
    the lists of all batches takes longer than all else together. A flag that this version does not
    know is in ``layer_scores`` alone.
    """
    flags, line = sorted(FLAGS), ",\n    "
    has_flags = line.join(
        f"bool_or(list_contains(flags, '{flag}')) AS \"has {flag}\"" for flag in flags
    )
    borne = line.join(f"if({_bears(flag)}, '{flag}', NULL)" for flag in flags)
    return f"""\
WITH spread AS (
  SELECT run_id, site,
    {_each(_PLACES, "any_value")},
    avg(affinity) AS affinity, stddev_samp(affinity) AS affinity_std, count(affinity) AS batches,
    {has_flags},
    {_each(metrics, "avg")}
  FROM batch_scores GROUP BY run_id, site
)
SELECT run_id, {_names(DESCRIBED)}, site,
  {_names(_PLACES)},
  site / greatest(max(site) OVER (PARTITION BY run_id), 1) AS relative_depth,
  affinity, affinity_std, affinity_std / sqrt(spread.batches) AS affinity_se,
  spread.batches AS batches, list_filter([
    {borne}], lambda flag: flag IS NOT NULL) AS flags,
  {_names(metrics)},
  {" OR ".join(map(_bears, sorted(LEFT_OUT)))} AS {_IS_LEFT_OUT}
FROM runs JOIN spread USING (run_id) WHERE runs.status = 'done'"""


def _signatures(metrics: tuple[Column, ...]) -> View:
    return View(
        "signatures",
        "One row a site of a finished run: its metrics over all batches that have a value.",
        _signature_columns(metrics),
        f"SELECT * EXCLUDE ({_IS_LEFT_OUT}) FROM (\n{_sites(metrics)})",
    )


def _latest_signatures(metrics: tuple[Column, ...]) -> View:
    return View(
        "latest_signatures",
        "The signatures of the latest run that compares of each model, checkpoint, dataset and"
        " pooling, without scores that the ridge decides: what analysis.signatures() gives, with"
        " those of random weights.",
        (*_signature_columns(metrics), *_FACTS),
        f"""\
SELECT * EXCLUDE ({_IS_LEFT_OUT}) REPLACE (
  {_without_scores(_IS_LEFT_OUT)})
FROM (\n{_sites(metrics)})
JOIN (SELECT run_id, {_names(_FACTS)} FROM {latest_of("runs")}) USING (run_id)""",
    )


def scored(signatures: str) -> str:
    """Return SQL for what the view ``models`` has of scores, of signatures whose scores count."""
    return f"""\
SELECT run_id, avg(affinity) AS affinity, min(affinity) AS affinity_min,
  median(affinity) AS affinity_median, max(affinity) AS affinity_max,
  list_sort(list_distinct(flatten(list(flags)))) AS flags
FROM {signatures} GROUP BY run_id"""


def _models() -> View:
    facts = chosen(
        "status measured_top1 reported_top1 suspicion parameters gflops depth sites batches images"
        " finished_at",
        RUNS.columns,
    )
    return View(
        "models",
        "One row a model, checkpoint, dataset and pooling: its latest run that compares, of any"
        " status where none has finished.",
        (
            *(_RUN_ID, *DESCRIBED, *facts),
            Column("affinity", "DOUBLE", "Mean over the sites whose score counts."),
            Column("affinity_min", "DOUBLE", "The lowest affinity of such a site."),
            Column("affinity_median", "DOUBLE", "The median affinity of such sites."),
            Column("affinity_max", "DOUBLE", "The highest affinity of such a site."),
            dataclasses.replace(_FLAGS, sentence=f"Those of any of its sites. {_FLAGS.sentence}"),
        ),
        f"""\
WITH scored AS ({scored("latest_signatures")})
SELECT run_id, {_names((*DESCRIBED, *facts))},
  affinity, affinity_min, affinity_median, affinity_max, coalesce(flags, []) AS flags
FROM {latest_of("runs")} LEFT JOIN scored USING (run_id)""",
    )


def layer_scores(extra: tuple[Column, ...]) -> View:
    """Return the view of every score with what its run measured."""
    return View(
        "layer_scores",
        "One row an activation site and batch of any run, with what was measured.",
        (
            *(*BATCH_SCORES.columns, *extra, *_MEASURED),
            Column(
                "run_status",
                "VARCHAR",
                "What became of the run: running, done, failed or cancelled.",
            ),
        ),
        f"""\
SELECT batch_scores.* REPLACE (
  list_filter(flags, lambda flag: flag <> 'ridge' OR {_MEANT["ridge"]}) AS flags),
  runs.architecture, runs.source, runs.family, runs.checkpoint, runs.dataset, runs.pooling,
  runs.status AS run_status
FROM batch_scores JOIN runs USING (run_id)""",
    )


FAILURES = View(
    "failures",
    "One row a failed run, and one a site and batch without a score.",
    (
        *chosen("run_id architecture checkpoint dataset", RUNS.columns),
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


#: Sites of runs without a score, each with its reasons.
GAPS = """\
SELECT run_id, site, any_value(site_name) AS site_name, failures.status AS status, reason,
  count(*) AS batches
FROM failures WHERE site IS NOT NULL GROUP BY run_id, site, failures.status, reason"""

#: What a reader shows of the labels and tags of runs, which are no part of the store.
RUN_LABELS = Relation(
    "run_labels",
    "One row a run that its user gave a label or tags; `survey sql` shows it, the store has none.",
    (
        _RUN_ID,
        Column("label", "VARCHAR", "What its user calls it; NULL without a label."),
        Column(
            "tags", "MAP(VARCHAR, VARCHAR)", "What its user noted of it: tags['lr']::DOUBLE, say."
        ),
    ),
)


def with_labels(view: View) -> View:
    """Return a view with the columns of ``RUN_LABELS``, as a reader shows it who has them."""
    return View(
        view.name,
        view.sentence,
        (*view.columns, *RUN_LABELS.columns[1:]),
        f"SELECT * REPLACE (coalesce(tags, MAP {{}}) AS tags) FROM (\n{view.sql}\n)"
        " LEFT JOIN run_labels USING (run_id)",
    )


def views(extra: tuple[Column, ...] = ()) -> tuple[View, ...]:
    """Return the views of a store whose scores have more columns, of metrics, than are declared.

    A view reads those before it.
    """
    metrics = (*METRIC_COLUMNS, *extra)
    return (
        layer_scores(extra),
        _signatures(metrics),
        _latest_signatures(metrics),
        _models(),
        FAILURES,
    )


#: Views that a reader shows with labels and tags.
LABELLED = ("latest_signatures", "models")

VIEWS = views()
