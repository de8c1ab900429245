"""Queries that users of the service keep."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_queries",
        sa.Column("name", sa.Text(), nullable=False, comment="What it asks."),
        sa.Column("sql", sa.Text(), nullable=False, comment="The statement."),
        sa.Column(
            "saved_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it was kept, or kept anew.",
        ),
        sa.PrimaryKeyConstraint("name"),
        comment="One row a query that users of the service keep.",
    )
