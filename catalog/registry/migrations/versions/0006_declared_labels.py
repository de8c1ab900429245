"""Which survey file or schedule declares a label or a tag."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TABLES = ("run_labels", "run_tags")


def upgrade() -> None:
    declared = "The survey file or schedule that declares it; NULL where it was given by hand."
    for table in _TABLES:
        op.add_column(table, sa.Column("declared_by", sa.Text(), nullable=True, comment=declared))
