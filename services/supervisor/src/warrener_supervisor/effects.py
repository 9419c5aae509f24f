"""Carry out decisions: save rows and checkpoints, publish messages."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from warrener_contracts import outbox
from warrener_contracts.events import AttemptCheckpointed, Checkpoint
from warrener_contracts.messages import Message
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import publish_all
from warrener_store.errors import StoreRefused
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import CheckpointRow
from warrener_store.store import StateStore, Store
from warrener_supervisor.decisions.context import JobTransition, Timings
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.decisions.missing_dispatches import jobs_per_message
from warrener_supervisor.decisions.starts import queue_refused_retry
from warrener_supervisor.notifications import dispatch_message
from warrener_supervisor.trace_spans import JobSpans

_log = get_logger("act")


class SupervisorPorts(NamedTuple):
    """The surroundings that the parts of a supervisor share."""

    bus: Bus
    store: Store
    clock: Clock
    timings: Timings

    async def publish(self, messages: Iterable[Message]) -> list[tuple[UUID, int]]:
        """Publish in as few messages as possible and return once the broker has confirmed them.

        Declares missing queues. Returns the attempts whose queue refused their dispatch (`keep_unpublished`).
        Raises what `publish_all` raises; then nothing may be acknowledged.
        """
        deferred = await publish_all(
            self.bus,
            outbox.combine(messages),
            clock=self.clock,
            may_defer=outbox.may_defer,
            missing=outbox.missing_topology,
        )
        return outbox.deferred_attempts(deferred)


async def keep_unpublished(ports: SupervisorPorts, refused: Sequence[tuple[UUID, int]]) -> None:
    """Mark refused dispatches, to be published later (`unpublished`); queue those of retries that are due."""
    if not refused:
        return
    store, now = ports.store, ports.clock.now()
    attempts = {job_id: attempt for job_id, attempt in refused if attempt > 1}
    rows = await store.jobs_by_id(attempts.keys()) if attempts else {}
    due = [queue_refused_retry(row, attempts[job_id], now) for job_id, row in rows.items()]
    saves = [Save(row) for row in due if row is not None]
    queued = await store.save_jobs(saves) if saves else set[UUID]()
    await store.mark_unpublished([each for each in refused if each[0] not in queued], now)


async def publish_again(ports: SupervisorPorts, rows: Sequence[JobRow], spans: JobSpans) -> tuple[int, int]:
    """Publish the current attempts of queued jobs again, except jobs that others have changed since.

    Returns how many were published, and how many of these their queue refused. A repeat keeps its attempt
    number, so agents and the ledger make it harmless. A save decides which of several supervisors
    publishes, and sets `dispatched_at` first; if this process dies before it publishes, the comparison
    with the queue finds the job (`redispatch`).
    """
    store, now = ports.store, ports.clock.now()
    again = [evolve(row, version=row.version + 1, dispatched_at=now, updated_at=now) for row in rows]
    applied = await store.save_jobs([Save(row) for row in again])
    mine = [row for row in again if row.job_id in applied]
    spans.record_waits_until(now, [row for row in rows if row.job_id in applied])
    if not mine:
        return 0, 0
    checkpoints = await load_checkpoints(store, [row.job_id for row in mine if row.attempt > 1])
    messages = [
        dispatch_message(row, now, checkpoints.get(row.job_id))._replace(dispatch_batch=jobs_per_message(row))
        for row in mine
    ]
    refused = await ports.publish(messages)
    await keep_unpublished(ports, refused)
    return len(mine), len(refused)


async def save(store: StateStore, batches: Sequence[JobBatch]) -> tuple[set[UUID], set[UUID]]:
    """Save the transitions; return the jobs that were saved, and those that the store refuses.

    A refused save is a bug or a poisonous value. Saves are then repeated one by one, so that a single bad
    row cannot fail the batch.
    """
    changes = [each for each in batches if each.saves]
    if not changes:
        return set(), set()
    try:
        return await store.save_jobs([save for each in changes for save in _saves(each)]), set()
    except StoreRefused:
        pass
    applied: set[UUID] = set()
    refused: set[UUID] = set()
    for each in changes:
        try:
            applied |= await store.save_jobs(_saves(each))
        except StoreRefused:
            refused.add(each.row.job_id)
            _log.exception(
                "The store refused a transition; its events are parked.",
                action="transition.refused",
                job_id=str(each.row.job_id),
            )
    return applied, refused


def _saves(batch: JobBatch) -> list[Save]:
    return [Save(row, attempt, dead_letter) for row, _, attempt, dead_letter, _ in batch.saves]


async def save_checkpoints(store: StateStore, judged: Iterable[JobBatch]) -> None:
    """Save the checkpoints of running attempts.

    Call it before `save`: after a crash in between, the event is judged and its checkpoint saved again.
    The other way round the job may have gone on, and the fence would refuse it.
    """
    rows = [
        CheckpointRow(
            job_id=data.job_id,
            attempt=data.attempt,
            number=data.checkpoint.number,
            state=data.checkpoint.state,
            saved_at=data.saved_at,
        )
        for batch in judged
        for entry, decision in batch.decisions
        if isinstance(entry.event, AttemptCheckpointed) and isinstance(decision, JobTransition)
        for data in [entry.event.data]
    ]
    if rows:
        await store.keep_checkpoints(rows)


async def load_checkpoints(store: StateStore, job_ids: Collection[UUID]) -> dict[UUID, Checkpoint]:
    """Load the checkpoints with which the next attempts of these jobs begin."""
    found = await store.checkpoints_of(job_ids) if job_ids else {}
    return {job_id: Checkpoint(number=row.number, state=row.state) for job_id, row in found.items()}
