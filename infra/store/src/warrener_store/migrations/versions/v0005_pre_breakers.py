"""Circuit breakers. Safe under the code before: it does not know the table."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_TABLE = "warrener_breakers"
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        _TABLE,
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("by_hand", sa.Boolean(), nullable=False),
        sa.Column("since", _MOMENT, nullable=False),
        sa.Column("until", _MOMENT),
        sa.Column("opened", sa.Integer(), nullable=False),
        sa.Column("succeeded", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("job_types", sa.Text(), nullable=False),
        sa.Column("policy", sa.Text(), nullable=False),
        sa.CheckConstraint("state IN ('closed', 'open', 'half_open')", name="breaker_state_known"),
    )


def downgrade() -> None:
    op.drop_table(_TABLE)
