"""Consume the requests queue: requests for jobs, and announcements of agents.

One batch is sorted by kind, each kind is carried out, the messages that follow are published, and only then
the batch is acknowledged.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from warrener_contracts.codec import DecodedEvent, refuse
from warrener_contracts.events import AgentAnnounced, AgentAnnouncedData, JobRequested, Reason
from warrener_contracts.inbox import Inbox, ParkedEvent, original_address
from warrener_contracts.messages import Message, batch_parked
from warrener_contracts.parking import park_failure
from warrener_contracts.topology import DEAD, MAX_BODY, MAX_EVENTS, REQUESTS_QUEUE
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger
from warrener_scheduler.accept import JobRequest, RequestAcceptor, log_rejections
from warrener_scheduler.dispatch import CongestedQueues
from warrener_scheduler.job_types import Announcement, AnnouncementHandler, JobTypeCache
from warrener_scheduler.messages import unusable_replies
from warrener_scheduler.ports import SchedulerPorts
from warrener_scheduler.request_keys import RequestKeys

_log = get_logger("accept")

_PARK_CHUNK = 500  # unusable events that are answered and parked before the event loop may run
_HEAVY_OBJECTS = 1_000
"""JSON objects in a message from which it is heavy. Batches of the client have a few hundred."""
_HEAVY_PART = 250  # requests of a heavy message that are accepted before the event loop may run


def is_heavy(delivery: Delivery) -> bool:
    """True if a message may hold so many events that others should not wait for it. Cheap."""
    return len(delivery.body) > 2 * _HEAVY_OBJECTS and delivery.body.count(b"{") > _HEAVY_OBJECTS


class RequestConsumer:
    def __init__(
        self,
        ports: SchedulerPorts,
        acceptor: RequestAcceptor,
        announcements: AnnouncementHandler,
        *,
        job_types: JobTypeCache,
        congestion: CongestedQueues,
        request_keys: RequestKeys | None = None,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._ports, self._acceptor, self._announcements = ports, acceptor, announcements
        self._job_types, self._congestion, self._request_keys = job_types, congestion, request_keys
        self._inbox = Inbox(
            REQUESTS_QUEUE.name, {JobRequested, AgentAnnounced}, limit=MAX_BODY, max_events=max_events
        )
        self._failed: set[tuple[int, int]] = set()  # deliveries whose handling has failed here

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Handle one batch. Raises only if the infrastructure fails, and then nothing is acknowledged.

        Announcements come first: a request may be in the same batch as the first event of its agent.
        """
        try:
            await self._handle(subscription, deliveries)
        except (Exception, asyncio.CancelledError):
            latest = deliveries[-1].epoch  # what is delivered again has the flag of the broker
            self._failed = {key for key in self._failed if key[0] == latest} | _keys(deliveries)
            raise
        if self._failed:
            self._failed -= _keys(deliveries)

    async def _handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        read = await self._inbox.read(deliveries)
        if self._request_keys is not None:
            read = self._request_keys.check(read)
        batch = _sort_events(read, self._failed)
        if batch.announcements:
            await self._announcements.carry_out(batch.announcements)
            self._job_types.invalidate()
        parked: list[Message] = []
        # Parts of a heavy message, or all at once.
        size = _HEAVY_PART if len(deliveries) == 1 else max(len(batch.requests), 1)
        for begin in range(0, len(batch.requests), size):
            part = batch.requests[begin : begin + size]
            messages, rows = await self._acceptor.accept(part)
            parked += (message for message in messages if message.exchange == DEAD)
            messages = [message for message in messages if message.exchange != DEAD]
            refused = await self._ports.publish(messages)
            await self._congestion.record_refusals(refused, rows)
        if parked:
            batches = batch_parked(parked)
            keys = self._request_keys
            await self._ports.publish(batches if keys is None else keys.vouch(batches))
        if batch.unusable:
            await self._reject(batch.unusable)
        await subscription.ack(deliveries)
        _log.debug("Requests were accepted.", action="accept.done", requests=len(batch.requests))

    async def _reject(self, unusable: Sequence[ParkedEvent]) -> None:
        """Answer and park unusable events: after the others, which do not wait for them."""
        self._ports.metrics.record_unreadable(len(unusable))
        log_rejections(Counter(one.failure.reason for one in unusable), unusable[0].failure.detail)
        for begin in range(0, len(unusable), _PARK_CHUNK):
            part, now = unusable[begin : begin + _PARK_CHUNK], self._ports.clock.now()
            messages = [reply for one in part for reply in unusable_replies(one.failure, now)]
            messages += [one.message for one in part]
            await self._ports.publish(batch_parked(messages))


@dataclass(slots=True)
class _RequestBatch:
    """The events of a batch by kind."""

    requests: list[JobRequest] = field(default_factory=list[JobRequest])
    announcements: list[Announcement] = field(default_factory=list[Announcement])
    unusable: list[ParkedEvent] = field(default_factory=list[ParkedEvent])


def _keys(deliveries: Iterable[Delivery]) -> set[tuple[int, int]]:
    return {(delivery.epoch, delivery.tag) for delivery in deliveries}


def _sort_events(
    read: Iterable[tuple[Delivery, Sequence[DecodedEvent | ParkedEvent]]],
    failed: AbstractSet[tuple[int, int]],
) -> _RequestBatch:
    """Sort the events of these messages; each is judged by itself, also within one message."""
    batch = _RequestBatch()
    for delivery, events in read:
        redelivered = delivery.redelivered or (delivery.epoch, delivery.tag) in failed
        for found in events:
            if isinstance(found, ParkedEvent):
                batch.unusable.append(found)
            elif isinstance(found.event, JobRequested):
                batch.requests.append(JobRequest(found.event, found, redelivered))
            elif isinstance(found.event, AgentAnnounced):
                if why := _find_foreign(found.event.data, *original_address(delivery)):
                    failure = refuse(found, Reason.ROUTING_KEY_MISMATCH, why)
                    batch.unusable.append(ParkedEvent(failure, park_failure(failure, REQUESTS_QUEUE.name)))
                else:
                    batch.announcements.append(Announcement(found.event, delivery.user_id))
    return batch


def _find_foreign(data: AgentAnnouncedData, exchange: str, key: str) -> str | None:
    """Return why an announcement may not come by this key; None if it may. A permission of its sender names
    the key, and with it a queue."""
    queue = key.removeprefix("agent.announced").removeprefix(".") or None
    if exchange and data.queue != queue:
        return f"expected an announcement of queue {queue} under {key}, got one of {data.queue}"
    if data.queue is not None and (foreign := data.foreign_types or {*data.queues} - {data.queue}):
        return f"expected job types and queues of {data.queue} alone, got {', '.join(sorted(foreign))}"
    return None
