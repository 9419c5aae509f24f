"""How often a job has snoozed. Its row counts attempts, failures and losses; what is left are snoozes, unless
attempts were given back or held back. So where the rest comes to the limit, the attempts are counted."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from warrener_contracts.events import AttemptFailed
from warrener_store.port import StateStore
from warrener_store.rows import AttemptEnd, JobRow
from warrener_supervisor.batch import JudgedEvent
from warrener_supervisor.delays import count_uncharged


async def count_snoozes(
    store: StateStore, rows: Mapping[UUID, JobRow], entries: Mapping[UUID, Sequence[JudgedEvent]]
) -> dict[UUID, int]:
    """By job, for those that snooze now and may have come to their limit: none, as a rule, and then nothing
    is asked."""
    return {
        job_id: await _snoozes(store, job_id)
        for job_id, row in rows.items()
        if count_uncharged(row) >= row.policy.max_snoozes
        and any(_snoozes_now(entry) for entry in entries[job_id])
    }


async def _snoozes(store: StateStore, job_id: UUID) -> int:
    attempts = await store.attempts_of(job_id)
    return sum(one.end is AttemptEnd.SNOOZED and one.error is None for one in attempts)  # charged: an error


def _snoozes_now(entry: JudgedEvent) -> bool:
    return isinstance(entry.event, AttemptFailed) and entry.event.data.snoozed
