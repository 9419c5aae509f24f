"""Requeue or drop parked messages, as commands request.

A message is published, confirmed, and only then removed. If the process dies in between, the repeated
command publishes it once more; consumers recognise the repeat by the event's id.

It goes out with the supervisor's rights, so it is confined to those of its sender. Its consumer compares the
address by which it came first. A message of a dispatch queue, which an agent has parked, is not published at
all: its job's row says what is dispatched. One that found no queue goes back by the exchange at which the
broker took it, if that is of ours.
"""

from collections.abc import Sequence
from datetime import timedelta
from itertools import compress

from warrener_contracts import events, messages, topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AttemptDispatched
from warrener_contracts.topology import REQUESTS, REQUESTS_QUEUE, STATUS_QUEUE, SUPERVISOR_COMMANDS
from warrener_runtime.bus.types import PublishResult
from warrener_runtime.logs import get_logger
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.views import DISPATCHED
from warrener_store.parked.rows import ParkedFilter, ParkedMessage
from warrener_supervisor import SOURCE, effects
from warrener_supervisor.effects import SupervisorPorts

_log = get_logger("requeue")

ParkedCommand = events.ParkedRequeueRequested | events.ParkedDropRequested
_BATCH_SIZE = 20  # messages; each may have some MiB
_MAX_EXAMINED = 200  # parked messages of one reason, the newest
_QUEUES = frozenset({STATUS_QUEUE.name, SUPERVISOR_COMMANDS.name})
_OWN_QUEUES = frozenset({REQUESTS_QUEUE.name, topology.TRIGGERS_QUEUE.name, topology.LOGS_QUEUE.name}) | {
    queue.name for queue in (STATUS_QUEUE, *topology.COMMAND_QUEUES)
}
_DISPATCH_QUEUES = topology.dispatch_queue("").name
_WITH_ALTERNATE = frozenset({topology.STATUS, topology.DELAY, topology.RETURN})
"""Exchanges of events from which a message that found no queue comes to the supervisor."""
REQUEUE_INTERVAL = timedelta(seconds=10)  # less than a lease: its attempt is not lost yet
_NAMELESS = ""  # the exchange that routes a message to the queue its routing key names


class ParkedMessageRequeuer:
    """Carries out commands about parked messages."""

    def __init__(self, ports: SupervisorPorts) -> None:
        self._ports, self._bus, self._store = ports, ports.bus, ports.store
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
        waiting = [
            one
            for one in parked
            if one.reason == events.Reason.UNKNOWN_JOB_TYPE
            and (one.queue, one.exchange) == (REQUESTS_QUEUE.name, REQUESTS)
        ]
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
        done = await self._dispatched([one for one in whole if is_dispatch_queue(one.queue)])
        if not (wanted := [one for one in whole if one.queue in _OWN_QUEUES or _is_unroutable(one)]):
            return done
        results = await self._bus.publish([requeued_message(one) for one in wanted])
        confirmed = [result is PublishResult.CONFIRMED for result in results]
        return [*done, *compress(wanted, confirmed)]

    async def _dispatched(self, found: Sequence[ParkedMessage]) -> list[ParkedMessage]:
        """Dispatch the attempts of these messages that still wait; return the messages that could be read."""
        read = [(one, dispatches_in(one.body, one.content_type, topology.MAX_EVENTS)) for one in found]
        known = [(one, dispatches) for one, dispatches in read if dispatches is not None]
        ids = {event.data.job_id for _, dispatches in known for event in dispatches}
        rows = await self._store.jobs_by_id(ids) if ids else {}
        wanted = {
            row.job_id: row
            for one, dispatches in known
            for event in dispatches
            if (row := rows.get(event.data.job_id)) is not None and awaits(row, event, one.queue)
        }
        rendered = await effects.render_dispatches(self._ports, wanted.values())
        refused = await self._ports.publish([message for _, message in rendered])
        await effects.keep_unpublished(self._ports, refused)
        return [one for one, _ in known]


def is_dispatch_queue(queue: str) -> bool:
    """True if agents take attempts from this queue, and park for it."""
    return queue.startswith(_DISPATCH_QUEUES)


def dispatches_in(body: bytes, content_type: str | None, max_events: int) -> list[AttemptDispatched] | None:
    """Return the dispatches of a message; None if it has anything else in it, or nothing."""
    found = decode(body, content_type, max_events=max_events)
    events = [one.event for one in found if isinstance(one, DecodedEvent)]
    dispatches = [event for event in events if isinstance(event, AttemptDispatched)]
    return dispatches if dispatches and len(dispatches) == len(found) else None


def awaits(row: JobRow, event: AttemptDispatched, queue: str) -> bool:
    """True if the job waits in this queue for the attempt that is dispatched."""
    return (
        row.attempt == event.data.attempt
        and row.state in DISPATCHED
        and topology.dispatch_queue(row.queue).name == queue
    )


def _is_unroutable(message: ParkedMessage) -> bool:
    is_own = message.exchange in _WITH_ALTERNATE
    return is_own and message.queue == f"{message.exchange}:{message.routing_key}"


def _is_understood(message: ParkedMessage) -> bool:
    """True if an event in it can be read. Its consumer takes it or parks it for another reason, so none is
    requeued twice, unless an earlier supervisor lives."""
    return any(isinstance(found, DecodedEvent) for found in decode(message.body, message.content_type))


def requeued_message(message: ParkedMessage) -> messages.Message:
    """Return the message for the queue in which it was, so that no other queue of its exchange gets it twice.

    A message that found no queue goes to its original exchange: never to that of requests, since the bus
    would sign for this service what it publishes there.
    """
    exchange, key, queue = message.exchange, message.routing_key, message.queue
    unroutable = _is_unroutable(message)
    came = {
        messages.ORIGINAL_EXCHANGE: exchange,
        messages.ORIGINAL_ROUTING_KEY: key,
        messages.ORIGINAL_MESSAGE_ID: message.message_id,
    }
    return messages.Message(
        exchange=(exchange or _NAMELESS) if unroutable else _NAMELESS,
        routing_key=(key or queue) if unroutable else queue,
        body=message.body,
        content_type=message.content_type or "application/octet-stream",
        message_id=message.message_id or message.parked_id[:255],
        type=message.type or "requeued",
        headers=messages.forwarded_headers({**message.headers, **came}),
        mandatory=True,
    )
