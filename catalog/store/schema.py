"""The signature store's schema: every table, view and column, each with a sentence.

The one place it is declared. DDL, SQL comments, Arrow schemas and the documentation are made from
it; the numbered files below ``migrations/signatures`` are its history, and applying them all gives
exactly what is declared here. Owns no connection and no data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

#: SQL types in use and how Arrow carries them from the spool into the store.
ARROW_TYPES: dict[str, pa.DataType] = {
    "VARCHAR": pa.string(),
    "VARCHAR[]": pa.list_(pa.string()),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table or view."""

    #: Its name in SQL.
    name: str
    #: Its SQL type, one of ``ARROW_TYPES``.
    type: str
    #: What it means, in a sentence.
    sentence: str


@dataclass(frozen=True, slots=True)
class Table:
    """One stored table."""

    #: Its name in SQL.
    name: str
    #: What one row is, in a sentence.
    sentence: str
    #: Columns of the primary key; none where the writer alone keeps rows unique.
    key: tuple[str, ...]
    #: Its columns, in order.
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)

    def arrow(self) -> pa.Schema:
        """Return the Arrow schema of its rows."""
        return pa.schema([(column.name, ARROW_TYPES[column.type]) for column in self.columns])

    def ddl(self) -> str:
        """Return its ``CREATE TABLE`` statement."""
        lines = [f"  {column.name} {column.type}" for column in self.columns]
        if self.key:
            lines.append(f"  PRIMARY KEY ({', '.join(self.key)})")
        return f"CREATE TABLE {self.name} (\n" + ",\n".join(lines) + "\n)"


@dataclass(frozen=True, slots=True)
class View:
    """One view; the same SQL serves the stored view and a reader's temporary one."""

    #: Its name in SQL.
    name: str
    #: What one row is, in a sentence.
    sentence: str
    #: Its query, over unqualified names.
    sql: str
    #: Its columns, in order.
    columns: tuple[Column, ...]


def comments(entry: Table | View) -> Iterator[str]:
    """Yield the ``COMMENT ON`` statements of a table or view and of its columns."""
    kind = "TABLE" if isinstance(entry, Table) else "VIEW"
    yield f"COMMENT ON {kind} {entry.name} IS {_quoted(entry.sentence)}"
    for column in entry.columns:
        yield f"COMMENT ON COLUMN {entry.name}.{column.name} IS {_quoted(column.sentence)}"


def statements() -> Iterator[str]:
    """Yield every statement that makes an empty store of the declared schema."""
    for table in TABLES:
        yield table.ddl()
        yield from comments(table)
    for view in VIEWS:
        yield f"CREATE VIEW {view.name} AS\n{view.sql}"
        yield from comments(view)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


RUN_ID = Column("run_id", "VARCHAR", "The run: one architecture, checkpoint, dataset, settings.")
BATCH = Column("batch", "INTEGER", "Which batch of images of the run, counting from 0.")
SITE = Column("site", "INTEGER", "Which activation call, counting from 0 in execution order.")
SITE_NAME = Column("site_name", "VARCHAR", "Module path and call number, such as layer1.0.relu#2.")
ACTIVATION = Column("activation", "VARCHAR", "The activation function, such as relu.")
GRAPH_DEPTH = Column(
    "graph_depth", "INTEGER", "Activations on the longest path to here, this one included."
)
ROLE = Column("role", "VARCHAR", "main, or gate where the output only scales another value.")
REPEAT = Column("repeat", "INTEGER", "Which of its block's activation calls, counting from 1.")
LAYOUT = Column("layout", "VARCHAR", "Meaning of the tensor's axes, such as N,C,*,*.")
SPATIAL = Column("spatial", "VARCHAR", "Sizes of the axes pooled, such as 56x56; else empty.")
CHANNELS = Column("channels", "INTEGER", "Channels of the site: columns of the pooled pair.")
POOLING = Column(
    "pooling", "VARCHAR", "From tensor to matrix: mean, pre, sum, flatten or public_code."
)
ARCHITECTURE = Column("architecture", "VARCHAR", "The network's name within its source.")
SOURCE = Column("source", "VARCHAR", "Where the architecture comes from, such as torchvision.")
FAMILY = Column("family", "VARCHAR", "The architecture's family, such as ResNet.")
CHECKPOINT = Column("checkpoint", "VARCHAR", "The weights as named: init:0, bundled, file:NAME.")
DATASET = Column("dataset", "VARCHAR", "The images' name, such as digits or folder:NAME.")

