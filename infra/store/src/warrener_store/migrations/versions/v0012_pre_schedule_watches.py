"""What the supervisor watches schedules for, and why one is paused. Safe under the code before: it names its
columns, and the new one has a value of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")
_FRACTION: sa.Double[float] = sa.Double()


def upgrade() -> None:
    op.add_column("warrener_schedules", sa.Column("paused_why", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "warrener_schedule_watches",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("pause_after", sa.Integer()),
        sa.Column("success_within", _FRACTION),
        sa.Column("since", _MOMENT, nullable=False),
        sa.Column("look_at", _MOMENT, nullable=False),
        sa.Column("success_tick", _MOMENT),
        sa.Column("succeeded_at", _MOMENT),
        sa.CheckConstraint(
            "pause_after IS NOT NULL OR success_within IS NOT NULL", name="something_expected"
        ),
    )
    op.create_index("warrener_schedule_watches_due", "warrener_schedule_watches", ["look_at", "name"])


def downgrade() -> None:
    op.drop_table("warrener_schedule_watches")
    op.drop_column("warrener_schedules", "paused_why")
