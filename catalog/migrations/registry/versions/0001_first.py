"""The first tables of the registry."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "checkpoints",
        sa.Column("uri", sa.Text(), nullable=False, comment="The checkpoint as file:PATH."),
        sa.Column("path", sa.Text(), nullable=False, comment="The file's absolute path."),
        sa.Column(
            "bytes", sa.BigInteger(), nullable=False, comment="The file's size when it was hashed."
        ),
        sa.Column(
            "mtime_ns",
            sa.BigInteger(),
            nullable=False,
            comment="The file's modification time when it was hashed, in nanoseconds.",
        ),
        sa.Column("sha256", sa.Text(), nullable=False, comment="The sha256 of the file's bytes."),
        sa.PrimaryKeyConstraint("uri"),
        comment="One row a file of weights, so that none is hashed twice.",
    )
    op.create_table(
        "datasets",
        sa.Column("name", sa.Text(), nullable=False, comment="The dataset's full name."),
        sa.Column(
            "stat_signature",
            sa.Text(),
            nullable=False,
            comment="Hash over its files' names, sizes and times when it was read.",
        ),
        sa.Column(
            "fingerprint",
            sa.Text(),
            nullable=False,
            comment="The sha256 over every image's bytes, name, label and the order.",
        ),
        sa.Column("images", sa.BigInteger(), nullable=True, comment="How many images it has."),
        sa.PrimaryKeyConstraint("name"),
        comment="One row a dataset, so that none is read twice to know it.",
    )
    op.create_table(
        "surveys",
        sa.Column("id", sa.Integer(), nullable=False, comment="Its number."),
        sa.Column(
            "name",
            sa.Text(),
            nullable=False,
            comment="Its name: the survey file's, or the command's.",
        ),
        sa.Column(
            "declared_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it was first declared.",
        ),
        sa.Column(
            "definition",
            sa.JSON(),
            nullable=False,
            comment="Models, checkpoints, datasets and settings as declared, as JSON.",
        ),
        sa.PrimaryKeyConstraint("id"),
        comment="One row a declared set of jobs.",
    )
    op.create_table(
        "jobs",
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="Hash of everything that determines the run's numbers.",
        ),
        sa.Column("run_id", sa.Text(), nullable=False, comment="The run in the signature store."),
        sa.Column(
            "survey_id", sa.Integer(), nullable=False, comment="The survey that first asked for it."
        ),
        sa.Column(
            "architecture",
            sa.Text(),
            nullable=False,
            comment="The network's name within its source.",
        ),
        sa.Column(
            "source", sa.Text(), nullable=False, comment="Where the architecture comes from."
        ),
        sa.Column(
            "checkpoint", sa.Text(), nullable=False, comment="The weights as the user names them."
        ),
        sa.Column("dataset", sa.Text(), nullable=False, comment="The dataset's full name."),
        sa.Column(
            "settings", sa.JSON(), nullable=False, comment="The measuring settings, as JSON."
        ),
        sa.Column("state", sa.Text(), nullable=False, comment="todo, running, done or failed."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it was first asked for.",
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When its state last changed.",
        ),
        sa.ForeignKeyConstraint(["survey_id"], ["surveys.id"]),
        sa.PrimaryKeyConstraint("key"),
        sa.UniqueConstraint("run_id"),
        comment="One row a run that is to be done.",
    )
    op.create_index(op.f("ix_jobs_state"), "jobs", ["state"], unique=False)
    op.create_index(op.f("ix_jobs_survey_id"), "jobs", ["survey_id"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", sa.Integer(), nullable=False, comment="Its number."),
        sa.Column("job_key", sa.Text(), nullable=False, comment="The job attempted."),
        sa.Column(
            "attempt",
            sa.Integer(),
            nullable=False,
            comment="Which attempt at the job, counting from 1.",
        ),
        sa.Column("worker", sa.Text(), nullable=False, comment="The worker's name."),
        sa.Column("pid", sa.Integer(), nullable=True, comment="The worker's process."),
        sa.Column(
            "started_at", sa.DateTime(timezone=True), nullable=False, comment="When it began."
        ),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True, comment="When it ended."),
        sa.Column(
            "outcome", sa.Text(), nullable=True, comment="done, failed, lost or interrupted."
        ),
        sa.Column("stage", sa.Text(), nullable=True, comment="The stage it failed in."),
        sa.Column("error", sa.Text(), nullable=True, comment="What went wrong, in a sentence."),
        sa.Column("traceback", sa.Text(), nullable=True, comment="Where in the program it failed."),
        sa.Column(
            "images_done", sa.BigInteger(), nullable=True, comment="Images measured when it ended."
        ),
        sa.ForeignKeyConstraint(["job_key"], ["jobs.key"]),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_key", "attempt", name="one_row_an_attempt"),
        comment="One row an attempt at a job.",
    )
    op.create_index(op.f("ix_attempts_job_key"), "attempts", ["job_key"], unique=False)


def downgrade() -> None:
    for table in ("attempts", "jobs", "surveys", "datasets", "checkpoints"):
        op.drop_table(table)
