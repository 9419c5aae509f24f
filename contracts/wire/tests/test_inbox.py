"""The event loop runs while large messages are read, and events count only under their own routing key."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from contracts.wire.tests.deliveries import DeliveredMessage
from tools.reference.golden import golden_events

from warrener_contracts import topology
from warrener_contracts.codec import MAX_DECODE_FAILURES, DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import AttemptDispatched, Event, JobRequested, JobRequestedData, Reason
from warrener_contracts.events.envelope import Route
from warrener_contracts.inbox import Inbox, ParkedEvent, decode_message
from warrener_contracts.messages import (
    BATCH_TYPE,
    EVENT_TYPE,
    ORIGINAL_EXCHANGE,
    ORIGINAL_ROUTING_KEY,
    Message,
    batch_messages,
    build_message,
    cancel_behind_reports,
    delayed_by,
    encode,
)
from warrener_contracts.parking import park_failure

EXAMPLES = golden_events()
REQUESTS = Inbox(topology.REQUESTS_QUEUE.name, {JobRequested})


def request(number: int) -> bytes:
    return encode(JobRequested(id=f"r-{number}", source="test", data=JobRequestedData(job_type="a.b")))


GOOD = DeliveredMessage(b"[" + b",".join(request(number) for number in range(1000)) + b"]", BATCH_TYPE)
BAD = DeliveredMessage(json.dumps([{"number": number} for number in range(2000)]).encode(), BATCH_TYPE)


async def test_all_are_read_as_decode_reads_them() -> None:
    messages = [DeliveredMessage(request(0), EVENT_TYPE), GOOD, BAD, DeliveredMessage(b"", None)]
    read = await REQUESTS.read(messages)
    assert [message for message, _ in read] == messages
    for message, found in read:
        expected = decode(message.body, message.content_type)
        assert [one.failure if isinstance(one, ParkedEvent) else one for one in found] == expected


async def test_the_limits_are_those_that_were_given() -> None:
    for limited in (replace(REQUESTS, max_events=999), replace(REQUESTS, limit=len(GOOD.body) - 1)):
        ((_, found),) = await limited.read([GOOD])
        assert [type(one) for one in found] == [ParkedEvent]
    ((_, found),) = await REQUESTS.read([GOOD])
    assert {type(one) for one in found} == {DecodedEvent}


async def test_an_event_that_the_queue_is_not_for_is_parked_beside_those_that_it_is_for() -> None:
    """Also one that was published straight to it, under no key."""
    stray = encode(EXAMPLES["attempt.succeeded.v1"])
    mixed = DeliveredMessage(b"[" + request(0) + b"," + stray + b"]", BATCH_TYPE)
    ((_, (good, parked)),) = await REQUESTS.read([mixed])
    assert isinstance(good, DecodedEvent)
    assert isinstance(parked, ParkedEvent)
    assert (parked.failure.reason, parked.message.body) == (Reason.WRONG_QUEUE, stray)
    assert parked.message.routing_key == f"parked.{topology.REQUESTS_QUEUE.name}"


async def test_the_event_loop_runs_meanwhile() -> None:
    turns = 0
    reading = asyncio.create_task(REQUESTS.read([BAD] * 3))
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 3 * 2000 // 250, "at least once in so many elements"


def delivered(message: Message) -> DeliveredMessage:
    """The message as a consumer receives it; one that has waited in a delay queue leaves it under its key."""
    exchange = topology.RETURN if message.exchange == topology.DELAY else message.exchange
    return DeliveredMessage(
        message.body, message.content_type, exchange, message.routing_key, message.headers
    )


def accepted(message: DeliveredMessage) -> DecodedEvent:
    (found,) = decode_message(message)
    assert isinstance(found, DecodedEvent), found
    return found


def refused(message: DeliveredMessage) -> DecodeFailure:
    (found,) = decode_message(message)
    assert isinstance(found, DecodeFailure), found
    return found


def addresses() -> Iterator[Any]:
    """Every route of every event, with a key as its senders make it."""
    for name, event in EXAMPLES.items():
        for route in event.routes:
            yield pytest.param(event, route, id=f"{name} by {route.exchange}")


def own_message(event: Event[Any], route: Route) -> Message:
    key = route.expected_key(event.data).format(level="1s", queue="loading", reply_to="desk-4")
    return build_message(event)._replace(exchange=route.exchange, routing_key=key)


@pytest.mark.parametrize(("event", "route"), [*addresses()])
def test_an_event_arrives_by_each_of_its_routes(event: Event[Any], route: Route) -> None:
    found = accepted(delivered(own_message(event, route)))
    assert found.event == event


@pytest.mark.parametrize(("event", "route"), [*addresses()])
def test_an_event_under_any_other_key_is_a_failure(event: Event[Any], route: Route) -> None:
    own = own_message(event, route)
    for key in ("", "x", f"{own.routing_key}.x", f"x.{own.routing_key}", own.routing_key.upper()):
        (found,) = decode_message(delivered(own._replace(routing_key=key)))
        here = [other for other in event.routes if other.exchange == route.exchange]
        if any(other.accepts(key, event.data) for other in here):  # another destination
            assert isinstance(found, DecodedEvent)
            continue
        assert isinstance(found, DecodeFailure)
        assert (found.reason, found.body) == (Reason.ROUTING_KEY_MISMATCH, own.body)
        assert found.arrived_by == (delivered(own).exchange, key)
        assert event.type in found.detail


def test_only_words_for_a_destination_may_differ() -> None:
    """Operators move dispatches to another queue, and any delay level leads to an agent."""
    dispatch = build_message(EXAMPLES["attempt.dispatched.v1"])
    moved = dispatch._replace(routing_key="other.flights.load")
    back = delayed_by(moved, topology.DELAY_LEVELS[3])
    cancel = build_message(EXAMPLES["attempt.cancel.v1"])._replace(routing_key="queue.any")
    of_a_child = cancel_behind_reports(EXAMPLES["job.cancel_requested.v1"])
    for message in (dispatch, moved, back, cancel, of_a_child):
        accepted(delivered(message))
    for message in (
        moved._replace(routing_key="other.flights.look"),
        moved._replace(routing_key="flights.load"),
        back._replace(routing_key="other.flights.load"),
        cancel._replace(routing_key="agent.loader-7c9f.4121"),
    ):
        refused(delivered(message))


def test_an_event_in_the_queue_of_others_has_a_reason_of_its_own() -> None:
    misplaced = build_message(EXAMPLES["attempt.succeeded.v1"])._replace(exchange=topology.REQUESTS)
    found = refused(delivered(misplaced))
    assert found.reason is Reason.WRONG_QUEUE


def test_an_exchange_of_others_is_no_way_around_the_keys() -> None:
    """The right to publish to a queue includes the right to bind it to another exchange."""
    request_message = build_message(EXAMPLES["job.requested.v1"])
    found = refused(delivered(request_message._replace(exchange="amq.direct")))
    assert found.reason is Reason.ROUTING_KEY_MISMATCH
    assert "expected job.requested.v1 by warrener.requests with the routing key flights.load" in found.detail


def test_batches_of_senders_arrive_and_each_element_is_compared() -> None:
    requests = [
        JobRequested(id=f"r-{number}", source="test", data=JobRequestedData(job_type=f"a.{number % 2}"))
        for number in range(10)
    ]
    for message in batch_messages(map(build_message, requests)):
        found = decode_message(delivered(message))
        assert len(found) == 5
        assert {type(one) for one in found} == {DecodedEvent}
    mixed = DeliveredMessage(
        b"[" + b",".join(map(encode, requests)) + b"]", BATCH_TYPE, topology.REQUESTS, "a.0"
    )
    found = decode_message(mixed)
    assert [type(one) for one in found] == [DecodedEvent, DecodeFailure] * 5
    assert [one.body for one in found] == [encode(event) for event in requests]


async def test_a_batch_under_a_wrong_key_causes_few_failures() -> None:
    forged = GOOD._replace(exchange=topology.REQUESTS, routing_key="a.c")
    ((_, found),) = await REQUESTS.read([forged])
    failures = [one.failure for one in found if isinstance(one, ParkedEvent)]
    assert len(failures) == len(found) == MAX_DECODE_FAILURES + 1
    assert {one.reason for one in failures} == {Reason.ROUTING_KEY_MISMATCH}
    rest = failures[-1]
    assert (rest.content_type, len(json.loads(rest.body))) == (BATCH_TYPE, 1000 - MAX_DECODE_FAILURES)
    assert rest.arrived_by == (topology.REQUESTS, "a.c")


def test_a_message_straight_to_its_queue_has_no_key_to_compare() -> None:
    for event in EXAMPLES.values():
        accepted(DeliveredMessage(encode(event), EVENT_TYPE))


def test_a_requeued_message_is_compared_with_its_first_address() -> None:
    """Else a sender could park an event and have it requeued."""
    event = EXAMPLES["attempt.lost.v1"]
    forged = build_message(event)._replace(routing_key="incident.snooze_requested")
    found = refused(delivered(forged))
    parked = park_failure(found, topology.STATUS_QUEUE.name)
    assert parked.headers[ORIGINAL_EXCHANGE] == topology.STATUS
    assert parked.headers[ORIGINAL_ROUTING_KEY] == "incident.snooze_requested"
    requeued = parked._replace(exchange="", routing_key=topology.STATUS_QUEUE.name)
    (again,) = decode_message(delivered(requeued))
    assert again == found
    honest = {ORIGINAL_EXCHANGE: topology.STATUS, ORIGINAL_ROUTING_KEY: event.routing_key}
    accepted(delivered(requeued._replace(headers=honest)))


def test_an_unreadable_message_remembers_its_address() -> None:
    broken = DeliveredMessage(b"{", EVENT_TYPE, topology.DISPATCH, "loading.flights.load")
    found = refused(broken)
    assert (found.reason, found.arrived_by) == (Reason.NOT_JSON, (topology.DISPATCH, "loading.flights.load"))


def test_a_dispatch_names_its_type_last() -> None:
    """Job types have any number of words; queues and levels have one."""
    event = EXAMPLES["attempt.dispatched.v1"]
    assert isinstance(event, AttemptDispatched)
    long = event.model_copy(update={"data": event.data.model_copy(update={"job_type": "a.b.c"})})
    (route, delayed) = AttemptDispatched.routes
    assert route.accepts("loading.a.b.c", long.data)
    assert not route.accepts("loading.x.a.b.c", long.data)
    assert delayed.accepts("1s.loading.a.b.c", long.data)
    assert not delayed.accepts("loading.a.b.c", long.data)
