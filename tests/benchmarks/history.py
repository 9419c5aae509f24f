"""A store with a past: finished jobs by COPY, as fast as PostgreSQL takes them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

_AT_ONCE = 100_000
_COPIED = """
INSERT INTO warrener_job_counts AS held (job_type, state, slot, jobs) VALUES ('past', 'succeeded', 0, $1)
ON CONFLICT (job_type, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
"""
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_POLICY = "{}"


async def fill(database_url: str, count: int) -> None:
    """Add `count` succeeded jobs of the type `past`, each with its attempt, and count them as it does."""
    connection = await asyncpg.connect(database_url)
    try:
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(count, first + _AT_ONCE))
            await connection.copy_records_to_table(
                "warrener_jobs", records=_jobs(numbers), columns=list(_JOB)
            )
            await connection.copy_records_to_table(
                "warrener_attempts", records=_attempts(numbers), columns=list(_ATTEMPT)
            )
            await connection.execute(_COPIED, len(numbers))
        if count:
            await connection.execute("VACUUM ANALYZE")
            await connection.execute("CHECKPOINT")
    finally:
        await connection.close()


_JOB = (
    *(
        "job_id",
        "job_type",
        "queue",
        "arguments",
        "guarantee",
        "policy",
        "source",
        "requested_at",
        "accepted_at",
    ),
    *("fingerprint", "version", "state", "attempt", "failures", "losses", "watchers", "dispatched_at"),
    *("finished_at", "result", "updated_at"),
)
_ATTEMPT = (
    "job_id",
    "attempt",
    "ended_as",
    "agent_id",
    "dispatched_at",
    "started_at",
    "finished_at",
    "verdict",
)


def _jobs(numbers: range) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        at = _at(number)
        yield (
            *(_id(number), "past", "default", '{"payload":"x"}', "idempotent", _POLICY, "bench", at, at),
            *("0" * 32, 2, "succeeded", 1, 0, 0, "[]", at, at, "1", at),
        )


def _attempts(numbers: range) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        at = _at(number)
        yield (_id(number), 1, "succeeded", "past", at, at, at, "done")


def _id(number: int) -> UUID:
    # Version 7, as ours are: what came first sorts first.
    milliseconds = int(_at(number).timestamp() * 1000)
    return UUID(int=milliseconds << 80 | 0x7 << 76 | 0x8 << 60 | number)


def _at(number: int) -> datetime:
    return _BEGINNING + timedelta(milliseconds=number)
