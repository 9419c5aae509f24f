"""A store with a past: finished jobs by COPY, as fast as PostgreSQL takes them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

import asyncpg

_AT_ONCE = 100_000
_COPIED = """
INSERT INTO warrener_job_counts AS held (job_type, queue, state, slot, jobs)
VALUES ('past', 'default', 'succeeded', 0, $1)
ON CONFLICT (job_type, queue, state, slot) DO UPDATE SET jobs = held.jobs + excluded.jobs
"""
_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
_POLICY = "{}"


async def fill(database_url: str, count: int) -> None:
    """Add `count` succeeded jobs of the type `past` as the store keeps them, and count them as it does."""
    connection = await asyncpg.connect(database_url)
    try:
        for first in range(0, count, _AT_ONCE):
            numbers = range(first, min(count, first + _AT_ONCE))
            await connection.copy_records_to_table(
                "warrener_jobs", records=_jobs(numbers), columns=list(_JOB)
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
    *("request_hash", "version", "state", "attempt", "failures", "losses", "agent_id", "watchers"),
    *("dispatched_at", "finished_at", "result", "updated_at", "run_started_at", "run_finished_at"),
)


def _jobs(numbers: range) -> Iterator[tuple[Any, ...]]:
    for number in numbers:
        at = _at(number)
        yield (
            *(_id(number), "past", "default", '{"payload":"x"}', "idempotent", _POLICY, "bench", at, at),
            *("0" * 32, 2, "succeeded", 1, 0, 0, "past", "[]", at, at, "1", at, at, at),
        )


def _id(number: int) -> UUID:
    # Version 5, as those of requests are: in no order, so that new ones go anywhere among them.
    return uuid5(NAMESPACE_URL, f"past {number}")


def _at(number: int) -> datetime:
    return _BEGINNING + timedelta(milliseconds=number)
