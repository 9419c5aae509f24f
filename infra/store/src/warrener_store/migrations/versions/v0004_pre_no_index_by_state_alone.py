"""Jobs have no index by state alone: a list of all types takes a page of each type.

Safe under the code before: its lists of all types are right without it too, but read more.
"""

from alembic import op

revision = "0004"
down_revision = "0003"

_NAME, _TABLE = "warrener_jobs_by_state", "warrener_jobs"


def upgrade() -> None:
    op.drop_index(_NAME, _TABLE)


def downgrade() -> None:
    op.create_index(_NAME, _TABLE, ["state", "accepted_at", "job_id"])
