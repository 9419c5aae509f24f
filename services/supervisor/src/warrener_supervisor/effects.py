"""Carrying out: what was judged is saved, what is to be told is published."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from warrener_contracts.codec import dispatched_attempts
from warrener_contracts.messages import Message, batch_messages
from warrener_contracts.topology import DELAY, DISPATCH, EVENTS, Topology, dispatch_queue
from warrener_runtime.bus.port import Bus, OutgoingMessage
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import UnroutableMessages, publish_or_defer
from warrener_store.port import Save, StateStore, StoreRefused
from warrener_supervisor.batch import JobBatch

_log = get_logger("act")


async def publish(bus: Bus, messages: Iterable[Message], clock: Clock) -> list[tuple[UUID, int]]:
    """Return once the broker has confirmed these, in as few messages as they fit; the attempts whose queue
    did not take their dispatch (`keep_unpublished`). The queue of a dispatch is declared if it is missing.

    Raises what `publish_or_defer` raises; nothing may be acknowledged then.
    """
    unique = batch_messages({message.message_id: message for message in messages}.values())
    if not unique:
        return []
    try:
        left = await publish_or_defer(bus, unique, clock=clock, may_defer=_may_leave)
    except UnroutableMessages as stray:
        strays = {message.message_id for message in stray.messages}
        homeless = [message for message in unique if message.message_id in strays]
        queues = sorted({_queue_of(message) for message in homeless if message.exchange == DISPATCH})
        _log.warning(
            "Queues of dispatched attempts are missing: declared.", action="act.declare", queues=queues
        )
        await bus.declare(Topology((), tuple(dispatch_queue(queue) for queue in queues)))
        again = await publish_or_defer(bus, homeless, clock=clock, may_defer=_may_leave)
        left = [*stray.deferred, *again]
    dispatches = (message for message in left if message.exchange != EVENTS)
    return [
        each for message in dispatches for each in dispatched_attempts(message.body, message.content_type)
    ]


async def keep_unpublished(store: StateStore, refused: Sequence[tuple[UUID, int]], clock: Clock) -> None:
    """Note which dispatches the broker has not taken: they are published later (`redispatch`)."""
    if refused:
        await store.mark_unpublished(refused, clock.now())


async def save(store: StateStore, batches: Sequence[JobBatch]) -> tuple[set[UUID], set[UUID]]:
    """Save what was judged; the jobs of which it was applied, and those whose change the store refuses.

    A refused change is a bug or a poisonous value: the others of its batch must not suffer for it.
    """
    changes = [each for each in batches if each.saves]
    if not changes:
        return set(), set()
    try:
        return await store.save_jobs([change for each in changes for change in each.saves]), set()
    except StoreRefused:
        return await _save_one_by_one(store, changes)


async def _save_one_by_one(store: StateStore, changes: Sequence[JobBatch]) -> tuple[set[UUID], set[UUID]]:
    applied: set[UUID] = set()
    refused: set[UUID] = set()
    for each in changes:
        saves: list[Save] = each.saves
        try:
            applied |= await store.save_jobs(saves)
        except StoreRefused:
            refused.add(each.row.job_id)
            _log.exception(
                "The store refuses what was judged: the events are parked.",
                action="act.refused",
                job_id=str(each.row.job_id),
            )
    return applied, refused


def _may_leave(message: OutgoingMessage) -> bool:
    """A dispatch is kept in the store; an event that a subscriber's queue refuses is his loss alone."""
    return message.exchange in {DISPATCH, DELAY, EVENTS}


def _queue_of(dispatch: Message) -> str:
    return dispatch.routing_key.partition(".")[0]
