"""Store dead-lettered, parked and unroutable messages with their reason, so that none is dropped.

Two kinds are not parked. A message whose status or delay queue was missing is published again. A dispatch
that the broker gave up, because it was returned too often, is dispatched again or declared lost.

Anyone who may publish has a way into these queues, by an exchange or a queue of one's own, and the supervisor
publishes with rights that its senders do not have. So a header of ours counts only in a message that one of
us has parked (`is_parked`), a death only if the key is that of the queue that it names, and a dispatch goes
out again as its job's row has it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast
from uuid import uuid5

from warrener_contracts import topology
from warrener_contracts.events import AttemptDispatched, AttemptLost, AttemptLostData, Reason
from warrener_contracts.identity import job_id_of
from warrener_contracts.inbox import arrival_address
from warrener_contracts.json_safety import sanitize_text
from warrener_contracts.messages import (
    ORIGINAL_EXCHANGE,
    ORIGINAL_MESSAGE_ID,
    ORIGINAL_ROUTING_KEY,
    ORIGINAL_USER,
    Message,
    build_message,
    delayed_by,
    forwarded_headers,
    truncate_parked,
)
from warrener_runtime.bus.port import Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.keys import SIGNATURE_HEADERS
from warrener_runtime.logs import get_logger
from warrener_runtime.publishing import publish_all
from warrener_store.jobs.rows import JobRow
from warrener_store.parked.rows import ParkedMessage
from warrener_supervisor import effects
from warrener_supervisor.decisions.signals import supervisor_event
from warrener_supervisor.effects import SupervisorPorts
from warrener_supervisor.metrics import SupervisorMetrics
from warrener_supervisor.requeue import ParkedMessageRequeuer, awaits, dispatches_in, is_dispatch_queue

_log = get_logger("bury")

_BROKER_REASONS = {"delivery_limit": Reason.DELIVERY_LIMIT.value}
"""The broker's reasons that have a name of ours; the others (expired, rejected, maxlen) keep theirs."""
_DEAD_KEY = "dead."
"""First word of the keys under which queues give up messages; agents may publish `parked.` alone."""
_OURS = "warrener."  # first word of the queues whose dead letters have the rest of their name as key
_GIVEN_UP = "warrener-given-up"  # header of a dispatch that the broker has given up: how often
_MAX_DIGITS = 9  # Python refuses to read a number of thousands
_LONGEST_REASON, _LONGEST_NAME = 100, 255
"""Characters that are kept of a reason and of a name, which anybody may write; both are in an index."""
_PAUSES = topology.DELAY_LEVELS[1:4]  # delays of the repeats of a dispatch that was given up
_LEVELS: Mapping[str, topology.Queue] = {
    level.name: queue for level, queue in zip(topology.DELAY_LEVELS, topology.DELAY_QUEUES, strict=True)
}


class GivenUp(NamedTuple):
    """A dispatch that the broker gave up.

    `times`: how often in a row it was returned too often; 0 for any other reason. `queue`: which gave it up.
    """

    event: AttemptDispatched
    times: int
    queue: str


class Repeat(NamedTuple):
    """A job whose current attempt is dispatched again: after this delay, for the so many-th time in a row."""

    row: JobRow
    delay: topology.DelayLevel
    times: int


class DeadLetterConsumer:
    """Empties the dead-letter and unroutable queues."""

    def __init__(
        self, ports: SupervisorPorts, metrics: SupervisorMetrics, *, max_events: int = topology.MAX_EVENTS
    ) -> None:
        self._ports, self._metrics, self._max_events = ports, metrics, max_events
        self._bus, self._store, self._clock, _ = ports
        self._requeuer = ParkedMessageRequeuer(ports)

    async def handle(self, subscription: Subscription, deliveries: list[Delivery]) -> None:
        """Store one batch, publish its misrouted part again, judge dispatches that the broker gave up."""
        # Publish last: a batch is repeated until the store answers, and storing twice stores once, but each
        # repeated publication would add messages.
        needed = [(delivery, find_missing_queue(delivery)) for delivery in deliveries]
        if rest := [delivery for delivery, queue in needed if queue is None]:
            await self._park(rest)
            await subscription.ack(rest)
        if queues := {queue.name: queue for _, queue in needed if queue is not None}:
            misrouted = [delivery for delivery, queue in needed if queue is not None]
            await self._republish(misrouted, queues)
            await subscription.ack(misrouted)

    async def _republish(self, misrouted: Sequence[Delivery], queues: Mapping[str, topology.Queue]) -> None:
        """Declare the queues first, so that the messages do not come back here."""
        await self._bus.declare(topology.Topology((), tuple(queues.values())), verify=True)
        await publish_all(self._bus, [rebuild_message(delivery) for delivery in misrouted], clock=self._clock)
        _log.warning(
            "Messages without a queue were published again, after their queues were declared.",
            action="dead_letters.republished",
            messages=len(misrouted),
            queues=sorted(queues),
        )

    async def _park(self, deliveries: list[Delivery]) -> None:
        """Park messages that no service can use. A dispatch is judged instead: its job's row has it all."""
        now = self._clock.now()
        found = [given_up_dispatches(delivery, self._max_events) for delivery in deliveries]
        parked = [
            to_parked_message(one, now) for one, of in zip(deliveries, found, strict=True) if of is None
        ]
        if given_up := [one for of in found if of is not None for one in of]:
            await self._judge(given_up, now)
        if not parked:
            return
        await self._store.park(parked)
        self._metrics.record_parked(parked)
        await self._requeuer.requeue_known(parked)
        _log.warning(
            "Messages were parked; `warrener parked` lists them.",
            action="dead_letters.parked",
            messages=len(parked),
            reasons=sorted({message.reason for message in parked}),
        )

    async def _judge(self, given_up: Sequence[GivenUp], now: datetime) -> None:
        """Dispatch again the attempts that still wait for an agent."""
        rows = await self._store.jobs_by_id({one.event.data.job_id for one in given_up})
        judged = [judge_given_up(one, rows.get(one.event.data.job_id), now) for one in given_up]
        messages = [one for one in judged if isinstance(one, Message)]
        repeats = {one.row.job_id: one for one in judged if isinstance(one, Repeat)}
        for row, message in await effects.render_dispatches(
            self._ports, [one.row for one in repeats.values()]
        ):
            _, pause, times = repeats[row.job_id]
            # One that waits for its time has its delay.
            later = delayed_by(message, pause) if message.exchange == topology.DISPATCH else message
            messages.append(later._replace(headers={**later.headers, _GIVEN_UP: str(times)}))
        await effects.keep_unpublished(self._ports, await self._ports.publish(messages))
        _log.warning(
            "The broker gave up dispatches; those of waiting jobs were dispatched again, or declared lost.",
            action="dead_letters.dispatches_lost",
            attempts=len(given_up),
            needed=len(messages),
        )


