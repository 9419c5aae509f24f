"""The attempt by which a job succeeded stands in the job's own row.

The code before goes on writing a row for each attempt; both are read. Nothing is copied.
"""

from alembic import op

revision = "0002"
down_revision = "0001"

_RULE = "CASE WHEN ran_until IS NULL THEN ran_from IS NULL ELSE state = 'succeeded' END"
_AS_ROWS = """
INSERT INTO warrener_attempts (
  job_id, attempt, ended_as, agent_id, dispatched_at, started_at, finished_at, error, verdict
)
SELECT job_id, attempt, 'succeeded', owner, dispatched_at, ran_from, ran_until, NULL, 'done'
FROM warrener_jobs
WHERE ran_until IS NOT NULL
ON CONFLICT DO NOTHING
"""


def upgrade() -> None:
    if _sqlite():
        # SQLite adds no rule to a table that is there, except with a column.
        op.execute("ALTER TABLE warrener_jobs ADD COLUMN ran_from CHAR(27)")
        op.execute(
            "ALTER TABLE warrener_jobs ADD COLUMN ran_until CHAR(27) "
            f"CONSTRAINT ran_only_if_succeeded CHECK ({_RULE})"
        )
        return
    # NOT VALID: it holds for every row that is written from now on; the others have nothing in these columns,
    # and reading ten million of them to see it would keep everybody waiting.
    op.execute(
        "ALTER TABLE warrener_jobs ADD COLUMN ran_from timestamptz, ADD COLUMN ran_until timestamptz, "
        f"ADD CONSTRAINT ran_only_if_succeeded CHECK ({_RULE}) NOT VALID"
    )


def downgrade() -> None:
    op.execute(_AS_ROWS)
    for column in ("ran_until", "ran_from"):
        op.execute(f"ALTER TABLE warrener_jobs DROP COLUMN {column}")


def _sqlite() -> bool:
    return op.get_context().dialect.name == "sqlite"