#: What is measured beside the affinity; NULL with an entry in ``notes`` where there is no value.
METRICS = (
    Column("affinity_plain", "DOUBLE", "The affinity score without shrinkage, in [0, 1]."),
    Column("cka", "DOUBLE", "Linear CKA of input and output, biased as published, in [0, 1]."),
    Column("cka_debiased", "DOUBLE", "Linear CKA from unbiased estimates, in [-1, 1]."),
    Column("norm", "DOUBLE", "Frobenius norm of input minus output; grows as sqrt(n c)."),
    Column("norm_per_element", "DOUBLE", "The norm over sqrt(n c)."),
    Column("norm_relative", "DOUBLE", "The norm over the input's own norm."),
    Column("sparsity_before", "DOUBLE", "Fraction of unpooled input values within 1e-3 of zero."),
    Column("sparsity_after", "DOUBLE", "Fraction of unpooled output values within 1e-3 of zero."),
    Column("sparsity_change", "DOUBLE", "Sparsity after minus before, in [-1, 1]."),
    Column(
        "entropy_before",
        "DOUBLE",
        "Mean histogram entropy of inputs, plus log c, in nats.",
    ),
    Column(
        "entropy_after",
        "DOUBLE",
        "Mean histogram entropy of outputs, plus log c, in nats.",
    ),
    Column("entropy_change", "DOUBLE", "Entropy after minus before, in nats."),
    Column(
        "r2", "DOUBLE", "R2 of a linear fit on the images it was fitted on; 1 where c >= n - 1."
    ),
    Column(
        "r2_heldout", "DOUBLE", "R2 of a ridge fit on images left out of it one by one; at most 1."
    ),
)

RUNS = Table(
    "runs",
    "One row a run: what was measured, how, with what, and what became of it.",
    ("run_id",),
    (
        RUN_ID,
        Column("job_key", "VARCHAR", "Hash of everything that determines the run's numbers."),
        Column("attempt", "INTEGER", "Which attempt at the run wrote this row, counting from 1."),
        ARCHITECTURE,
        SOURCE,
        FAMILY,
        Column("family_group", "VARCHAR", "The paper's group of families, such as residual."),
        Column("year", "INTEGER", "Year in which the architecture was published."),
        CHECKPOINT,
        Column(
            "checkpoint_sha256", "VARCHAR", "The sha256 of the file of weights, if there is one."
        ),
        DATASET,
        Column(
            "dataset_fingerprint", "VARCHAR", "The sha256 over images, names, labels and order."
        ),
        Column("status", "VARCHAR", "What became of the run: running, done or failed."),
        Column("stage", "VARCHAR", "The stage a failed run failed in."),
        Column("error", "VARCHAR", "What went wrong, in a sentence."),
        Column("traceback", "VARCHAR", "Where in the program a failed run failed."),
        Column("measured_top1", "DOUBLE", "Fraction right over every image; NULL without labels."),
        Column(
            "measured_top5", "DOUBLE", "Fraction right within five guesses; NULL without labels."
        ),
        Column("reported_top1", "DOUBLE", "Fraction right that the weights were published with."),
        Column("reported_protocol", "VARCHAR", "What classified then, such as linear."),
        Column("reported_dataset", "VARCHAR", "The dataset it was reported for."),
        Column("expected_top1", "DOUBLE", "What measured_top1 is held against; NULL if nothing."),
        Column("expected_source", "VARCHAR", "Who says so: declared, or who reported it."),
        Column("suspicion", "VARCHAR", "Why the run's accuracy is suspect; NULL where it is not."),
        Column("images", "BIGINT", "Images measured, those of a last partial batch included."),
        Column("skipped_images", "BIGINT", "Images of the dataset that could not be decoded."),
        Column("skipped_names", "VARCHAR[]", "The names of the images that could not be decoded."),
        Column("batches", "INTEGER", "Batches measured, a last partial one included."),
        Column("sites", "INTEGER", "Activation sites of the network."),
        Column("depth", "INTEGER", "Layers with weights on the longest path through the network."),
        Column("parameters", "BIGINT", "Parameters of the network."),
        Column("gflops", "DOUBLE", "Billions of multiply-adds of one image's forward pass."),
        Column("settings", "VARCHAR", "The measuring settings, as JSON."),
        Column("images_per_score", "INTEGER", "Images in one batch score."),
        Column("micro_batch", "INTEGER", "Images in one forward pass."),
        Column("shrinkage", "VARCHAR", "Covariance estimator: ledoit-wolf or none."),
        Column("ridge", "VARCHAR", "Whether the ridge is absolute or relative to the variance."),
        POOLING,
        Column("precision", "DOUBLE", "Standard error to stop at; NULL where all is read."),
        Column("least_batches", "INTEGER", "Batches before a precision counts as reached."),
        Column("transform", "VARCHAR", "How images became the network's input, as JSON."),
        Column("order_seed", "INTEGER", "Seed of the order of the images."),
        Column("reached_precision", "DOUBLE", "Largest standard error of a site's mean affinity."),
        Column("parts", "INTEGER", "Parts the run was split into, each measured by one worker."),
        Column("device", "VARCHAR", "The device that measured, such as cpu or cuda:0."),
        Column("device_name", "VARCHAR", "The device's model name."),
        Column("dtype", "VARCHAR", "Number format of weights and activations."),
        Column("threads", "INTEGER", "Threads of one forward pass on a CPU."),
        Column("hostname", "VARCHAR", "The machine that measured."),
        Column("python_version", "VARCHAR", "Python's version."),
        Column("torch_version", "VARCHAR", "torch's version."),
        Column("torchvision_version", "VARCHAR", "torchvision's version."),
        Column("numpy_version", "VARCHAR", "numpy's version."),
        Column("scipy_version", "VARCHAR", "scipy's version."),
        Column("survey_version", "VARCHAR", "This program's version."),
        Column("measuring_version", "INTEGER", "Version of the measuring; a change moves numbers."),
        Column("dropped_keys", "VARCHAR[]", "Entries of the checkpoint that were not loaded."),
        Column("started_at", "TIMESTAMPTZ", "When the attempt began."),
        Column("finished_at", "TIMESTAMPTZ", "When the run ended, done or failed."),
        Column("seconds", "DOUBLE", "Seconds of measuring, over all attempts that were kept."),
        Column("peak_memory", "BIGINT", "Most bytes of memory that a worker held."),
    ),
)

