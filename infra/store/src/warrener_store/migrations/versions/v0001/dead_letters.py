"""Dead letters, redrives and parked messages."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy import CheckConstraint as Rule

from warrener_store.migrations.versions.v0001.columns import (
    ID,
    create_index,
    job_column,
    moment_column,
    text_column,
)

TABLES = (
    "dead_letters",
    "redrives",
    "parked",
)
"""In the order in which they are created."""


def create_tables() -> None:
    op.create_table(
        "warrener_dead_letters",
        job_column(),
        text_column("job_type"),
        sa.Column("attempts", sa.Integer(), nullable=False),
        text_column("reason"),
        text_column("error", nullable=True),
        moment_column("died_at", nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False, server_default=""),
        sa.Column("state", sa.Text(), nullable=False, server_default="open"),
        sa.Column("redrive_id", ID),
        sa.Column("redriven_as", ID),
        sa.Column("redrives", sa.Integer(), nullable=False, server_default="0"),
        moment_column("redriven_at"),
        text_column("note", nullable=True),
        Rule("attempts >= 0", name="attempts_not_negative"),
        Rule(
            "state IN ('open', 'claimed', 'redriven', 'succeeded', 'died_again', 'died', 'reopened', "
            "'rejected', 'already_succeeded', 'dropped')",
            name="dead_letter_state_known",
        ),
    )
    create_index(
        "warrener_dead_letters_redrive",
        "warrener_dead_letters",
        "redrive_id",
        "state",
        "died_at",
        "job_id",
        where="redrive_id IS NOT NULL",
    )
    create_index("warrener_dead_letters_newest", "warrener_dead_letters", "died_at", "job_id")
    create_index(
        "warrener_dead_letters_redriven_as",
        "warrener_dead_letters",
        "redriven_as",
        where="redriven_as IS NOT NULL",
    )
    create_index(
        "warrener_dead_letters_unresolved",
        "warrener_dead_letters",
        "fingerprint",
        "died_at",
        "job_id",
        "state",
        where="state IN ('open', 'reopened', 'rejected')",
    )
    op.create_table(
        "warrener_redrives",
        sa.Column("redrive_id", ID, primary_key=True),
        text_column("kind"),
        text_column("request"),
        text_column("requested_by"),
        text_column("reason"),
        moment_column("requested_at", nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        text_column("state"),
        text_column("stop_reason"),
        text_column("counts"),
        moment_column("started_at", nullable=False),
        text_column("counts_at_start"),
        text_column("journal"),
        moment_column("after_died_at"),
        sa.Column("after_job_id", ID),
        moment_column("wake_at"),
        moment_column("updated_at", nullable=False),
        moment_column("finished_at"),
        Rule("kind IN ('redrive', 'dry_run', 'drop')", name="redrive_kind_known"),
        Rule("state IN ('canary', 'rolling', 'stopped', 'done')", name="redrive_state_known"),
    )
    op.create_table(
        "warrener_parked",
        sa.Column("parked_id", sa.Text(), primary_key=True),
        text_column("queue"),
        text_column("reason"),
        text_column("detail"),
        text_column("content_type", nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        moment_column("parked_at", nullable=False),
        text_column("exchange", nullable=True),
        text_column("routing_key", nullable=True),
        text_column("message_id", nullable=True),
        text_column("type", nullable=True),
        text_column("headers", nullable=True),
        sa.Column("times", sa.Integer(), nullable=False, server_default="1"),
    )
    create_index("warrener_parked_newest", "warrener_parked", "parked_at", "parked_id")
    create_index("warrener_parked_by_queue", "warrener_parked", "queue", "parked_at", "parked_id")
    create_index("warrener_parked_by_reason", "warrener_parked", "reason", "parked_at", "parked_id")
