"""Consume the requests queue: requests for jobs, and announcements of agents.

One batch is sorted by kind, each kind is carried out, the messages that follow are published, and only then
the batch is acknowledged.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from warrener_contracts.codec import DecodedEvent, DecodeFailure
from warrener_contracts.events import AgentAnnounced, JobRequested, Reason
from warrener_contracts.inbox import decode_all
from warrener_contracts.messages import Message, batch_parked
from warrener_contracts.parking import park_event
from warrener_contracts.topology import DEAD, MAX_BODY, MAX_EVENTS, REQUESTS_QUEUE
from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.accept import JobRequest, RequestAcceptor, log_rejections
from warrener_scheduler.dispatch_gates import CongestedQueues
from warrener_scheduler.job_types import AnnouncementHandler, JobTypeCache
from warrener_scheduler.messages import unreadable_messages
from warrener_scheduler.metrics import SchedulerMetrics
from warrener_scheduler.publishing import publish

_log = get_logger("accept")

_PARK_CHUNK = 500
"""Unreadable events that are answered and parked before the event loop may run."""
_HEAVY_OBJECTS = 1_000
"""JSON objects in a message from which it is heavy. Batches of the client have a few hundred."""
_HEAVY_PART = 250
"""Requests of a heavy message that are accepted before the event loop may run."""


def is_heavy(delivery: Delivery) -> bool:
    """True if a message may hold so many events that others should not wait for it. Cheap."""
    return len(delivery.body) > 2 * _HEAVY_OBJECTS and delivery.body.count(b"{") > _HEAVY_OBJECTS


class RequestConsumer:
    """Handles the requests queue."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        acceptor: RequestAcceptor,
        announcements: AnnouncementHandler,
        *,
        job_types: JobTypeCache,
        congestion: CongestedQueues,
        metrics: SchedulerMetrics | None = None,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._metrics = metrics or SchedulerMetrics()
        self._bus = bus
        self._clock = clock
        self._acceptor = acceptor
        self._announcements = announcements
        self._job_types = job_types
        self._congestion = congestion
        self._max_events = max_events
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
        read = await decode_all(deliveries, limit=MAX_BODY, max_events=self._max_events)
        batch = _sort_events(read, self._failed)
        if batch.announcements:
            await self._announcements.carry_out(batch.announcements)
            self._job_types.invalidate()
        parked = batch.misrouted
        for part in _parts(batch.requests, _HEAVY_PART if len(deliveries) == 1 else None):
            messages, rows = await self._acceptor.accept(part)
            parked += (message for message in messages if message.exchange == DEAD)
            messages = [message for message in messages if message.exchange != DEAD]
            refused = await publish(self._bus, messages, self._clock)
            await self._congestion.record_refusals(refused, rows)
        if parked:
            await publish(self._bus, batch_parked(parked), self._clock)
        if batch.unreadable:
            await self._reject_unreadable(batch.unreadable)
        await subscription.ack(deliveries)
        _log.debug("Requests were accepted.", action="accept.done", requests=len(batch.requests))

    async def _reject_unreadable(self, unreadable: Sequence[DecodeFailure]) -> None:
        """Answer and park unreadable events: after the others, which do not wait for them."""
        self._metrics.record_unreadable(len(unreadable))
        log_rejections(Counter(found.reason for found in unreadable), unreadable[0].detail)
        for begin in range(0, len(unreadable), _PARK_CHUNK):
            part, now = unreadable[begin : begin + _PARK_CHUNK], self._clock.now()
            messages = [message for found in part for message in unreadable_messages(found, now)]
            await publish(self._bus, batch_parked(messages), self._clock)


def _parts(requests: Sequence[JobRequest], size: int | None) -> Iterator[Sequence[JobRequest]]:
    """Split requests; without a size they are one part."""
    for begin in range(0, len(requests), size or len(requests) or 1):
        yield requests[begin : begin + (size or len(requests))]


@dataclass(slots=True)
class _RequestBatch:
    """The events of a batch by kind; those that are unreadable, and those in the wrong queue."""

    requests: list[JobRequest] = field(default_factory=list[JobRequest])
    announcements: list[AgentAnnounced] = field(default_factory=list[AgentAnnounced])
    unreadable: list[DecodeFailure] = field(default_factory=list[DecodeFailure])
    misrouted: list[Message] = field(default_factory=list[Message])


def _keys(deliveries: Iterable[Delivery]) -> set[tuple[int, int]]:
    return {(delivery.epoch, delivery.tag) for delivery in deliveries}


def _sort_events(
    read: Iterable[tuple[Delivery, Sequence[DecodedEvent | DecodeFailure]]],
    failed: AbstractSet[tuple[int, int]],
) -> _RequestBatch:
    """Sort the events of these messages; each is judged by itself, also within one message."""
    batch = _RequestBatch()
    for delivery, events in read:
        redelivered = delivery.redelivered or (delivery.epoch, delivery.tag) in failed
        for found in events:
            if isinstance(found, DecodeFailure):
                batch.unreadable.append(found)
                continue
            match found.event:
                case JobRequested() as event:
                    batch.requests.append(JobRequest(event, found, redelivered))
                case AgentAnnounced() as event:
                    batch.announcements.append(event)
                case event:
                    detail = f"expected a request here, got {event.type}"
                    batch.misrouted.append(park_event(found, REQUESTS_QUEUE.name, Reason.WRONG_QUEUE, detail))
    return batch
