"""The labels and tags of runs."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run = "The run in the signature store."
    op.create_table(
        "run_labels",
        sa.Column("run_id", sa.Text(), nullable=False, comment=run),
        sa.Column("model", sa.Text(), nullable=True, comment="The label of its architecture."),
        sa.Column("checkpoint", sa.Text(), nullable=True, comment="The label of its weights."),
        sa.Column("dataset", sa.Text(), nullable=True, comment="The label of its dataset."),
        sa.PrimaryKeyConstraint("run_id"),
        comment="One row a run that a user gave a label, for tables and figures; no number depends"
        " on it.",
    )
    op.create_table(
        "run_tags",
        sa.Column("run_id", sa.Text(), nullable=False, comment=run),
        sa.Column("name", sa.Text(), nullable=False, comment="The tag's name."),
        sa.Column(
            "value",
            sa.JSON(),
            nullable=False,
            comment="A number, a truth value or a text, as JSON.",
        ),
        sa.PrimaryKeyConstraint("run_id", "name"),
        comment="One row a run and tag that a user gave it; no number depends on it.",
    )
