"""Carry out decisions: save rows and checkpoints, publish messages."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from warrener_contracts import outbox
from warrener_contracts.events import AttemptCheckpointed, AttemptSuspended, Checkpoint
from warrener_contracts.messages import Message
from warrener_contracts.state_machine import JobState
from warrener_runtime.backoff import is_outage
from warrener_runtime.bus.port import Bus
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import publish_all
from warrener_store.errors import StoreRefused
from warrener_store.incidents.rows import RaisedIncident
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.jobs.views import CheckpointRow, FailedAttempt
from warrener_store.store import StateStore, Store
from warrener_store.workflows.rows import TurnRow, arguments_of, journal_json
from warrener_supervisor.decisions import retry_rules
from warrener_supervisor.decisions.context import JobTransition, Timings
from warrener_supervisor.decisions.judge import JobBatch
from warrener_supervisor.decisions.missing_dispatches import jobs_per_message
from warrener_supervisor.decisions.starts import queue_refused_retry
from warrener_supervisor.decisions.suspensions import WITHOUT_SUCCESS
from warrener_supervisor.notifications import FROM_THE_BEGINNING, Resumption, dispatch_message
from warrener_supervisor.trace_spans import JobSpans
from warrener_supervisor.workflow_pages import load_pages

_log = get_logger("act")

JOURNALS_AT_ONCE = 20
_JOURNAL_BYTES = 8 * 1024 * 1024
"""Workflows whose turns are read and published together, and the bytes of their journals: one may have some
MiB."""
JOURNAL_UNREADABLE = "workflow.journal_unreadable"
"""The kind of the incident that a workflow waits because its journal cannot be read or written."""


class Contended(Exception):
    """Others changed the same jobs again and again; the batch is repeated after a pause."""

    outage = True  # it ends by itself, and no message is at fault


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
    plain = [row for row in mine if not row.suspensions]
    resumptions = await load_resumptions(ports, plain)
    messages = [
        dispatch_message(row, now, resumptions.get(row.job_id, FROM_THE_BEGINNING))._replace(
            dispatch_batch=jobs_per_message(row)
        )
        for row in plain
    ]
    refused = await ports.publish(messages)
    await keep_unpublished(ports, refused)
    return len(mine), len(refused) + await publish_turns(ports, [row for row in mine if row.suspensions])


async def render_dispatches(ports: SupervisorPorts, rows: Iterable[JobRow]) -> list[tuple[JobRow, Message]]:
    """Render the dispatches of the current attempts of these jobs from their rows."""
    by_id, found = {row.job_id: row for row in rows}, list[tuple[JobRow, Message]]()
    for some in await divide(ports.store, by_id):
        chosen = [by_id[job_id] for job_id in some]
        resumptions, now = await load_resumptions(ports, chosen), ports.clock.now()
        found += [
            (row, dispatch_message(row, now, resumptions.get(row.job_id, FROM_THE_BEGINNING)))
            for row in chosen
        ]
    return found


async def publish_turns(ports: SupervisorPorts, rows: Sequence[JobRow]) -> int:
    """Publish the current attempts of workflows that have suspended, each with its journal as it is stored.

    Returns how many of them their queue refused. One whose journal cannot be published stops no other: the
    comparison with its queue tries again, less and less often (`redispatch`).
    """
    by_id = {row.job_id: row for row in rows}
    portions = await divide(ports.store, by_id)
    return sum([await _publish_journals(ports, [by_id[each] for each in some]) for some in portions])


async def divide(store: StateStore, job_ids: Collection[UUID]) -> list[list[UUID]]:
    """Divide workflows into those whose journals may be held at once, in order."""
    sizes = await store.journal_sizes(job_ids) if len(job_ids) > 1 else {}
    portions: list[list[UUID]] = []
    size = 0
    for job_id in job_ids:
        size += sizes.get(job_id, 0)
        if not portions or size > _JOURNAL_BYTES or len(portions[-1]) == JOURNALS_AT_ONCE:
            portions.append([])
            size = sizes.get(job_id, 0)
        portions[-1].append(job_id)
    return portions


async def _publish_journals(ports: SupervisorPorts, rows: Sequence[JobRow]) -> int:
    try:
        resumptions, now = await load_resumptions(ports, rows), ports.clock.now()
        messages = [dispatch_message(row, now, resumptions[row.job_id]) for row in rows]
    except Exception as error:
        if is_outage(error):
            raise
        if len(rows) > 1:
            return sum([await _publish_journals(ports, [row]) for row in rows])
        _log.exception(
            "The journal of a workflow could not be read.",
            action="dispatch.failed",
            job_id=str(rows[0].job_id),
        )
        await ports.store.escalations.raise_incidents([unreadable_journal(rows[0], error, ports.clock.now())])
        return 0
    refused = await ports.publish(messages)
    await keep_unpublished(ports, refused)
    return len(refused)


def unreadable_journal(row: JobRow, error: Exception, now: datetime) -> RaisedIncident:
    """Return the incident that a workflow waits because of a bug or a bad value."""
    text = (
        f"workflow {row.job_id} stays {row.state.value} with attempt {row.attempt}, because its journal "
        f"cannot be read or published: {type(error).__name__}: {str(error)[:500]}"
    )
    return RaisedIncident(
        kind=JOURNAL_UNREADABLE,
        fingerprint=f"{JOURNAL_UNREADABLE}:{row.job_type}"[:200],
        occurrence=f"{row.job_id}:{row.attempt}",
        subject=str(row.job_id),
        job_type=row.job_type,
        sample={"text": text},
        raised_at=now,
    )


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


async def load_resumptions(ports: SupervisorPorts, rows: Iterable[JobRow]) -> dict[UUID, Resumption]:
    """Load the checkpoints, journals and histories with which the current attempts of these jobs begin,
    unless they are the first ones."""
    later = {row.job_id: row for row in rows if row.attempt > 1}
    store = ports.store
    checkpoints = await store.checkpoints_of(later) if later else {}
    turns = await store.stored_turns([job_id for job_id, row in later.items() if row.suspensions])
    journals = {job_id: journal_json(some) for job_id, some in turns.items()}
    failed = await store.failed_attempts([job_id for job_id, row in later.items() if row.error is not None])
    avoided = await _avoided_agents(ports, later, failed)
    return {
        job_id: Resumption(
            Checkpoint(number=found.number, state=found.state)
            if (found := checkpoints.get(job_id))
            else None,
            journals.get(job_id),
            retry_rules.history_of(row, failed[job_id]) if job_id in failed else None,
            avoided.get(job_id, ()),
            arguments_of(turns.get(job_id, ())),
            await load_pages(store, job_id, turns.get(job_id, ())),
        )
        for job_id, row in later.items()
    }


async def _avoided_agents(
    ports: SupervisorPorts, rows: Mapping[UUID, JobRow], failed: Mapping[UUID, Sequence[FailedAttempt]]
) -> dict[UUID, tuple[str, ...]]:
    """Return the agents that are to give attempts back, while another one alive serves the queue."""
    avoided = {
        job_id: agents
        for job_id, attempts in failed.items()
        if (agents := retry_rules.agents_to_avoid(rows[job_id], attempts))
    }
    alive = await ports.store.agents(ports.clock.now() - ports.timings.lease) if avoided else []
    return {
        job_id: agents
        for job_id, agents in avoided.items()
        if any(
            rows[job_id].queue in other.queues and other.agent_id not in agents and not other.draining
            for other in alive
        )
    }


async def keep_suspensions(store: StateStore, batches: Iterable[JobBatch], now: datetime) -> set[UUID]:
    """Store the suspensions of turns whose jobs are suspended with them, and of turns that are reported after
    an end, to be undone; return the jobs for which the store refuses that.

    Call it after `save`, also for a repeat: the supervisor that saved may have died before. The calls of
    another attempt are no part of the journal.
    """
    rows = [
        TurnRow(
            job_id=batch.row.job_id,
            attempt=entry.event.data.attempt,
            suspension=entry.event.data.suspension.model_copy(update={"awaits_these": False}),
            suspended_at=now,
        )
        for batch in batches
        for entry, _ in batch.decisions
        if isinstance(entry.event, AttemptSuspended)
        and (
            batch.row.state in WITHOUT_SUCCESS
            or (batch.row.state is JobState.SUSPENDED and entry.event.data.attempt == batch.row.attempt)
        )
    ]
    if not rows:
        return set()
    try:
        await store.keep_suspensions(rows)
    except StoreRefused:
        return {row.job_id for row in rows if not await _keep_suspension(store, row)}
    return set()


async def _keep_suspension(store: StateStore, row: TurnRow) -> bool:
    """Store one suspension, so that a bad one cannot fail the batch; False if it is refused."""
    try:
        await store.keep_suspensions([row])
    except StoreRefused:
        _log.exception(
            "The store refused a suspension, which was parked: its workflow waits for it.",
            action="suspension.refused",
            job_id=str(row.job_id),
        )
        return False
    return True
