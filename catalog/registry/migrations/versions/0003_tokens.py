"""What lets clients of the service in."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.Integer(), nullable=False, comment="Its number."),
        sa.Column("name", sa.Text(), nullable=False, comment="What its owner calls it."),
        sa.Column(
            "sha256",
            sa.Text(),
            nullable=False,
            comment="The sha256 of the secret, of 256 random bits.",
        ),
        sa.Column(
            "scope",
            sa.Text(),
            nullable=False,
            comment="read, or write, which includes reading.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            nullable=False,
            comment="When it was made.",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="From when on it lets nobody in; NULL for never.",
        ),
        sa.Column(
            "revoked_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When it was revoked; NULL while it was not.",
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sa.UniqueConstraint("sha256"),
        comment="One row a token that lets a client of the service in.",
    )
