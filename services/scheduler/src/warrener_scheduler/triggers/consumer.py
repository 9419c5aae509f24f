"""Consume the triggers queue: events that schedules wait for are stored as arrivals.

Stored → unreadable messages parked → acknowledged. Safe to be killed anywhere: a redelivered event is known
by its schedule and id, and counts once.

A CloudEvent names itself. Any other JSON is the data of an event whose id is the message id, and whose source
is the exchange. A message without an id is parked: its repeat could not be recognised.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from warrener_contracts import codec, messages
from warrener_contracts.events import Reason, SchedulePutData
from warrener_contracts.fields import Timestamp
from warrener_contracts.inbox import original_address
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.topology import MAX_BODY, MAX_EVENTS, TRIGGERS_QUEUE
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry.spans import read_traceparent
from warrener_scheduler.decisions import triggers
from warrener_scheduler.ports import SchedulerPorts
from warrener_store.schedules.rows import ArrivalRow

_log = get_logger("triggers")

_INSTANT: TypeAdapter[datetime] = TypeAdapter(Timestamp)
_JUDGE_CHUNK = 250  # events of a message that are judged before the event loop may run
_ARRIVAL_RETENTION = timedelta(days=7)
"""Time in which a repeat of an event is recognised; later its job id still is."""


@dataclass(frozen=True, slots=True)
class UnusableMessage:
    """A message, or an element of a batch, that is no event, and why; it is parked as it was received."""

    reason: Reason
    detail: str
    body: bytes
    content_type: str | None


class TriggerConsumer:
    """Handles the triggers queue; calls `on_change` when a schedule has something to decide."""

    def __init__(
        self, ports: SchedulerPorts, on_change: Callable[[], None], *, max_events: int = MAX_EVENTS
    ) -> None:
        self._ports, self._on_change, self._max_events = ports, on_change, max_events
        _, self._store, self._clock, _, _ = ports

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Handle one batch. Raises only if the infrastructure fails, and then nothing is acknowledged."""
        now = self._clock.now()
        specs = [row.definition for row in (await self._store.schedules(triggered=True)).values()]
        arrivals: list[ArrivalRow] = []
        unusable_messages: list[UnusableMessage] = []
        parked: list[messages.Message] = []
        for delivery in map(_with_original_address, deliveries):
            # A message that no schedule waits for came by a binding that is about to be removed.
            if any(triggers.may_match(one, delivery.exchange, delivery.routing_key) for one in specs):
                rows, unusable = await self._judge(specs, delivery, now)
                arrivals += rows
                unusable_messages += unusable
                parked += [_parked(one, delivery) for one in unusable]
        await self._store.triggers.add_arrivals(arrivals)
        if arrivals:
            self._on_change()
        if unusable_messages:
            _log.warning(
                "Messages that schedules wait for cannot be read and are parked.",
                action="triggers.parked",
                messages=len(unusable_messages),
                reasons=codec.format_reason_counts(Counter(one.reason for one in unusable_messages)),
                detail=unusable_messages[0].detail,
            )
            await self._ports.publish(messages.batch_parked(parked))
        await subscription.ack(deliveries)
        _log.debug("Events were received.", action="triggers.received", arrivals=len(arrivals))

    async def _judge(
        self, specs: Sequence[SchedulePutData], delivery: Delivery, now: datetime
    ) -> tuple[list[ArrivalRow], list[UnusableMessage]]:
        """Judge the events of one message; the event loop runs between parts of a large one."""
        events = list(_events_in(delivery, now, self._max_events))
        wanted = triggers.find_job_ids(
            specs, [one for one in events if isinstance(one, triggers.IncomingEvent)]
        )
        jobs = await self._store.jobs_by_id(wanted) if wanted else {}
        context = triggers.TriggerContext(specs, jobs, now)
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

    async def delete_old_arrivals(self) -> None:
        """Delete arrivals that will not be repeated any longer."""
        await self._store.triggers.delete_old_arrivals(self._clock.now() - _ARRIVAL_RETENTION)


def _judged(
    event: triggers.IncomingEvent | UnusableMessage, context: triggers.TriggerContext
) -> list[ArrivalRow] | UnusableMessage:
    """Judge one event. An event that we fail at is parked, and the others go on."""
    if isinstance(event, UnusableMessage):
        return event
    try:
        return context.arrivals_for(event)
    except triggers.UnusableEvent as error:
        return UnusableMessage(error.reason, str(error), event.body, messages.EVENT_TYPE)
    except Exception as error:  # noqa: BLE001 - one event must not stop the others
        _log.exception("An event could not be judged: a bug.", action="triggers.bug", event_id=event.id)
        detail = f"the scheduler failed at it: {type(error).__name__}: {error}"
        return UnusableMessage(Reason.IMPOSSIBLE, detail, event.body, messages.EVENT_TYPE)


