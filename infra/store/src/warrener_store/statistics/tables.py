"""The tables of statistics and of the versions of code."""

from sqlalchemy import Column, Index, Integer, Table, Text

from warrener_store.databases.tables import FRACTION, ID, METADATA, MOMENT, moment, one_of, rule, text
from warrener_store.statistics.rows import SeriesKind

statistics = Table(
    "warrener_statistics",
    METADATA,
    Column("span", Integer(), primary_key=True, autoincrement=False),
    Column("kind", Text(), primary_key=True),
    Column("name", Text(), primary_key=True),
    Column("starts_at", MOMENT, primary_key=True),
    Column("code_version", Text(), primary_key=True),
    Column("succeeded", Integer(), nullable=False),
    Column("dead", Integer(), nullable=False),
    Column("cancelled", Integer(), nullable=False),
    Column("expired", Integer(), nullable=False),
    Column("failed_attempts", Integer(), nullable=False),
    Column("lost_attempts", Integer(), nullable=False),
    Column("duration_sum", FRACTION, nullable=False),
    Column("duration_max", FRACTION, nullable=False),
    text("durations"),
    Column("queue_time_sum", FRACTION, nullable=False),
    Column("queue_time_max", FRACTION, nullable=False),
    text("queue_times"),
    rule("series_kind_known", one_of("kind", SeriesKind)),
)
"""One row for each series, span of time and version of the code. A series is read by a range of the key."""

statistics_causes = Table(
    "warrener_statistics_causes",
    METADATA,
    Column("span", Integer(), primary_key=True, autoincrement=False),
    Column("job_type", Text(), primary_key=True),
    Column("starts_at", MOMENT, primary_key=True),
    Column("fingerprint", Text(), primary_key=True),
    Column("jobs", Integer(), nullable=False),
    text("error_type"),
    text("message"),
)

statistics_position = Table(
    "warrener_statistics_position",
    METADATA,
    Column("one", Integer(), primary_key=True),
    Column("revision", Integer(), nullable=False),
    moment("finished_at", nullable=False),
    Column("job_id", ID, nullable=False),
    moment("complete_until", nullable=False),
    rule("one_position", "one = 1"),
)
"""One row: how far jobs are rolled up. It changes with the buckets, in one transaction."""

deploys = Table(
    "warrener_deploys",
    METADATA,
    Column("job_type", Text(), primary_key=True),
    Column("first_seen_at", MOMENT, primary_key=True),
    Column("code_version", Text(), primary_key=True),
    moment("last_seen_at", nullable=False),
    text("schema_hash"),
)
Index("warrener_deploys_newest", deploys.c.first_seen_at)

agent_versions = Table(
    "warrener_agent_versions",
    METADATA,
    Column("agent_id", Text(), primary_key=True),
    Column("since", MOMENT, primary_key=True),
    text("code_version"),
)
Index("warrener_agent_versions_since", agent_versions.c.since)
