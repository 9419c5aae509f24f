"""Which declarations of schedules were taken up. Safe under the code before: it does not know the table."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "warrener_schedule_declarations",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("fingerprint", sa.Text(), primary_key=True),
        sa.Column("job_type", sa.Text(), nullable=False),
        sa.Column("declared_by", sa.Text(), nullable=False),
        sa.Column("declared_at", _MOMENT, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("warrener_schedule_declarations")
