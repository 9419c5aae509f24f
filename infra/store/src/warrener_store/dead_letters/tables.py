"""The tables of dead letters and redrives."""

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text
from sqlalchemy import text as sql

from warrener_store.databases.tables import ID, METADATA, moment, one_of, rule, text
from warrener_store.dead_letters.rows import UNRESOLVED, DeadLetterState, RedriveKind, RedriveState
from warrener_store.jobs.tables import jobs

dead_letters = Table(
    "warrener_dead_letters",
    METADATA,
    Column("job_id", ID, ForeignKey(jobs.c.job_id, ondelete="CASCADE"), primary_key=True),
    text("job_type"),
    Column("attempts", Integer(), nullable=False),
    text("reason"),
    text("error", nullable=True),
    moment("died_at", nullable=False),
    Column("fingerprint", Text(), nullable=False, server_default=""),
    # How far it has been dealt with.
    Column("state", Text(), nullable=False, server_default=DeadLetterState.OPEN.value),
    Column("redrive_id", ID),
    Column("redriven_as", ID),
    Column("redrives", Integer(), nullable=False, server_default="0"),
    moment("redriven_at"),
    text("note", nullable=True),
    rule("attempts_not_negative", "attempts >= 0"),
    rule("dead_letter_state_known", one_of("state", DeadLetterState)),
)
Index("warrener_dead_letters_newest", dead_letters.c.died_at, dead_letters.c.job_id)
# Groups by cause, and the dead letters of one cause from the first on: only those that are unresolved. SQLite
# compares the state of each all the same: with it in the index, counts read no row.
Index(
    "warrener_dead_letters_unresolved",
    dead_letters.c.fingerprint,
    dead_letters.c.died_at,
    dead_letters.c.job_id,
    dead_letters.c.state,
    postgresql_where=sql(one_of("state", UNRESOLVED)),
    sqlite_where=sql(one_of("state", UNRESOLVED)),
)
Index(
    "warrener_dead_letters_redrive",
    dead_letters.c.redrive_id,
    dead_letters.c.state,
    dead_letters.c.died_at,
    dead_letters.c.job_id,
    postgresql_where=sql("redrive_id IS NOT NULL"),
    sqlite_where=sql("redrive_id IS NOT NULL"),
)
Index(
    "warrener_dead_letters_redriven_as",
    dead_letters.c.redriven_as,
    postgresql_where=sql("redriven_as IS NOT NULL"),
    sqlite_where=sql("redriven_as IS NOT NULL"),
)

redrives = Table(
    "warrener_redrives",
    METADATA,
    # The request; never changes.
    Column("redrive_id", ID, primary_key=True),
    text("kind"),
    text("request"),
    text("requested_by"),
    text("reason"),
    moment("requested_at", nullable=False),
    # The progress.
    Column("version", Integer(), nullable=False),
    text("state"),
    text("stop_reason"),
    text("counts"),
    moment("started_at", nullable=False),
    text("counts_at_start"),
    text("journal"),
    moment("after_died_at"),
    Column("after_job_id", ID),
    moment("wake_at"),
    moment("updated_at", nullable=False),
    moment("finished_at"),
    rule("redrive_kind_known", one_of("kind", RedriveKind)),
    rule("redrive_state_known", one_of("state", RedriveState)),
)
"""One row a redrive: a handful a day, so no index but the key."""
