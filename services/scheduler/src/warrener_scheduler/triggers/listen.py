"""listen: what schedules wait for is heard and kept. Kept → what cannot be read is parked → acknowledged.

Safe to be killed anywhere: what comes again is known by its schedule and event, and counts once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from warrener_contracts.events import Reason, SchedulePutData
from warrener_contracts.messages import (
    ORIGINAL_EXCHANGE,
    ORIGINAL_MESSAGE_ID,
    ORIGINAL_ROUTING_KEY,
    EVENT_TYPE,
    Message,
    build_parked_message,
    batch_parked,
)
from warrener_contracts.json_safety import find_unsafe_value
from warrener_contracts.topology import MAX_BODY, MAX_EVENTS, TRIGGERS_QUEUE
from warrener_contracts.decode_failures import format_reason_counts, identity_of
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_scheduler.publishing import publish
from warrener_scheduler.triggers.matching import has_waited, jobs_to_look_up, listens
from warrener_scheduler.triggers.messages import Foreign, Heard, events_in
from warrener_store.encoding import encode
from warrener_store.rows import JobRow
from warrener_store.store import Store
from warrener_store.triggers.rows import ArrivalRow

_log = get_logger("triggers")

_MOST = MAX_BODY // 2
"""Bytes of an event: a request that carries it must fit through the door."""
_STEP = 250
"""Events of a message that are judged before the event loop may run."""
_REMEMBERED = timedelta(days=7)
"""So long a repeat of an event is known; later the door still knows its job."""


class NoCarrier(ValueError):
    """An event that no request could carry, and why."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a batch is judged: the schedules that wait, and jobs that its events are about."""

    asked: Sequence[SchedulePutData]
    jobs: Mapping[UUID, JobRow]
    now: datetime

    def arrivals_of(self, event: Heard) -> list[ArrivalRow]:
        """One for each schedule that has waited for it. Raises NoCarrier."""
        found = ((one.name, has_waited(one, event, self.jobs)) for one in self.asked)
        waited = [(name, upstream) for name, upstream in found if upstream is not None]
        if not waited:
            return []
        document = event.document()
        if finding := find_unsafe_value(document):
            raise NoCarrier(Reason.BAD_FIELDS, finding)
        text = encode(document)
        if len(text) > _MOST:
            raise NoCarrier(
                Reason.TOO_LARGE,
                f"expected an event of at most {_MOST} bytes, got {len(text)}: put the data elsewhere and "
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


class Listen:
    """The verb that hears the triggers queue; `changed` is called when a schedule has something to decide."""

    def __init__(
        self,
        bus: Bus,
        store: Store,
        clock: Clock,
        changed: Callable[[], None],
        *,
        max_events: int = MAX_EVENTS,
    ) -> None:
        self._bus = bus
        self._store = store
        self._clock = clock
        self._changed = changed
        self._max_events = max_events

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Carry out one batch. Raises for infrastructure's sake alone, and then nothing is acknowledged."""
        now = self._clock.now()
        asked = [row.asked for row in await self._store.triggers.waiting_schedules()]
        arrivals: list[ArrivalRow] = []
        foreign: list[Foreign] = []
        parked: list[Message] = []
        for delivery in map(
            as_it_came, deliveries
        ):  # what nobody waits for came by a binding that is about to go
            if any(listens(one, delivery.exchange, delivery.routing_key) for one in asked):
                rows, unusable = await self._judge(asked, delivery, now)
                arrivals += rows
                foreign += unusable
                parked += [_parked(one, delivery) for one in unusable]
        await self._store.triggers.add_arrivals(arrivals)
        if arrivals:
            self._changed()
        if foreign:
            _say_parked(foreign)
            await publish(self._bus, batch_parked(parked), self._clock)
        await subscription.ack(deliveries)
        _log.debug("Events were heard.", action="triggers.heard", arrivals=len(arrivals))

    async def _judge(
        self, asked: Sequence[SchedulePutData], delivery: Delivery, now: datetime
    ) -> tuple[list[ArrivalRow], list[Foreign]]:
        """What the events of one message become; the event loop runs between parts of a large one."""
        heard = list(events_in(delivery, now, self._max_events))
        known = Known(asked, await self._jobs(asked, [one for one in heard if isinstance(one, Heard)]), now)
        arrivals: list[ArrivalRow] = []
        foreign: list[Foreign] = []
        for place, event in enumerate(heard, 1):
            judged = _judged(event, known)
            if isinstance(judged, Foreign):
                foreign.append(judged)
            else:
                arrivals += judged
            if place % _STEP == 0:
                await asyncio.sleep(0)
        return arrivals, foreign

    async def _jobs(self, asked: Sequence[SchedulePutData], events: Sequence[Heard]) -> Mapping[UUID, JobRow]:
        wanted = jobs_to_look_up(asked, events)
        return await self._store.jobs_by_id(wanted) if wanted else {}

    async def forget(self) -> None:
        """Forget what nobody will repeat any more."""
        await self._store.triggers.delete_old_arrivals(self._clock.now() - _REMEMBERED)


def _judged(event: Heard | Foreign, known: Known) -> list[ArrivalRow] | Foreign:
    """What becomes of one event; what we ourselves fail at is parked, and the others go on."""
    if isinstance(event, Foreign):
        return event
    try:
        return known.arrivals_of(event)
    except NoCarrier as error:
        return Foreign(error.reason, str(error), event.body, EVENT_TYPE)
    except Exception as error:  # noqa: BLE001 - one event must not stop the others
        _log.exception("An event could not be judged: a bug.", action="triggers.bug", event_id=event.id)
        detail = f"the scheduler failed at it: {type(error).__name__}: {error}"
        return Foreign(Reason.IMPOSSIBLE, detail, event.body, EVENT_TYPE)


def _say_parked(foreign: Sequence[Foreign]) -> None:
    _log.warning(
        "Messages that schedules wait for cannot be read and are parked.",
        action="triggers.parked",
        messages=len(foreign),
        reasons=format_reason_counts(Counter(one.reason for one in foreign)),
        detail=foreign[0].detail,
    )


def as_it_came(delivery: Delivery) -> Delivery:
    """A message that was parked and is sent in again, by the exchange and the key by which it first came."""
    headers = delivery.headers
    exchange, key = headers.get(ORIGINAL_EXCHANGE), headers.get(ORIGINAL_ROUTING_KEY)
    if delivery.exchange or not isinstance(exchange, str) or not isinstance(key, str):
        return delivery
    return delivery._replace(exchange=exchange, routing_key=key)


def _parked(foreign: Foreign, delivery: Delivery) -> Message:
    return build_parked_message(
        queue=TRIGGERS_QUEUE.name,
        body=foreign.body,
        reason=foreign.reason.value,
        detail=foreign.detail,
        message_id=identity_of(foreign.body),
        content_type=delivery.content_type if foreign.body == delivery.body else foreign.content_type,
        came={
            ORIGINAL_EXCHANGE: delivery.exchange,
            ORIGINAL_ROUTING_KEY: delivery.routing_key,
            **({ORIGINAL_MESSAGE_ID: delivery.message_id} if delivery.message_id else {}),
        },
    )
