"""What runs, by the agent that owns it. Safe under the code before: it is an index."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    running = sa.text("state = 'running'")
    op.create_index(
        "warrener_jobs_running",
        "warrener_jobs",
        ["owner"],
        postgresql_where=running,
        sqlite_where=running,
    )


def downgrade() -> None:
    op.drop_index("warrener_jobs_running", "warrener_jobs")
