"""Checkpoints, kept when they are told and given along with the next attempt."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from warrener_contracts.events import AttemptCheckpointed, Checkpoint
from warrener_store.checkpoints import CheckpointRow
from warrener_store.port import StateStore
from warrener_supervisor.fold import Folded
from warrener_supervisor.verdicts import Judgement, Tell


async def keep(store: StateStore, judged: Iterable[Folded]) -> None:
    """Keep the checkpoints that the judge took for the word of a running attempt.

    Called before what was judged is saved: should we die in between, the event is judged and kept again.
    Afterwards the job may have gone on, and the fence would refuse it.
    """
    told = [
        _row(case.event)
        for folded in judged
        for case, ruling in folded.rulings
        if isinstance(case.event, AttemptCheckpointed) and isinstance(ruling, Judgement)
    ]
    if told:
        await store.keep_checkpoints(told)


async def for_dispatch(store: StateStore, told: Sequence[Folded]) -> dict[UUID, Checkpoint]:
    """The checkpoints of those whose next attempt is to be dispatched. A success asks nothing."""
    again = [folded.row.job_id for folded in told if Tell.DISPATCH in folded.tells]
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
