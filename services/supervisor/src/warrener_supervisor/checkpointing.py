"""Checkpoints, kept when they are told and given along with the next attempt."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from warrener_contracts.events import AttemptCheckpointed, Checkpoint
from warrener_store.checkpoints import CheckpointRow
from warrener_store.port import StateStore
from warrener_supervisor.batch import JobBatch
from warrener_supervisor.verdicts import JobTransition, Notification


async def save_checkpoints(store: StateStore, judged: Iterable[JobBatch]) -> None:
    """Keep the checkpoints that the judge took for the word of a running attempt.

    Called before what was judged is saved: should we die in between, the event is judged and kept again.
    Afterwards the job may have gone on, and the fence would refuse it.
    """
    rows = [
        _row(entry.event)
        for batch in judged
        for entry, decision in batch.decisions
        if isinstance(entry.event, AttemptCheckpointed) and isinstance(decision, JobTransition)
    ]
    if rows:
        await store.keep_checkpoints(rows)


async def load_for_dispatch(store: StateStore, batches: Sequence[JobBatch]) -> dict[UUID, Checkpoint]:
    """The checkpoints of those whose next attempt is to be dispatched. A success asks nothing."""
    again = [batch.row.job_id for batch in batches if Notification.DISPATCH in batch.notifications]
    if not again:
        return {}
    found = await store.checkpoints_of(again)
    return {job_id: Checkpoint(number=row.number, state=row.state) for job_id, row in found.items()}


def _row(event: AttemptCheckpointed) -> CheckpointRow:
    data = event.data
    return CheckpointRow(
        job_id=data.job_id,
        attempt=data.attempt,
        number=data.checkpoint.number,
        state=data.checkpoint.state,
        saved_at=data.saved_at,
    )
