"""Requeue or drop parked messages, as commands request.

A message is published, confirmed, and only then removed. If the process dies in between, the repeated
command publishes it once more; consumers recognise the repeat by the event's id.
"""

from collections.abc import Sequence
from datetime import timedelta

from warrener_contracts import events, messages
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.topology import STATUS_QUEUE, SUPERVISOR_COMMANDS
from warrener_runtime.bus.port import Bus
from warrener_runtime.bus.types import PublishResult
from warrener_runtime.logs import get_logger
from warrener_store.parked.rows import ParkedFilter, ParkedMessage
from warrener_store.store import StateStore
from warrener_supervisor import SOURCE

_log = get_logger("requeue")

ParkedCommand = events.ParkedRequeueRequested | events.ParkedDropRequested
_BATCH_SIZE = 20  # messages; each may have some MiB
_MAX_EXAMINED = 200  # parked messages of one reason, the newest
_QUEUES = frozenset({STATUS_QUEUE.name, SUPERVISOR_COMMANDS.name})
REQUEUE_INTERVAL = timedelta(seconds=10)  # less than a lease: its attempt is not lost yet
_NAMELESS = ""  # the exchange that routes a message to the queue its routing key names


class ParkedMessageRequeuer:
    """Carries out commands about parked messages."""

    def __init__(self, bus: Bus, store: StateStore) -> None:
        self._bus = bus
        self._store = store
        self._foreign: frozenset[str] = frozenset()  # ids of unknown events, which are read once

    async def carry_out(self, commands: Sequence[ParkedCommand]) -> None:
        """Requeue or drop messages. One that the broker does not confirm stays parked."""
        for command in commands:
            wanted = list(dict.fromkeys(command.data.ids))
            for first in range(0, len(wanted), _BATCH_SIZE):
                ids = wanted[first : first + _BATCH_SIZE]
                found = await self._store.parked(ParkedFilter(ids=ids, oldest_first=True), len(ids))
                done = found if isinstance(command, events.ParkedDropRequested) else await self._sent(found)
                await self._store.forget_parked(done)
                _log.info(
                    "Parked messages were requeued or dropped.",
                    action=f"requeue.{type(command).__name__}",
                    by=command.data.by,
                    messages=len(done),
                    left=len(found) - len(done),
                )

    async def requeue_known(self, parked: Sequence[ParkedMessage]) -> None:
        """Requeue those of these requests whose job type an agent has announced since they were rejected."""
        waiting = [one for one in parked if one.reason == events.Reason.UNKNOWN_JOB_TYPE and one.routing_key]
        known = await self._store.job_types({str(one.routing_key) for one in waiting}) if waiting else {}
        if ids := tuple(one.parked_id for one in waiting if one.routing_key in known):
            data = events.ParkedRequeueRequestedData(ids=ids, by=SOURCE)
            await self.carry_out([events.ParkedRequeueRequested(id="announced", source=SOURCE, data=data)])

    async def requeue_understood(self) -> None:
        """Requeue reports and commands that a supervisor of an earlier release has parked as unknown, and
        that this one knows. While that one lives it may park some again, until a later look."""
        looked_at: list[str] = []
        for reason in (events.Reason.UNKNOWN_EVENT, events.Reason.UNKNOWN_VERSION):
            found = await self._store.parked_summaries(ParkedFilter(reason=reason), _MAX_EXAMINED)
            looked_at += [one.parked_id for one in found if one.queue in _QUEUES]
        unread = [each for each in looked_at if each not in self._foreign]
        ids: list[str] = []
        for first in range(0, len(unread), _BATCH_SIZE):
            some = unread[first : first + _BATCH_SIZE]
            whole = await self._store.parked(ParkedFilter(ids=some), len(some))
            ids += [one.parked_id for one in whole if _is_understood(one)]
        self._foreign = frozenset(looked_at).difference(ids)
        if ids:
            data = events.ParkedRequeueRequestedData(ids=tuple(ids), by=SOURCE)
            await self.carry_out([events.ParkedRequeueRequested(id="understood", source=SOURCE, data=data)])

    async def _sent(self, found: Sequence[ParkedMessage]) -> list[ParkedMessage]:
        whole = [one for one in found if messages.is_complete(one.detail)]
        if not whole:
            return []
        results = await self._bus.publish([requeued_message(one) for one in whole])
        return [one for one, result in zip(whole, results, strict=True) if result is PublishResult.CONFIRMED]


def _is_understood(message: ParkedMessage) -> bool:
    """True if an event in it can be read. Its consumer takes it or parks it for another reason, so none is
    requeued twice, unless an earlier supervisor lives."""
    return any(isinstance(found, DecodedEvent) for found in decode(message.body, message.content_type))


def requeued_message(message: ParkedMessage) -> messages.Message:
    """Return the message for the queue in which it was, so that no other queue of its exchange gets it twice.

    A message that found no queue goes to its original exchange.
    """
    exchange, key = message.exchange, message.routing_key
    unroutable = exchange is not None and key is not None and message.queue == f"{exchange}:{key}"
    came = {
        messages.ORIGINAL_EXCHANGE: exchange,
        messages.ORIGINAL_ROUTING_KEY: key,
        messages.ORIGINAL_MESSAGE_ID: message.message_id,
    }
    return messages.Message(
        exchange=(exchange or _NAMELESS) if unroutable else _NAMELESS,
        routing_key=(key or message.queue) if unroutable else message.queue,
        body=message.body,
        content_type=message.content_type or "application/octet-stream",
        message_id=message.message_id or message.parked_id[:255],
        type=message.type or "requeued",
        headers={**message.headers, **{name: value for name, value in came.items() if value is not None}},
        mandatory=True,
    )
