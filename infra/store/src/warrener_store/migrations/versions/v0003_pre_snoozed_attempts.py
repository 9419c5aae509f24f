"""An attempt may end as snoozed. Safe under the code before: it writes no such end."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TABLE, _RULE = "warrener_attempts", "end_known"
_BEFORE = ("succeeded", "failed", "cancelled", "released", "timed_out", "lost", "not_started")
_AFTER = (*_BEFORE, "snoozed")
_ID = sa.CHAR(36)
_MOMENT = sa.CHAR(27)


def upgrade() -> None:
    _allow(_AFTER)


def downgrade() -> None:
    op.execute(f"UPDATE {_TABLE} SET ended_as = 'released' WHERE ended_as = 'snoozed'")  # noqa: S608 - ours
    _allow(_BEFORE)


def _allow(ends: tuple[str, ...]) -> None:
    condition = f"ended_as IN ({', '.join(repr(end) for end in ends)})"
    if op.get_context().dialect.name == "sqlite":
        _rebuild(condition)
        return
    op.drop_constraint(_RULE, _TABLE, type_="check")
    # Not valid: every row that is there keeps the new rule, and to read them all for it would take its time.
    op.create_check_constraint(_RULE, _TABLE, condition, postgresql_not_valid=True)


def _rebuild(condition: str) -> None:
    """SQLite cannot change a rule: the rows move to a table that has the other one. Nothing refers to it."""
    op.create_table(
        f"{_TABLE}_new",
        sa.Column("job_id", _ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True),
        sa.Column("attempt", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("ended_as", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text()),
        sa.Column("dispatched_at", _MOMENT),
        sa.Column("started_at", _MOMENT),
        sa.Column("finished_at", _MOMENT, nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.CheckConstraint("attempt >= 1", name="attempt_from_one"),
        sa.CheckConstraint(condition, name=_RULE),
    )
    op.execute(f"INSERT INTO {_TABLE}_new SELECT * FROM {_TABLE}")  # noqa: S608 - ours
    op.drop_table(_TABLE)
    op.rename_table(f"{_TABLE}_new", _TABLE)
