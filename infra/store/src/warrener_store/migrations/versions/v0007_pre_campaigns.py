"""Dead letters have a fingerprint and a state; campaigns deal with many of them.

Safe under the code before: it writes the columns that it knows, and the others have defaults.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_TABLE = "warrener_dead_letters"
_ID = sa.Uuid().with_variant(sa.CHAR(36), "sqlite")
_MOMENT = sa.DateTime(timezone=True).with_variant(sa.CHAR(27), "sqlite")
_STATES = (
    "state IN ('open', 'taken', 'asked', 'succeeded', 'returned', 'died', 'ended', 'refused', "
    "'overtaken', 'dropped')"
)
_INDEXES = {
    "unresolved": (("fingerprint", "died_at", "job_id"), "state IN ('open', 'ended', 'refused')"),
    "campaign": (("campaign_id", "state", "died_at", "job_id"), "campaign_id IS NOT NULL"),
    "redriven_as": (("redriven_as",), "redriven_as IS NOT NULL"),
}


def upgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        _add_columns("CHAR(36)", "CHAR(27)")
    else:
        _add_columns("uuid", "timestamptz")
    for name, (columns, where) in _INDEXES.items():
        op.create_index(
            f"{_TABLE}_{name}",
            _TABLE,
            list(columns),
            postgresql_where=sa.text(where),
            sqlite_where=sa.text(where),
        )
    _make_campaigns()


def _add_columns(id_type: str, moment_type: str) -> None:
    """One by one, as SQLite wants it; each with its default, so that no row is written again."""
    for column in (
        "fingerprint TEXT NOT NULL DEFAULT ''",
        f"state TEXT NOT NULL DEFAULT 'open' CONSTRAINT letter_state_known CHECK ({_STATES})",
        f"campaign_id {id_type}",
        f"redriven_as {id_type}",
        "redrives INTEGER NOT NULL DEFAULT 0",
        f"asked_at {moment_type}",
        "note TEXT",
    ):
        op.execute(f"ALTER TABLE {_TABLE} ADD COLUMN {column}")


def _make_campaigns() -> None:
    op.create_table(
        "warrener_campaigns",
        sa.Column("campaign_id", _ID, primary_key=True),
        *(_text(name) for name in ("kind", "told", "asked_by", "reason")),
        sa.Column("asked_at", _MOMENT, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        *(_text(name) for name in ("state", "why", "counts")),
        sa.Column("began_at", _MOMENT, nullable=False),
        *(_text(name) for name in ("since", "journal")),
        sa.Column("after_died_at", _MOMENT),
        sa.Column("after_job_id", _ID),
        sa.Column("wake_at", _MOMENT),
        sa.Column("updated_at", _MOMENT, nullable=False),
        sa.Column("finished_at", _MOMENT),
        sa.CheckConstraint("kind IN ('redrive', 'dry_run', 'drop')", name="campaign_kind_known"),
        sa.CheckConstraint("state IN ('canary', 'rolling', 'stopped', 'done')", name="campaign_state_known"),
    )


def downgrade() -> None:
    op.drop_table("warrener_campaigns")
    for name in _INDEXES:
        op.drop_index(f"{_TABLE}_{name}", _TABLE)
    if op.get_context().dialect.name == "sqlite":
        _rebuild()
        return
    for column in ("note", "asked_at", "redrives", "redriven_as", "campaign_id", "state", "fingerprint"):
        op.execute(f"ALTER TABLE {_TABLE} DROP COLUMN {column}")


def _rebuild() -> None:
    """SQLite drops no column that a rule names: the rows move to a table without it."""
    op.create_table(
        f"{_TABLE}_new",
        sa.Column("job_id", _ID, sa.ForeignKey("warrener_jobs.job_id", ondelete="CASCADE"), primary_key=True),
        _text("job_type"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        _text("reason"),
        sa.Column("error", sa.Text()),
        sa.Column("died_at", _MOMENT, nullable=False),
        sa.CheckConstraint("attempts >= 0", name="attempts_not_negative"),
    )
    op.execute(
        f"INSERT INTO {_TABLE}_new SELECT job_id, job_type, attempts, reason, error, died_at "  # noqa: S608 - ours
        f"FROM {_TABLE}"
    )
    op.drop_table(_TABLE)
    op.rename_table(f"{_TABLE}_new", _TABLE)
    op.create_index("warrener_dead_letters_newest", _TABLE, ["died_at", "job_id"])


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=False)
