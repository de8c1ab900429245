"""Surveys that were submitted to the service."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: When something happens, and what it is.
MOMENTS = {
    "lease_until": "Until when other hosts take that process to be alive.",
    "cancel_at": "When its run was asked to stop; NULL if it was not.",
    "started_at": "When its run began.",
    "ended_at": "When it was settled.",
}
COUNTS = {
    "measured": "Jobs measured.",
    "failed": "Jobs that failed.",
    "skipped": "Jobs that were measured before.",
}


def upgrade() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", sa.Integer(), nullable=False, comment="Its number."),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=True,
            comment="Why it waits, failed, was skipped or was replaced, in a sentence.",
        ),
        sa.Column(
            "claim",
            sa.Integer(),
            nullable=False,
            comment="How often a process took it; only the last to take it can settle it.",
        ),
        sa.Column(
            "losses",
            sa.Integer(),
            nullable=False,
            comment="How often the process that ran it vanished.",
        ),
        sa.Column(
            "host", sa.Text(), nullable=True, comment="Host of the process that runs or ran it."
        ),
        sa.Column("pid", sa.Integer(), nullable=True, comment="That process."),
        sa.Column(
            "process",
            sa.Text(),
            nullable=True,
            comment="Its kernel and start time, which tell it from others of the same number.",
        ),
        *(
            sa.Column(name, sa.DateTime(timezone=True), nullable=True, comment=sentence)
            for name, sentence in MOMENTS.items()
        ),
        *(
            sa.Column(name, sa.Integer(), nullable=True, comment=sentence)
            for name, sentence in COUNTS.items()
        ),
        sa.Column(
            "seconds", sa.Double(), nullable=True, comment="Seconds from its start to its end."
        ),
        sa.Column(
            "survey_id", sa.Integer(), nullable=False, comment="The survey that it asks for."
        ),
        sa.Column(
            "state",
            sa.Text(),
            nullable=False,
            comment="queued, running, done, failed or cancelled.",
        ),
        sa.Column(
            "submitted_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it was submitted, or last retried.",
        ),
        sa.ForeignKeyConstraint(["survey_id"], ["surveys.id"]),
        sa.PrimaryKeyConstraint("id"),
        comment="One row a survey that was submitted to the service.",
    )
    op.create_index(op.f("ix_submissions_state"), "submissions", ["state"], unique=False)
