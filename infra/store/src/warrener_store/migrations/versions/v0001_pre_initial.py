"""All tables of version 1.0."""

from alembic import op

from warrener_store.migrations.versions.v0001 import (
    access,
    dead_letters,
    incidents,
    jobs,
    schedules,
    services,
    statistics,
)

revision = "0001"
down_revision = None

_AGGREGATES = (jobs, dead_letters, incidents, schedules, services, access, statistics)
"""In the order in which they are created: dead letters belong to jobs."""


def upgrade() -> None:
    for aggregate in _AGGREGATES:
        aggregate.create_tables()


def downgrade() -> None:
    for aggregate in reversed(_AGGREGATES):
        for table in reversed(aggregate.TABLES):
            op.drop_table(f"warrener_{table}")