def find_missing_queue(delivery: Delivery) -> topology.Queue | None:
    """Return the queue of ours that was missing where the message was published; None for any other."""
    if "x-death" in delivery.headers:
        return None
    if delivery.exchange == topology.STATUS:  # its queue takes every key
        return topology.STATUS_QUEUE
    if delivery.exchange == topology.DELAY:
        return _LEVELS.get(delivery.routing_key.partition(".")[0])
    return None


def rebuild_message(delivery: Delivery) -> Message:
    """Return the message as it was published; its consumer recognises a repeat. A report goes straight to its
    queue, with its address and its user: it is no report of the supervisor's."""
    headers = forwarded_headers(delivery.headers)
    is_report = delivery.exchange == topology.STATUS
    if is_report:
        headers |= {
            ORIGINAL_EXCHANGE: delivery.exchange,
            ORIGINAL_ROUTING_KEY: delivery.routing_key,
            ORIGINAL_USER: delivery.user_id or "",
        }
    return Message(
        exchange="" if is_report else delivery.exchange,
        routing_key=topology.STATUS_QUEUE.name if is_report else delivery.routing_key,
        body=delivery.body,
        content_type=delivery.content_type or "",
        message_id=delivery.message_id or f"misrouted-{delivery.epoch}-{delivery.tag}",
        type=delivery.type or "",
        headers=headers,
    )


def is_parked(delivery: Delivery) -> bool:
    """True if one of us has parked the message: it came by the exchange of parked messages, under the key of
    its queue. By that key a user may park for its own queues alone."""
    queue = delivery.headers.get("warrener-queue")
    return (
        delivery.exchange == topology.DEAD
        and delivery.routing_key == f"parked.{queue}"
        and isinstance(delivery.headers.get("warrener-reason"), str)
        and "x-death" not in delivery.headers
        and delivery.readable
    )


def given_up_dispatches(delivery: Delivery, max_events: int) -> list[GivenUp] | None:
    """Return the dispatches that a dispatch queue gave up with this message; None if it has anything else."""
    death = _death(delivery)
    if death is None or not is_dispatch_queue(queue := str(death["queue"])):
        return None
    text = delivery.headers.get(_GIVEN_UP)
    is_number = isinstance(text, str) and text.isdecimal() and len(text) < _MAX_DIGITS
    before = int(str(text)) if is_number else 0
    times = before + 1 if death.get("reason") == "delivery_limit" else 0
    dispatches = dispatches_in(delivery.body, delivery.content_type, max_events)
    return None if dispatches is None else [GivenUp(event, times, queue) for event in dispatches]


def judge_given_up(given_up: GivenUp, row: JobRow | None, now: datetime) -> Message | Repeat | None:
    """Decide what follows from a dispatch that the broker gave up; None if its job does not need it.

    A count of returns is no evidence of a loss: a lost connection returns what its agent holds. An attempt
    that ends its agent is charged by its start on the next one. So the same attempt is dispatched again,
    uncharged and alone, later each time. Only an attempt that was returned this often without ever
    starting counts as lost: it may end each agent that reads it. Of the message only its job and its attempt
    count, and only if it is of the queue in which that waits.
    """
    event, times, queue = given_up
    if row is None or not awaits(row, event, queue):
        return None  # it is not in the store, runs, is over, waits in another queue, or a later attempt does
    if not 0 < times <= len(_PAUSES):
        return build_message(_lost(row, event.time or row.requested_at, now))
    return Repeat(row, _PAUSES[times - 1], times)


