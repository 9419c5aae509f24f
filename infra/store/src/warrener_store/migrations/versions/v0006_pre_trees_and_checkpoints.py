"""Tables for cancelled trees and for checkpoints. Safe under the code before: it knows neither."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "warrener_cancelled_trees",
        sa.Column("job_id", _ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("cancelled_at", _MOMENT, nullable=False),
    )
    op.create_table(
        "warrener_checkpoints",
        sa.Column("job_id", _ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text()),
        sa.Column("saved_at", _MOMENT, nullable=False),
        sa.CheckConstraint("number >= 1", name="number_from_one"),
    )


def downgrade() -> None:
    op.drop_table("warrener_checkpoints")
    op.drop_table("warrener_cancelled_trees")