# -- reading and parking -------------------------------------------------------------------------------------


def _with_original_address(delivery: Delivery) -> Delivery:
    """Restore the exchange and the key of a message that was parked and is sent again."""
    if delivery.exchange:
        return delivery
    exchange, key = original_address(delivery)
    return delivery._replace(exchange=exchange, routing_key=key)


def _events_in(
    delivery: Delivery, now: datetime, max_events: int = MAX_EVENTS
) -> Iterator[triggers.IncomingEvent | UnusableMessage]:
    """Yield the events of a message, of a batch each by itself; a message that is too large is not parsed."""
    kind = (delivery.content_type or "").partition(";")[0].strip().lower()
    body, content_type = delivery.body, delivery.content_type
    if finding := _too_large(body, max_events if kind == messages.BATCH_TYPE else None):
        yield UnusableMessage(Reason.TOO_LARGE, finding, body, content_type)
        return
    try:
        value: object = from_json(body)
    except ValueError as error:
        yield UnusableMessage(Reason.NOT_JSON, f"expected JSON, got {error}", body, content_type)
        return
    if kind == messages.BATCH_TYPE and is_array(value):
        if value and not any(map(is_object, value)):
            detail = f"expected a JSON array of events, got {len(value)} other values"
            yield UnusableMessage(Reason.NOT_AN_EVENT, detail, body, content_type)
            return
        texts = codec.JsonArrayElements(delivery.body)
        for place, element in enumerate(value):
            found = _cloud_event(element, delivery, now, texts, place)
            yield found or _not_an_event(texts[place], messages.EVENT_TYPE)
    elif kind == messages.EVENT_TYPE or (is_object(value) and "specversion" in value):
        found = _cloud_event(value, delivery, now, delivery.body)
        yield found or _not_an_event(delivery.body, delivery.content_type)
    elif delivery.message_id:
        yield triggers.IncomingEvent(
            id=delivery.message_id,
            source=delivery.exchange,
            type=delivery.type,
            time=now,
            exchange=delivery.exchange,
            key=delivery.routing_key,
            data=value,
            origin=delivery.body,
            traceparent=read_traceparent(delivery.headers.get("traceparent")),
        )
    else:
        detail = "expected a CloudEvent, or a message id for other JSON, got neither: set the message id"
        yield UnusableMessage(Reason.MISSING_ID, detail, delivery.body, delivery.content_type)


def _too_large(body: bytes, max_events: int | None) -> str | None:
    """Return why a message is not parsed: its contents would not fit into a request anyway."""
    if len(body) > MAX_BODY:
        return f"expected at most {MAX_BODY} bytes, got {len(body)}: put the data elsewhere and send its URL"
    if max_events is not None and codec.has_more_elements_than(body, max_events):
        return f"expected at most {max_events} events in one message, got more: send several messages"
    return None


def _cloud_event(
    value: object, delivery: Delivery, now: datetime, origin: bytes | codec.JsonArrayElements, place: int = 0
) -> triggers.IncomingEvent | None:
    if not is_object(value):
        return None
    event_id, source, kind = value.get("id"), value.get("source"), value.get("type")
    if not (isinstance(event_id, str) and event_id and isinstance(source, str) and source):
        return None
    return triggers.IncomingEvent(
        id=event_id,
        source=source,
        type=kind if isinstance(kind, str) else None,
        time=_time(value.get("time"), now),
        exchange=delivery.exchange,
        key=delivery.routing_key,
        data=value.get("data"),
        origin=origin,
        place=place,
        traceparent=read_traceparent(value.get("traceparent")),
    )


def _not_an_event(body: bytes, content_type: str | None) -> UnusableMessage:
    detail = "expected a CloudEvent with id and source, got none: a repeat of it could not be recognised"
    return UnusableMessage(Reason.NOT_AN_EVENT, detail, body, content_type)


def _time(claimed_time: object, now: datetime) -> datetime:
    """Return the time that the event claims, but none from the future."""
    try:
        return min(_INSTANT.validate_python(claimed_time), now)
    except ValidationError:
        return now


def _parked(unusable: UnusableMessage, delivery: Delivery) -> messages.Message:
    return messages.build_parked_message(
        queue=TRIGGERS_QUEUE.name,
        body=unusable.body,
        reason=unusable.reason.value,
        detail=unusable.detail,
        message_id=codec.identity_of(unusable.body),
        content_type=delivery.content_type if unusable.body == delivery.body else unusable.content_type,
        came={
            messages.ORIGINAL_EXCHANGE: delivery.exchange,
            messages.ORIGINAL_ROUTING_KEY: delivery.routing_key,
            **({messages.ORIGINAL_MESSAGE_ID: delivery.message_id} if delivery.message_id else {}),
        },
    )
