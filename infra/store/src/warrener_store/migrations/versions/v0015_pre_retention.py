"""Who prunes, and the indexes of open incidents and of old occurrences. Safe under the code before."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")


def upgrade() -> None:
    op.create_table(
        "warrener_pruning",
        sa.Column("one", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("holder", sa.Text(), nullable=False),
        sa.Column("until", _MOMENT, nullable=False),
        sa.CheckConstraint("one = 1", name="one_pruner"),
    )
    condition = sa.text("closed_at IS NULL")
    op.create_index(
        "warrener_cases_open",
        "warrener_cases",
        ["last_seen_at", "fingerprint"],
        postgresql_where=condition,
        sqlite_where=condition,
    )
    op.create_index("warrener_case_entries_raised", "warrener_case_entries", ["raised_at"])


def downgrade() -> None:
    op.drop_index("warrener_case_entries_raised", "warrener_case_entries")
    op.drop_index("warrener_cases_open", "warrener_cases")
    op.drop_table("warrener_pruning")