def _lost(row: JobRow, seen_at: datetime, now: datetime) -> AttemptLost:
    lost = AttemptLostData(
        job_id=row.job_id, attempt=row.attempt, job_type=row.job_type, agent_id="none", last_seen_at=seen_at
    )
    name, trace = f"{row.job_id}:{row.attempt}:undeliverable", (row.traceparent, row.tracestate)
    return supervisor_event(AttemptLost, name, str(row.job_id), now, lost, trace=trace)


def to_parked_message(delivery: Delivery, now: datetime) -> ParkedMessage:
    """Make the row that stores this message."""
    queue, reason, story = _reason(delivery)
    body, detail = truncate_parked(delivery.body, story)
    named = delivery.message_id or str(uuid5(job_id_of(queue, "parked"), delivery.body.hex()))
    parked_by_us = is_parked(delivery)
    exchange, key, message_id = _origin(delivery)
    return ParkedMessage(
        parked_id=named if parked_by_us else f"{queue}:{named}",
        queue=queue,
        reason=reason,
        detail=detail,
        content_type=delivery.content_type,
        body=body,
        parked_at=now,
        exchange=exchange,
        routing_key=key,
        message_id=message_id,
        type=None if parked_by_us else delivery.type,
        headers={
            name: value
            for name, value in forwarded_headers(delivery.headers).items()
            if name in SIGNATURE_HEADERS or not name.startswith("warrener-")
        }
        | _user_of(delivery),
    )


def _user_of(delivery: Delivery) -> dict[str, str]:
    if is_parked(delivery):
        user = delivery.headers.get(ORIGINAL_USER)
        return {ORIGINAL_USER: user} if isinstance(user, str) else {}
    return {ORIGINAL_USER: delivery.user_id or ""}


def _reason(delivery: Delivery) -> tuple[str, str, str]:
    """Return the queue that it comes from, the reason, and a sentence about that."""
    headers = delivery.headers
    if is_parked(delivery):
        queue = sanitize_text(str(headers["warrener-queue"]), _LONGEST_NAME)
        reason = sanitize_text(str(headers["warrener-reason"]), _LONGEST_REASON)
        return queue, reason, str(headers.get("warrener-detail", ""))
    if death := _death(delivery):
        cause = sanitize_text(str(death.get("reason", "unknown")), _LONGEST_REASON)
        queue = sanitize_text(str(death["queue"]), _LONGEST_NAME)
        why = "" if delivery.readable else ": a property or a header of it cannot be read"
        detail = f"the broker gave it up ({cause}) in queue {queue}{why}"
        return queue, _BROKER_REASONS.get(cause, cause), detail
    exchange, key = delivery.exchange, delivery.routing_key
    why = "" if delivery.readable else "; a property or a header of it cannot be read"
    came = sanitize_text(f"{exchange}:{key}", _LONGEST_NAME)
    return came, Reason.UNROUTABLE.value, f"no queue of ours is bound to {exchange} for {key}{why}"


def _origin(delivery: Delivery) -> tuple[str | None, str | None, str | None]:
    """Return the exchange, routing key and message id of its first publication, as far as they are known.

    RabbitMQ 3.10 keeps the address in a death that a client has written, so that of a dead letter shows only
    where it came from: by no such exchange does an event arrive.
    """
    headers = delivery.headers
    if is_parked(delivery):
        found = (headers.get(name) for name in (ORIGINAL_EXCHANGE, ORIGINAL_ROUTING_KEY, ORIGINAL_MESSAGE_ID))
        exchange, key, message_id = (value if isinstance(value, str) else None for value in found)
        return exchange, key, message_id
    if (death := _death(delivery)) is None:
        return arrival_address(delivery)[0], delivery.routing_key, delivery.message_id
    keys: object = death.get("routing-keys")
    first = cast("list[object]", keys)[0] if isinstance(keys, list) and keys else None
    exchange, key = (value if isinstance(value, str) else None for value in (death.get("exchange"), first))
    if death["queue"] != topology.TRIGGERS_QUEUE.name:  # which takes messages of every exchange
        exchange = f"the dead letters of {death['queue']}"
    return exchange, key, delivery.message_id


def _death(delivery: Delivery) -> Mapping[str, Any] | None:
    """Return the last death of a message that a work queue of ours has given up: it came by the key under
    which that queue gives up messages, and no user may publish."""
    deaths = delivery.headers.get("x-death")
    if delivery.exchange != topology.DEAD or not isinstance(deaths, list) or not deaths:
        return None
    last = cast("list[object]", deaths)[0]  # the newest is first
    if not isinstance(last, dict):
        return None
    death = cast("dict[str, Any]", last)
    return death if delivery.routing_key == f"{_DEAD_KEY}{_without_prefix(death.get('queue'))}" else None


def _without_prefix(queue: object) -> str | None:
    own = isinstance(queue, str) and queue.startswith(_OURS)
    return str(queue).removeprefix(_OURS) if own else None