BATCHES = Table(
    "batches",
    "One row a batch of images of a run: its accuracy counts and where to go on after it.",
    ("run_id", "batch"),
    (
        RUN_ID,
        BATCH,
        Column("attempt", "INTEGER", "Which attempt at the run measured it, counting from 1."),
        Column("images", "BIGINT", "Images in the batch; a last, partial one is not scored."),
        Column(
            "end_position", "BIGINT", "Place in the dataset's order where the next batch begins."
        ),
        Column("skipped_images", "BIGINT", "Images passed over because they cannot be decoded."),
        Column("skipped_names", "VARCHAR[]", "The names of the images passed over."),
        Column("labelled", "BIGINT", "Images whose label fits the network's outputs."),
        Column("top1_hits", "BIGINT", "Labelled images whose label is the largest output."),
        Column("top5_hits", "BIGINT", "Labelled images whose label is among the five largest."),
        Column("micro_batch", "INTEGER", "Images in one forward pass of this batch."),
        Column("threads", "INTEGER", "Threads of one forward pass of this batch on a CPU."),
        Column("device_name", "VARCHAR", "The model name of the device that measured the batch."),
        Column("hostname", "VARCHAR", "The machine that measured the batch."),
        Column("seconds", "DOUBLE", "Seconds from the first image in to the last score out."),
        Column("recorded_at", "TIMESTAMPTZ", "When the batch was made durable."),
    ),
)

# No primary key: an index over so many rows costs more than the table. A batch and its scores come
# and go together, so the key of ``batches`` keeps both unique.
BATCH_SCORES = Table(
    "batch_scores",
    "One row an activation site and batch, unique in (run_id, batch, site).",
    (),
    (
        RUN_ID,
        BATCH,
        SITE,
        SITE_NAME,
        ACTIVATION,
        Column("call", "INTEGER", "Which call of this activation at this path, counting from 1."),
        GRAPH_DEPTH,
        ROLE,
        REPEAT,
        LAYOUT,
        SPATIAL,
        CHANNELS,
        Column("images", "INTEGER", "Images of the score: rows of the pooled pair."),
        Column("affinity", "DOUBLE", "The affinity score in [0, 1]; NULL unless status is ok."),
        Column("status", "VARCHAR", "ok, constant, nonfinite, out_of_range or failed."),
        Column("reason", "VARCHAR", "Why there is no score, in a sentence."),
        Column("raw_affinity", "DOUBLE", "What the formula gave, also where it left [0, 1]."),
        *METRICS,
        Column("input_variance", "DOUBLE", "Mean over channels of the pooled input's variance."),
        Column("output_variance", "DOUBLE", "Mean over channels of the pooled output's variance."),
        Column("constant_fraction", "DOUBLE", "Fraction of channels constant over the images."),
        Column("flags", "VARCHAR[]", "What to know: constant, dead, nonfinite, few_images, ridge."),
        Column("notes", "VARCHAR[]", "Why a metric has no value: its name and a reason, one each."),
    ),
)

NETWORK_SCORES = Table(
    "network_scores",
    "One row a measure of a whole network.",
    ("run_id", "measure"),
    (
        RUN_ID,
        Column("measure", "VARCHAR", "The measure's name."),
        Column("value", "DOUBLE", "Its value; NULL unless status is ok."),
        Column("status", "VARCHAR", "What became of it: ok, or why there is none."),
        Column("reason", "VARCHAR", "Why there is no value, in a sentence."),
    ),
)

