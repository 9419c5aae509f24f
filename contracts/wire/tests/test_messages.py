"""Events as messages: addressed, sized and identified so that AMQP takes every one; gathered, deferred, and
written without validation as with it."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.reference.golden import golden_events

from warrener_contracts import messages, outbox, topology
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import (
    AttemptDispatched,
    Event,
    JobCancelRequested,
    JobCancelRequestedData,
    JobRejected,
    JobRejectedData,
    JobRequested,
    JobRequestedData,
    Reason,
)
from warrener_contracts.writer import EventWriter, moment_json, shared_moment_json

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
EXAMPLES = golden_events()


def dispatched(after: float | None) -> AttemptDispatched:
    event = EXAMPLES["attempt.dispatched.v1"]
    due = None if after is None else NOON + timedelta(seconds=after)
    assert isinstance(event, AttemptDispatched)
    return event.model_copy(update={"data": event.data.model_copy(update={"not_before": due})})


def requested(name: str) -> JobRequested:
    return JobRequested(id=name, source="airline", data=JobRequestedData(job_type="flights.load"))


ADDRESSES_OF_1_0 = [
    ("warrener.requests", "flights.load", "job.requested"),
    ("warrener.requests", "{event}", "agent.announced"),
    ("warrener.dispatch", "loading.flights.load", "attempt.dispatched"),
    ("warrener.control", "all", "attempt.cancel"),
    ("warrener.control", "agent.loader-7c9f.4121", "agent.heartbeat_requested"),
    ("warrener.heartbeats", "agent.loader-7c9f.4121", "agent.heartbeat"),
    ("warrener.status", "{event}.flights.load", "attempt.started attempt.progressed attempt.checkpointed"),
    ("warrener.status", "{event}.flights.load", "attempt.succeeded attempt.failed attempt.cancelled"),
    ("warrener.status", "{event}.flights.load", "attempt.released attempt.timed_out attempt.lost"),
    ("warrener.status", "{event}.flights.load", "attempt.start_timed_out"),
    ("warrener.status", "{event}", "job.deadline_passed"),
    ("warrener.commands", "{event}", "job.cancel_requested job.redrive_requested job.drop_requested"),
    ("warrener.commands", "{event}", "breaker.set_requested redrive.change_requested"),
    ("warrener.commands", "{event}", "incident.acknowledge_requested incident.close_requested"),
    ("warrener.commands", "{event}", "incident.snooze_requested"),
    ("warrener.commands", "{event}", "parked.drop_requested parked.requeue_requested"),
    ("warrener.commands", "{event}", "schedule.put schedule.pause_requested schedule.resume_requested"),
    ("warrener.commands", "{event}", "schedule.remove_requested schedule.trigger_requested"),
    ("warrener.commands", "{event}", "schedule.backfill_requested"),
    ("warrener.events", "{event}.flights.load", "job.rejected job.retrying job.waiting job.dead"),
    ("warrener.events", "{event}.succeeded.flights.load", "job.finished"),
    ("warrener.events", "{event}", "job.deduplicated"),
    ("warrener.events", "{event}.open", "breaker.changed"),
    ("warrener.events", "{event}.loader-7c9f.4121", "agent.lost"),
    ("warrener.events", "{event}.agent", "service.unresponsive"),
    ("warrener.events", "{event}.caught_up.flights.hourly", "schedule.ticked"),
]


@pytest.mark.parametrize(("exchange", "key", "events"), ADDRESSES_OF_1_0)
def test_an_event_of_1_0_keeps_its_address(exchange: str, key: str, events: str) -> None:
    for event in events.split():
        message = messages.build_message(EXAMPLES[f"{event}.v1"])
        assert (message.exchange, message.routing_key) == (exchange, key.format(event=event))


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_event_is_one_message(name: str) -> None:
    message, event = messages.build_message(EXAMPLES[name]), EXAMPLES[name]
    assert (message.type, message.message_id) == (name, event.id)
    assert message.content_type == "application/cloudevents+json"
    trace = {"traceparent": event.traceparent, "tracestate": "airline=ops", "baggage": "airport=JFK"}
    assert message.headers == trace


def test_an_event_from_nowhere_has_no_address() -> None:
    data = JobRequestedData(job_type="a")
    stray: Event[Any] = Event(id="1", source="airline", type="flight.landed.v1", data=data)
    with pytest.raises(TypeError, match=r"expected an event of the wire, got 'flight\.landed\.v1'"):
        messages.build_message(stray)


def test_only_control_heartbeats_and_log_lines_are_transient_and_what_is_requested_is_mandatory() -> None:
    for event in EXAMPLES.values():
        message = messages.build_message(event)
        transient = {topology.CONTROL, topology.HEARTBEATS, topology.LOGS}
        assert message.persistent == (message.exchange not in transient)
        returned = {topology.REQUESTS, topology.DISPATCH, topology.COMMANDS}
        assert message.mandatory == (message.exchange in returned)


def test_an_id_longer_than_amqp_takes_becomes_a_uuid_of_it() -> None:
    """A cancel is forwarded under its own id: AMQP would refuse it again and again."""
    data = JobCancelRequestedData(job_id=UUID(int=7))
    names = ["é" * 200, "é" * 199 + "e", "short", "i" * 200]
    events = [JobCancelRequested(id=name, source="airline", data=data) for name in names]
    ids = [messages.build_message(event).message_id for event in events]
    assert ids == ["e6550cf9-ac6c-5c6b-aaa7-86216249f28f", ids[1], "short", "i" * 200]
    assert ids[0] != ids[1]
    assert all(len(found.encode()) <= 255 for found in ids)


def test_a_reply_goes_to_its_requester_under_an_id_of_its_own() -> None:
    event = EXAMPLES["job.finished.v1"]
    message = messages.build_reply(event, "desk-4")
    assert (message.exchange, message.routing_key) == ("warrener.events", "reply.desk-4")
    assert message.message_id == f"{event.id}>desk-4"
    assert message.body == messages.build_message(event).body
    longest = messages.build_reply(event.model_copy(update={"id": "i" * 200}), "a" * 80)
    assert len(longest.message_id) == 36


@pytest.mark.parametrize("job_type", [None, "", "flights.#", "flights load", "x" * 500, "\u00e9"])
def test_a_rejection_of_what_is_no_job_type_is_addressed_all_the_same(job_type: str | None) -> None:
    data = JobRejectedData(
        request_id="", request_source="", job_type=job_type, reason=Reason.BAD_FIELDS, detail="no"
    )
    assert (
        messages.build_message(JobRejected(id="1", source="s", data=data)).routing_key
        == "job.rejected.unknown"
    )


def events_in(message: messages.Message) -> list[Event[Any]]:
    found = decode(message.body, message.content_type)
    return [one.event for one in found if isinstance(one, DecodedEvent)]


def test_events_of_one_address_are_gathered_in_their_order_and_nothing_else_is() -> None:
    dispatch = messages.build_message(dispatched(None))
    traced = requested("2").model_copy(update={"traceparent": EXAMPLES["job.dead.v1"].traceparent})
    mixed = [
        messages.build_message(requested("1")),
        dispatch,
        messages.build_message(EXAMPLES["job.cancel_requested.v1"]),
        messages.build_message(traced),
        dispatch._replace(message_id="the next one"),
    ]
    events = messages.batch_messages(mixed)
    assert events[1:] == [dispatch, mixed[2], mixed[4]]
    first = events[0]
    assert (first.exchange, first.routing_key) == ("warrener.requests", "flights.load")
    assert (first.message_id, first.mandatory, first.persistent, first.headers) == ("1+1", True, True, {})
    assert events_in(first) == [requested("1"), traced]
    assert messages.batch_messages(events) == events  # a batch stays as it is


def test_a_batch_of_cancels_has_one_user_and_names_it() -> None:
    cancel = EXAMPLES["job.cancel_requested.v1"]
    sent = [cancel.model_copy(update={"id": f"{user} {n}"}) for user in ("ann", "") for n in (1, 2)]
    found = messages.batch_messages(messages.cancel_behind_reports(one, one.id[:-2] or None) for one in sent)
    assert [one.headers for one in found] == [{messages.ORIGINAL_USER: "ann"}, {}]
    assert [len(events_in(one)) for one in found] == [2, 2]


def test_dispatches_share_messages_up_to_the_number_that_they_allow() -> None:
    dispatch = messages.build_message(dispatched(None))
    several = [dispatch._replace(message_id=str(n), dispatch_batch=3) for n in range(7)]
    found = messages.batch_messages([*several, dispatch])
    assert [len(decode(message.body, message.content_type)) for message in found] == [3, 3, 1, 1]
    assert [message.message_id for message in found] == ["0+2", "3+2", "6", dispatch.message_id]
    assert all(message.mandatory and message.routing_key == dispatch.routing_key for message in found)


def test_each_requester_gets_replies_of_its_own() -> None:
    event = EXAMPLES["job.finished.v1"]
    events = [
        messages.build_reply(event, "a"),
        messages.build_message(event),
        messages.build_reply(event, "b"),
        messages.build_reply(event, "a"),
    ]
    found = messages.batch_messages(events)
    assert [message.routing_key for message in found] == ["reply.a", events[1].routing_key, "reply.b"]
    assert len({message.message_id for message in found}) == 3


@given(st.lists(st.integers(1, 2 * messages.MAX_BATCH_BYTES), max_size=30))
def test_no_gathered_message_is_large_and_none_is_empty(sizes: list[int]) -> None:
    """A larger event goes alone; nothing is lost, doubled or reordered."""
    bodies, plain = [b'"%s"' % (b"x" * size) for size in sizes], messages.build_message(requested("1"))
    whole = [plain._replace(body=body, message_id=str(at)) for at, body in enumerate(bodies)]
    found = messages.batch_messages(whole)
    assert len({message.message_id for message in found}) == len(found)
    for message in found:
        assert message.content_type == messages.EVENT_TYPE or len(message.body) <= messages.MAX_BATCH_BYTES
    assert b",".join(message.body.strip(b"[]") for message in found) == b",".join(one.body for one in whole)


@pytest.mark.parametrize(
    ("after", "level"),
    [(None, None), (-60, None), (0, None), (0.25, None), (0.3, "1s"), (4.7, "5s"), (70, "1m"), (7200, "1h")],
)
def test_an_early_attempt_takes_the_delay_queues(after: float | None, level: str | None) -> None:
    event = dispatched(after)
    message = messages.build_delayed_message(event, NOON)
    assert messages.is_early(event, NOON) == (level is not None)
    if level is None:
        assert message == messages.build_message(event)
    else:
        assert (message.exchange, message.routing_key) == ("warrener.delay", f"{level}.loading.flights.load")
        assert not message.mandatory  # the delay exchange has an alternate: nothing is returned


def test_no_attempt_comes_to_its_agent_early_twice_at_the_same_moment() -> None:
    """An agent that returns an attempt waits at least for the shortest level, so that nothing circles."""
    for tenths in range(1, 900):
        now, hops, event = NOON, 0, dispatched(tenths / 10)
        while messages.is_early(event, now):
            level = messages.build_delayed_message(event, now).routing_key.partition(".")[0]
            now += next(found.delay for found in topology.DELAY_LEVELS if found.name == level)
            hops += 1
        late = (now - NOON).total_seconds() - tenths / 10
        assert -0.25 <= late <= max(1, min(5, tenths / 100)), (tenths, late)
        assert hops <= 9, (tenths, hops)


def parked(
    number: int,
    reason: Reason = Reason.BAD_FIELDS,
    body: bytes = b"{}",
    detail: str = "why",
    content_type: str | None = messages.EVENT_TYPE,
) -> messages.Message:
    return messages.build_parked_message(
        queue="warrener.requests",
        body=body,
        reason=reason,
        detail=detail,
        message_id=f"parked-{number}",
        content_type=content_type,
    )


def test_what_is_parked_in_great_number_is_parked_together() -> None:
    other = messages.build_message(dispatched(0))
    few = [parked(number) for number in range(messages.MAX_PARKED_SINGLY)]
    assert messages.batch_parked([other, *few]) == [other, *few]
    many = [parked(number, body=b'{"n":%d}' % number) for number in range(20_000)]
    first, *parked_messages = messages.batch_parked([other, *many])
    assert first == other
    assert parked_messages[: messages.MAX_PARKED_SINGLY] == many[: messages.MAX_PARKED_SINGLY]
    together = parked_messages[messages.MAX_PARKED_SINGLY :]
    assert len(together) == 1
    assert json.loads(together[0].body) == [{"n": n} for n in range(messages.MAX_PARKED_SINGLY, 20_000)]
    assert together[0].content_type == messages.BATCH_TYPE
    assert together[0].headers == many[0].headers
    no_json = [parked(number, Reason.NOT_JSON, b"{") for number in range(200)]
    assert messages.batch_parked(no_json) == no_json


def test_requests_of_unknown_types_are_parked_by_type_and_many_invented_types_make_few_rows() -> None:
    def of_type(name: str, number: int) -> messages.Message:
        came = {messages.ORIGINAL_EXCHANGE: topology.REQUESTS, messages.ORIGINAL_ROUTING_KEY: name}
        message = parked(number, Reason.UNKNOWN_JOB_TYPE, b'{"n":%d}' % number)
        return message._replace(headers={**message.headers, **came})

    wanted = [of_type("novel", number) for number in range(300)]
    invented = [of_type(f"invented.{number}", number) for number in range(300, 9_000)]
    rows = messages.batch_parked([*wanted, *invented])
    assert len(rows) == 2 * messages.MAX_PARKED_SINGLY + 1
    by_type = [row for row in rows if row.headers.get(messages.ORIGINAL_ROUTING_KEY) == "novel"]
    assert by_type[:-1] == wanted[: messages.MAX_PARKED_SINGLY]
    assert len(json.loads(by_type[-1].body)) == 200
    assert messages.ORIGINAL_ROUTING_KEY not in rows[-1].headers, "of many types"
    assert messages.ORIGINAL_EXCHANGE not in rows[-1].headers


def test_a_parked_message_that_is_too_large_is_truncated() -> None:
    message = parked(1, Reason.TOO_LARGE, b"x" * (topology.MAX_MESSAGE + 1))
    assert message.body == b"x" * 64 * 1024
    assert f"of {topology.MAX_MESSAGE + 1} bytes" in message.headers["warrener-detail"]
    assert parked(1, body=b"x" * topology.MAX_MESSAGE).body == b"x" * topology.MAX_MESSAGE


def test_a_parked_message_is_stored_unchanged_with_the_reason() -> None:
    message = parked(17, Reason.NOT_JSON, b"\xff", "\ud800\0" + "x" * 5000, content_type=None)
    assert message == messages.Message(
        exchange="warrener.dead",
        routing_key="parked.warrener.requests",
        body=b"\xff",
        content_type="application/octet-stream",
        message_id="parked-17",
        type="parked",
        headers={
            "warrener-reason": "not_json",
            "warrener-detail": message.headers["warrener-detail"],
            "warrener-queue": "warrener.requests",
        },
    )
    assert len(message.headers["warrener-detail"].encode()) <= 2010


MESSAGES = {name: messages.build_message(event) for name, event in EXAMPLES.items()}
DISPATCH = MESSAGES["attempt.dispatched.v1"]


def test_a_message_is_published_once_and_those_of_one_address_together() -> None:
    request = MESSAGES["job.requested.v1"]
    other = request._replace(message_id="other")
    combined = outbox.combine([request, other, DISPATCH, request])
    assert [message.type for message in combined] == ["batch", DISPATCH.type]


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("attempt.dispatched.v1", topology.dispatch_queue("loading")),
        ("job.requested.v1", topology.REQUESTS_QUEUE),
        ("schedule.put.v1", topology.SCHEDULER_COMMANDS),
        ("job.redrive_requested.v1", topology.SCHEDULER_COMMANDS),
        ("job.cancel_requested.v1", topology.SUPERVISOR_COMMANDS),
        ("parked.drop_requested.v1", topology.SUPERVISOR_COMMANDS),
        ("attempt.succeeded.v1", topology.STATUS_QUEUE),
    ],
)
def test_a_returned_message_needs_its_exchange_and_its_queue(name: str, queue: topology.Queue) -> None:
    message = MESSAGES[name]
    needed = outbox.missing_topology(message)
    assert needed is not None
    assert queue in needed.queues
    exchanges = {exchange.name for exchange in needed.exchanges}
    assert {message.exchange, *(binding.exchange for binding in queue.bindings)} <= exchanges


def test_events_to_subscribers_need_their_exchange_and_no_queue_and_those_of_others_nothing() -> None:
    finished = MESSAGES["job.finished.v1"]
    assert outbox.missing_topology(finished._replace(exchange="orders")) is None
    needed = outbox.missing_topology(finished)
    assert needed is not None
    assert topology.EVENTS in {exchange.name for exchange in needed.exchanges}
    assert not [
        queue for queue in needed.queues if topology.EVENTS in {one.exchange for one in queue.bindings}
    ]


def test_dispatches_and_outbound_events_may_be_deferred() -> None:
    delayed = messages.delayed_by(DISPATCH, topology.DELAY_LEVELS[0])
    deferred: list[messages.Message] = [delayed, *filter(outbox.may_defer, MESSAGES.values())]
    exchanges = {message.exchange for message in deferred}
    assert exchanges == {"warrener.delay", "warrener.dispatch", "warrener.events"}
    event = EXAMPLES["attempt.dispatched.v1"]
    attempt = (event.data.job_id, event.data.attempt)
    assert outbox.deferred_attempts(deferred) == [attempt, attempt]


NO_TRACE = {"traceparent": None, "tracestate": None, "baggage": None}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
@pytest.mark.parametrize(
    "changed",
    [
        {},
        NO_TRACE,
        {**NO_TRACE, "tracestate": 'vendor="1",\\2'},
        {"tracestate": None},
        {**NO_TRACE, "baggage": 'tenant="acme"'},
        {**NO_TRACE, "id": "\u00e9" * 200},
    ],
    ids=["as in the example", "no trace", "an odd state", "a parent alone", "baggage alone", "a long id"],
)
def test_every_event_can_be_written_without_validation(name: str, changed: dict[str, Any]) -> None:
    event: Event[Any] = EXAMPLES[name].model_copy(update=changed)
    assert event.time is not None
    trace = {name: getattr(event, name) for name in NO_TRACE}
    key, time, subject = messages.address_of(event)[1], moment_json(event.time), str(event.subject)
    data, writer = messages.encode(event.data).decode(), EventWriter(type(event), event.source)
    assert writer.message(event.id, key, time, subject, data, **trace) == messages.build_message(event)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=2)), timezone(timedelta(hours=-9.5))])
def test_moments_are_written_in_utc(zone: timezone) -> None:
    moment = datetime(2013, 1, 1, 12, 0, 0, 20, tzinfo=UTC).astimezone(zone)
    assert moment_json(moment) == shared_moment_json(moment) == '"2013-01-01T12:00:00.000020Z"'
