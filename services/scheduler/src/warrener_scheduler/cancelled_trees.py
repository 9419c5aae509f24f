"""Follow-ups whose tree was cancelled before they came: cancelled as they come, and never dispatched."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts.events import JobCancelRequested, JobCancelRequestedData
from warrener_contracts.messages import Message, to_supervisor
from warrener_scheduler.dispatch_messages import SOURCE
from warrener_store.jobs.rows import JobRow
from warrener_store.store import StateStore


async def find_cancelled(store: StateStore, rows: Sequence[JobRow]) -> Mapping[UUID, str]:
    """Which of these jobs belong to a cancelled tree, and why. They must be in the store already: who marks a
    tree looks for follow-ups afterwards, so one of us finds the other. What is no follow-up costs
    nothing."""
    parents = {row.job_id: row.parent_id for row in rows if row.parent_id and not row.state.terminal}
    if not parents:
        return {}
    trees = await store.cancelled_among(set(parents.values()))
    return {job_id: trees[parent].reason for job_id, parent in parents.items() if parent in trees}


def cancel_messages(reasons: Mapping[UUID, str], now: datetime) -> Iterable[Message]:
    """To the judge, each with what may have followed from it."""
    for job_id, reason in reasons.items():
        event = JobCancelRequested(
            id=f"{job_id}:tree_cancelled",
            source=SOURCE,
            time=now,
            subject=str(job_id),
            data=JobCancelRequestedData(job_id=job_id, reason=reason, tree=True),
        )
        yield to_supervisor(event)