SEGMENTS = Table(
    "segments",
    "One row a spool segment already merged, so that each is merged at most once.",
    ("name",),
    (
        Column("name", "VARCHAR", "The segment's file name."),
        Column("merged_at", "TIMESTAMPTZ", "When it was merged."),
    ),
)

MIGRATIONS = Table(
    "migrations",
    "One row a numbered change of this schema that was applied.",
    ("version",),
    (
        Column("version", "INTEGER", "Its number, counting from 1."),
        Column("name", "VARCHAR", "Its file's name."),
        Column("applied_at", "TIMESTAMPTZ", "When it was applied."),
    ),
)

TABLES = (RUNS, BATCHES, BATCH_SCORES, NETWORK_SCORES, SEGMENTS, MIGRATIONS)

#: What is the same in every batch of a site.
_PLACES = (SITE_NAME, ACTIVATION, GRAPH_DEPTH, ROLE, REPEAT, LAYOUT, SPATIAL, CHANNELS)


_METRIC_NAMES = ",\n  ".join(column.name for column in METRICS)


def _each(columns: tuple[Column, ...], aggregate: str) -> str:
    """Return SQL that aggregates each of the columns under its own name."""
    return ",\n    ".join(f"{aggregate}({column.name}) AS {column.name}" for column in columns)


SIGNATURES = View(
    "signatures",
    "One row a site of a finished run: its metrics over all batches that have a value.",
    f"""\
WITH spread AS (
  SELECT run_id, site,
    {_each(_PLACES, "any_value")},
    avg(affinity) AS affinity, stddev_samp(affinity) AS affinity_std, count(affinity) AS batches,
    {_each(METRICS, "avg")}
  FROM batch_scores GROUP BY run_id, site
)
SELECT run_id, architecture, source, family, checkpoint, dataset, pooling, site,
  {", ".join(column.name for column in _PLACES)},
  affinity, affinity_std, affinity_std / sqrt(spread.batches) AS affinity_se,
  spread.batches AS batches,
  {_METRIC_NAMES}
FROM runs JOIN spread USING (run_id) WHERE runs.status = 'done'""",  # noqa: S608 - declared names
    (
        *(RUN_ID, ARCHITECTURE, SOURCE, FAMILY, CHECKPOINT, DATASET, POOLING, SITE, *_PLACES),
        Column("affinity", "DOUBLE", "Mean affinity over the batches with a score; NULL if none."),
        Column("affinity_std", "DOUBLE", "Sample deviation (batches - 1); NULL for one batch."),
        Column("affinity_se", "DOUBLE", "Standard error: deviation over the root of batches."),
        Column("batches", "BIGINT", "Batches with a score at this site."),
        *(
            dataclasses.replace(column, sentence=f"Mean over batches. {column.sentence}")
            for column in METRICS
        ),
    ),
)

LAYER_SCORES = View(
    "layer_scores",
    "One row an activation site and batch of any run, with what was measured.",
    """\
SELECT batch_scores.*, runs.architecture, runs.source, runs.family, runs.checkpoint, runs.dataset,
  runs.pooling, runs.status AS run_status
FROM batch_scores JOIN runs USING (run_id)""",
    (
        *BATCH_SCORES.columns,
        *(ARCHITECTURE, SOURCE, FAMILY, CHECKPOINT, DATASET, POOLING),
        Column("run_status", "VARCHAR", "What became of the run: running, done or failed."),
    ),
)

FAILURES = View(
    "failures",
    "One row a failed run, and one a site and batch without a score.",
    """\
SELECT run_id, architecture, checkpoint, dataset, NULL::INTEGER AS batch, NULL::INTEGER AS site,
  NULL::VARCHAR AS site_name, status, stage, error AS reason
FROM runs WHERE status = 'failed'
UNION ALL
SELECT batch_scores.run_id, architecture, checkpoint, dataset, batch, site, site_name,
  batch_scores.status, 'score' AS stage, reason
FROM batch_scores LEFT JOIN runs USING (run_id) WHERE batch_scores.status <> 'ok'""",
    (
        *(RUN_ID, ARCHITECTURE, CHECKPOINT, DATASET),
        dataclasses.replace(BATCH, sentence="The batch without a score; NULL for a failed run."),
        dataclasses.replace(SITE, sentence="The site without a score; NULL for a failed run."),
        dataclasses.replace(SITE_NAME, sentence="The site's name; NULL for a failed run."),
        Column("status", "VARCHAR", "failed for a run; what became of the score for a site."),
        Column("stage", "VARCHAR", "The stage a run failed in; score for a site."),
        Column("reason", "VARCHAR", "What went wrong, in a sentence."),
    ),
)

VIEWS = (SIGNATURES, LAYER_SCORES, FAILURES)
