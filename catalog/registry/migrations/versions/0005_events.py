"""Events, and their deliveries to those that they are sent to."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("number", sa.Integer(), nullable=False, comment="Its place among all events."),
        sa.Column("kind", sa.Text(), nullable=False, comment="finished, failed, drift or stale."),
        sa.Column(
            "cause",
            sa.Text(),
            nullable=False,
            comment="The run it is about; a kind of event is recorded once a run.",
        ),
        sa.Column("title", sa.Text(), nullable=False, comment="What happened, in a sentence."),
        sa.Column(
            "detail",
            sa.JSON(),
            nullable=False,
            comment="Counts, or the rows that say what changed, as JSON.",
        ),
        sa.Column("happened_at", MOMENT, nullable=False, comment="When it was recorded."),
        sa.Column("id", sa.Text(), nullable=False, comment="Its id, the same whenever it is sent."),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
        sa.UniqueConstraint("kind", "cause", name="one_event_a_kind_and_cause"),
        comment="One row a notice of what happened.",
    )
    op.create_table(
        "receivers",
        sa.Column(
            "key",
            sa.Text(),
            nullable=False,
            comment="A hash of its address, which may hold a secret.",
        ),
        sa.Column(
            "after",
            sa.Integer(),
            nullable=False,
            comment="The last event before it was first named; it gets the later ones.",
        ),
        sa.PrimaryKeyConstraint("key"),
        comment="One row a webhook or command that events are sent to.",
    )
    op.create_table(
        "deliveries",
        sa.Column("event_id", sa.Text(), nullable=False, comment="The event."),
        sa.Column(
            "receiver",
            sa.Text(),
            nullable=False,
            comment="A hash of the receiver's address, which may hold a secret.",
        ),
        sa.Column("attempts", sa.Integer(), nullable=False, comment="How often it was tried."),
        sa.Column(
            "next_at",
            MOMENT,
            nullable=True,
            comment="When it is tried next; NULL once it is over.",
        ),
        sa.Column("delivered_at", MOMENT, nullable=True, comment="When the receiver accepted it."),
        sa.Column("error", sa.Text(), nullable=True, comment="What went wrong the last time."),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"]),
        sa.ForeignKeyConstraint(["receiver"], ["receivers.key"]),
        sa.PrimaryKeyConstraint("event_id", "receiver"),
        comment="One row an event and a receiver.",
    )
