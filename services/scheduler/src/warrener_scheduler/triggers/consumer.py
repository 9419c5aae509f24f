"""listen: what schedules wait for is heard and kept. Kept → what cannot be read is parked → acknowledged.

Safe to be killed anywhere: what comes again is known by its schedule and event, and counts once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.decode_failures import format_reason_counts, identity_of
from warrener_contracts.events import Reason, SchedulePutData
from warrener_contracts.json_safety import find_unsafe_value
from warrener_contracts.messages import (
    EVENT_TYPE,
    ORIGINAL_EXCHANGE,
    ORIGINAL_MESSAGE_ID,
    ORIGINAL_ROUTING_KEY,
    Message,
    batch_parked,
    build_parked_message,
)
from warrener_contracts.topology import MAX_BODY, MAX_EVENTS, TRIGGERS_QUEUE
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.publishing import publish
from warrener_scheduler.triggers.incoming_events import IncomingEvent, UnusableMessage, events_in
from warrener_scheduler.triggers.matching import find_job_ids, matched_upstream, may_match
from warrener_store.encoding import encode
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.rows import ArrivalRow
from warrener_store.store import Store

_log = get_logger("triggers")

_MAX_EVENT_BYTES = MAX_BODY // 2
"""Bytes of an event: a request that carries it must fit through the door."""
_JUDGE_CHUNK = 250
"""Events of a message that are judged before the event loop may run."""
_ARRIVAL_RETENTION = timedelta(days=7)
"""So long a repeat of an event is known; later the door still knows its job."""


class UnusableEvent(ValueError):
    """An event that no request could carry, and why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class TriggerContext:
    """What is known when a batch is judged: the schedules that wait, and jobs that its events are about."""

    specs: Sequence[SchedulePutData]
    jobs: Mapping[UUID, JobRow]
    now: datetime

    def arrivals_for(self, event: IncomingEvent) -> list[ArrivalRow]:
        """One for each schedule that has waited for it. Raises UnusableEvent."""
        found = ((one.name, matched_upstream(one, event, self.jobs)) for one in self.specs)
        waited = [(name, upstream) for name, upstream in found if upstream is not None]
        if not waited:
            return []
        document = event.document()
        if finding := find_unsafe_value(document):
            raise UnusableEvent(Reason.BAD_FIELDS, finding)
        text = encode(document)
        if len(text) > _MAX_EVENT_BYTES:
            raise UnusableEvent(
                Reason.TOO_LARGE,
                f"expected an event of at most {_MAX_EVENT_BYTES} bytes, got {len(text)}: put the "
                "data elsewhere and "
                "send its URL",
            )
        return [
            ArrivalRow(
                schedule=name,
                event_id=event.identity,
                told_at=event.time,
                heard_at=self.now,
                upstream=upstream,
                event=text,
            )
            for name, upstream in waited
        ]


class TriggerConsumer:
    """Handles the triggers queue; calls `on_change` when a schedule has something to decide."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._max_events = max_events

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Carry out one batch. Raises for infrastructure's sake alone, and then nothing is acknowledged."""
        now = self._clock.now()
        specs = [row.asked for row in await self._store.triggers.waiting_schedules()]
        arrivals: list[ArrivalRow] = []
        unusable_messages: list[UnusableMessage] = []
        parked: list[Message] = []
        for delivery in map(
            with_original_address, deliveries
        ):  # what nobody waits for came by a binding that is about to go
            if any(may_match(one, delivery.exchange, delivery.routing_key) for one in specs):
                rows, unusable = await self._judge(specs, delivery, now)
                arrivals += rows
                unusable_messages += unusable
                parked += [_parked(one, delivery) for one in unusable]
        await self._store.triggers.add_arrivals(arrivals)
        if arrivals:
            self._on_change()
        if unusable_messages:
            _log_parked(unusable_messages)
            await publish(self._bus, batch_parked(parked), self._clock)
        await subscription.ack(deliveries)
        _log.debug("Events were heard.", action="triggers.heard", arrivals=len(arrivals))

    async def _judge(
        self, specs: Sequence[SchedulePutData], delivery: Delivery, now: datetime
    ) -> tuple[list[ArrivalRow], list[UnusableMessage]]:
        """What the events of one message become; the event loop runs between parts of a large one."""
        events = list(events_in(delivery, now, self._max_events))
        context = TriggerContext(
            specs, await self._jobs(specs, [one for one in events if isinstance(one, IncomingEvent)]), now
        )
        arrivals: list[ArrivalRow] = []
        unusable_messages: list[UnusableMessage] = []
        for place, event in enumerate(events, 1):
            judged = _judged(event, context)
            if isinstance(judged, UnusableMessage):
                unusable_messages.append(judged)
            else:
                arrivals += judged
            if place % _JUDGE_CHUNK == 0:
                await asyncio.sleep(0)
        return arrivals, unusable_messages

    async def _jobs(
        self, specs: Sequence[SchedulePutData], events: Sequence[IncomingEvent]
    ) -> Mapping[UUID, JobRow]:
        wanted = find_job_ids(specs, events)
        return await self._store.jobs_by_id(wanted) if wanted else {}

    async def delete_old_arrivals(self) -> None:
        """Forget what nobody will repeat any more."""
        await self._store.triggers.delete_old_arrivals(self._clock.now() - _ARRIVAL_RETENTION)


def _judged(
    event: IncomingEvent | UnusableMessage, context: TriggerContext
) -> list[ArrivalRow] | UnusableMessage:
    """What becomes of one event; what we ourselves fail at is parked, and the others go on."""
    if isinstance(event, UnusableMessage):
        return event
    try:
        return context.arrivals_for(event)
    except UnusableEvent as error:
        return UnusableMessage(error.reason, str(error), event.body, EVENT_TYPE)
    except Exception as error:  # noqa: BLE001 - one event must not stop the others
        _log.exception("An event could not be judged: a bug.", action="triggers.bug", event_id=event.id)
        detail = f"the scheduler failed at it: {type(error).__name__}: {error}"
        return UnusableMessage(Reason.IMPOSSIBLE, detail, event.body, EVENT_TYPE)


def _log_parked(unusable_messages: Sequence[UnusableMessage]) -> None:
    _log.warning(
        "Messages that schedules wait for cannot be read and are parked.",
        action="triggers.parked",
        messages=len(unusable_messages),
        reasons=format_reason_counts(Counter(one.reason for one in unusable_messages)),
        detail=unusable_messages[0].detail,
    )


def with_original_address(delivery: Delivery) -> Delivery:
    """A message that was parked and is sent in again, by the exchange and the key by which it first came."""
    headers = delivery.headers
    exchange, key = headers.get(ORIGINAL_EXCHANGE), headers.get(ORIGINAL_ROUTING_KEY)
    if delivery.exchange or not isinstance(exchange, str) or not isinstance(key, str):
        return delivery
    return delivery._replace(exchange=exchange, routing_key=key)


def _parked(unusable_messages: UnusableMessage, delivery: Delivery) -> Message:
    return build_parked_message(
        queue=TRIGGERS_QUEUE.name,
        body=unusable_messages.body,
        reason=unusable_messages.reason.value,
        detail=unusable_messages.detail,
        message_id=identity_of(unusable_messages.body),
        content_type=delivery.content_type
        if unusable_messages.body == delivery.body
        else unusable_messages.content_type,
        came={
            ORIGINAL_EXCHANGE: delivery.exchange,
            ORIGINAL_ROUTING_KEY: delivery.routing_key,
            **({ORIGINAL_MESSAGE_ID: delivery.message_id} if delivery.message_id else {}),
        },
    )
