"""Events as messages: addressed, sized and identified so that AMQP takes every one of them."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.reference.golden import golden_events

from warrener_contracts import messages, topology
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
from warrener_contracts.messages import (
    EVENT_TYPE,
    MAX_BATCH_BYTES,
    Message,
    batch_messages,
    build_delayed_message,
    build_message,
    build_reply,
    is_early,
)
from warrener_contracts.topology import DELAY_LEVELS

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)
EXAMPLES = golden_events()


def dispatched(after: float | None) -> AttemptDispatched:
    event = EXAMPLES["attempt.dispatched.v1"]
    due = None if after is None else NOON + timedelta(seconds=after)
    assert isinstance(event, AttemptDispatched)
    return event.model_copy(update={"data": event.data.model_copy(update={"not_before": due})})


def requested(name: str) -> JobRequested:
    return JobRequested(id=name, source="airline", data=JobRequestedData(job_type="flights.load"))


ADDRESSES = {
    "job.requested.v1": ("warrener.requests", "flights.load"),
    "job.cancel_requested.v1": ("warrener.commands", "job.cancel_requested"),
    "agent.announced.v1": ("warrener.requests", "agent.announced"),
    "attempt.dispatched.v1": ("warrener.dispatch", "loading.flights.load"),
    "attempt.cancel.v1": ("warrener.control", "all"),
    "attempt.started.v1": ("warrener.status", "attempt.started.flights.load"),
    "attempt.progressed.v1": ("warrener.status", "attempt.progressed.flights.load"),
    "attempt.checkpointed.v1": ("warrener.status", "attempt.checkpointed.flights.load"),
    "attempt.succeeded.v1": ("warrener.status", "attempt.succeeded.flights.load"),
    "attempt.failed.v1": ("warrener.status", "attempt.failed.flights.load"),
    "attempt.cancelled.v1": ("warrener.status", "attempt.cancelled.flights.load"),
    "attempt.released.v1": ("warrener.status", "attempt.released.flights.load"),
    "attempt.timed_out.v1": ("warrener.status", "attempt.timed_out.flights.load"),
    "attempt.lost.v1": ("warrener.status", "attempt.lost.flights.load"),
    "attempt.start_timed_out.v1": ("warrener.status", "attempt.start_timed_out.flights.load"),
    "breaker.set_requested.v1": ("warrener.commands", "breaker.set_requested"),
    "breaker.changed.v1": ("warrener.events", "breaker.changed.open"),
    "incident.acknowledge_requested.v1": ("warrener.commands", "incident.acknowledge_requested"),
    "parked.drop_requested.v1": ("warrener.commands", "parked.drop_requested"),
    "parked.requeue_requested.v1": ("warrener.commands", "parked.requeue_requested"),
    "incident.close_requested.v1": ("warrener.commands", "incident.close_requested"),
    "incident.snooze_requested.v1": ("warrener.commands", "incident.snooze_requested"),
    "job.deadline_passed.v1": ("warrener.status", "job.deadline_passed"),
    "agent.heartbeat.v1": ("warrener.heartbeats", "agent.loader-7c9f.4121"),
    "agent.heartbeat_requested.v1": ("warrener.control", "agent.loader-7c9f.4121"),
    "job.rejected.v1": ("warrener.events", "job.rejected.flights.load"),
    "job.deduplicated.v1": ("warrener.events", "job.deduplicated"),
    "job.finished.v1": ("warrener.events", "job.finished.succeeded.flights.load"),
    "job.retrying.v1": ("warrener.events", "job.retrying.flights.load"),
    "job.waiting.v1": ("warrener.events", "job.waiting.flights.load"),
    "job.dead.v1": ("warrener.events", "job.dead.flights.load"),
    "agent.lost.v1": ("warrener.events", "agent.lost.loader-7c9f.4121"),
    "service.unresponsive.v1": ("warrener.events", "service.unresponsive.agent"),
    "job.redrive_requested.v1": ("warrener.commands", "job.redrive_requested"),
    "job.drop_requested.v1": ("warrener.commands", "job.drop_requested"),
    "redrive.change_requested.v1": ("warrener.commands", "redrive.change_requested"),
    "schedule.put.v1": ("warrener.commands", "schedule.put"),
    "schedule.pause_requested.v1": ("warrener.commands", "schedule.pause_requested"),
    "schedule.resume_requested.v1": ("warrener.commands", "schedule.resume_requested"),
    "schedule.remove_requested.v1": ("warrener.commands", "schedule.remove_requested"),
    "schedule.trigger_requested.v1": ("warrener.commands", "schedule.trigger_requested"),
    "schedule.backfill_requested.v1": ("warrener.commands", "schedule.backfill_requested"),
    "schedule.ticked.v1": ("warrener.events", "schedule.ticked.caught_up.flights.hourly"),
}


@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_an_event_of_1_0_keeps_its_address(name: str) -> None:
    message = build_message(EXAMPLES[name])
    assert (message.exchange, message.routing_key) == ADDRESSES[name]


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_event_is_one_message(name: str) -> None:
    message = build_message(EXAMPLES[name])
    assert (message.type, message.message_id) == (name, EXAMPLES[name].id)
    assert message.content_type == "application/cloudevents+json"
    assert message.headers == {
        "traceparent": EXAMPLES[name].traceparent,
        "tracestate": "airline=ops",
        "baggage": "airport=JFK",
    }


def test_an_event_from_nowhere_has_no_address() -> None:
    with pytest.raises(TypeError, match=r"expected an event of the wire, got 'flight\.landed\.v1'"):
        build_message(
            Event(id="1", source="airline", type="flight.landed.v1", data=JobRequestedData(job_type="a"))
        )


def test_only_control_heartbeats_and_log_lines_are_transient_and_what_is_requested_is_mandatory() -> None:
    for event in EXAMPLES.values():
        message = build_message(event)
        transient = {topology.CONTROL, topology.HEARTBEATS, topology.LOGS}
        assert message.persistent == (message.exchange not in transient)
        returned = {topology.REQUESTS, topology.DISPATCH, topology.COMMANDS}
        assert message.mandatory == (message.exchange in returned)


def test_an_id_longer_than_amqp_takes_becomes_a_uuid_of_it() -> None:
    """A cancel is forwarded under its own id: AMQP would refuse it again and again."""
    data = JobCancelRequestedData(job_id=UUID(int=7))
    names = ["é" * 200, "é" * 199 + "e", "short", "i" * 200]
    ids = [
        build_message(JobCancelRequested(id=name, source="airline", data=data)).message_id for name in names
    ]
    assert ids == ["e6550cf9-ac6c-5c6b-aaa7-86216249f28f", ids[1], "short", "i" * 200]
    assert ids[0] != ids[1]
    assert all(len(found.encode()) <= 255 for found in ids)


def test_a_reply_goes_to_its_requester_under_an_id_of_its_own() -> None:
    event = EXAMPLES["job.finished.v1"]
    message = build_reply(event, "desk-4")
    assert (message.exchange, message.routing_key) == ("warrener.events", "reply.desk-4")
    assert message.message_id == f"{event.id}>desk-4"
    assert message.body == build_message(event).body
    longest = build_reply(event.model_copy(update={"id": "i" * 200}), "a" * 80)
    assert len(longest.message_id) == 36


@pytest.mark.parametrize("job_type", [None, "", "flights.#", "flights load", "x" * 500, "\u00e9"])
def test_a_rejection_of_what_is_no_job_type_is_addressed_all_the_same(job_type: str | None) -> None:
    data = JobRejectedData(
        request_id="", request_source="", job_type=job_type, reason=Reason.BAD_FIELDS, detail="no"
    )
    assert build_message(JobRejected(id="1", source="s", data=data)).routing_key == "job.rejected.unknown"


def test_a_batch_is_one_message_and_each_element_keeps_its_trace() -> None:
    events = [
        requested("1"),
        requested("2").model_copy(update={"traceparent": EXAMPLES["job.dead.v1"].traceparent}),
    ]
    (message,) = batch_messages(build_message(event) for event in events)
    found = decode(message.body, message.content_type)
    assert [one.event for one in found if isinstance(one, DecodedEvent)] == events
    assert (message.exchange, message.routing_key) == ("warrener.requests", "flights.load")
    assert message.headers == {}
    assert message.mandatory
    assert message.message_id != build_message(events[0]).message_id


def test_events_of_one_address_are_gathered_in_their_order_and_nothing_else_is() -> None:
    dispatch = build_message(dispatched(None))
    mixed = [
        build_message(requested("1")),
        dispatch,
        build_message(EXAMPLES["job.cancel_requested.v1"]),
        build_message(requested("2")),
        dispatch._replace(message_id="the next one"),
    ]
    events = batch_messages(mixed)
    assert events[1:] == [dispatch, mixed[2], mixed[4]]
    first = events[0]
    assert (first.exchange, first.routing_key, first.message_id) == (
        "warrener.requests",
        "flights.load",
        "1+1",
    )
    assert (first.mandatory, first.persistent, first.headers) == (True, True, {})
    assert [one.event for one in decode(first.body, first.content_type) if isinstance(one, DecodedEvent)] == [
        requested("1"),
        requested("2"),
    ]
    assert batch_messages(events) == events  # a batch stays as it is


def test_dispatches_share_messages_up_to_the_number_that_they_allow() -> None:
    dispatch = build_message(dispatched(None))
    several = [dispatch._replace(message_id=str(n), dispatch_batch=3) for n in range(7)]
    found = batch_messages([*several, dispatch])
    assert [len(decode(message.body, message.content_type)) for message in found] == [3, 3, 1, 1]
    assert [message.message_id for message in found] == ["0+2", "3+2", "6", dispatch.message_id]
    assert all(message.mandatory and message.routing_key == dispatch.routing_key for message in found)


def test_each_requester_gets_replies_of_its_own() -> None:
    event = EXAMPLES["job.finished.v1"]
    events = [build_reply(event, "a"), build_message(event), build_reply(event, "b"), build_reply(event, "a")]
    found = batch_messages(events)
    assert [message.routing_key for message in found] == ["reply.a", events[1].routing_key, "reply.b"]
    assert len({message.message_id for message in found}) == 3


@given(st.lists(st.integers(1, 2 * MAX_BATCH_BYTES), max_size=30))
def test_no_gathered_message_is_large_and_none_is_empty(sizes: list[int]) -> None:
    """A larger event goes alone; nothing is lost, doubled or reordered."""
    plain = build_message(requested("1"))
    whole = [
        plain._replace(body=b'"%s"' % (b"x" * size), message_id=str(at)) for at, size in enumerate(sizes)
    ]
    found = batch_messages(whole)
    assert len({message.message_id for message in found}) == len(found)
    for message in found:
        assert message.content_type == EVENT_TYPE or len(message.body) <= MAX_BATCH_BYTES
    assert b",".join(message.body.strip(b"[]") for message in found) == b",".join(one.body for one in whole)


@pytest.mark.parametrize(
    ("after", "level"),
    [(None, None), (-60, None), (0, None), (0.25, None), (0.3, "1s"), (4.7, "5s"), (70, "1m"), (7200, "1h")],
)
def test_an_early_attempt_takes_the_delay_queues(after: float | None, level: str | None) -> None:
    event = dispatched(after)
    message = build_delayed_message(event, NOON)
    assert is_early(event, NOON) == (level is not None)
    if level is None:
        assert message == build_message(event)
    else:
        assert (message.exchange, message.routing_key) == ("warrener.delay", f"{level}.loading.flights.load")
        assert not message.mandatory  # the delay exchange has an alternate: nothing is returned


def test_an_attempt_can_be_put_on_any_delay_level() -> None:
    message = messages.delayed_by(build_message(dispatched(None)), DELAY_LEVELS[0])
    assert (message.exchange, message.routing_key) == (topology.DELAY, "1s.loading.flights.load")


def test_no_attempt_comes_to_its_agent_early_twice_at_the_same_moment() -> None:
    """An agent that returns an attempt waits at least for the shortest level, so that nothing circles."""
    for tenths in range(1, 900):
        now, hops, event = NOON, 0, dispatched(tenths / 10)
        while is_early(event, now):
            level = build_delayed_message(event, now).routing_key.partition(".")[0]
            now += next(found.delay for found in DELAY_LEVELS if found.name == level)
            hops += 1
        late = (now - NOON).total_seconds() - tenths / 10
        assert -0.25 <= late <= max(1, min(5, tenths / 100)), (tenths, late)
        assert hops <= 9, (tenths, hops)


def parked(number: int, reason: Reason = Reason.BAD_FIELDS, body: bytes = b"{}") -> Message:
    return messages.build_parked_message(
        queue="warrener.requests",
        body=body,
        reason=reason,
        detail="why",
        message_id=f"parked-{number}",
        content_type=messages.EVENT_TYPE,
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


def test_requests_of_unknown_types_are_parked_by_type_and_many_invented_types_make_few_rows() -> None:
    def of_type(name: str, number: int) -> Message:
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


def test_what_is_no_json_is_parked_alone() -> None:
    many = [parked(number, Reason.NOT_JSON, b"{") for number in range(200)]
    assert messages.batch_parked(many) == many


def test_a_parked_message_that_is_too_large_is_truncated() -> None:
    message = parked(1, Reason.TOO_LARGE, b"x" * (topology.MAX_MESSAGE + 1))
    assert message.body == b"x" * 64 * 1024
    assert f"of {topology.MAX_MESSAGE + 1} bytes" in message.headers["warrener-detail"]
    assert parked(1, body=b"x" * topology.MAX_MESSAGE).body == b"x" * topology.MAX_MESSAGE


def test_a_parked_message_is_stored_unchanged_with_the_reason() -> None:
    message = messages.build_parked_message(
        queue="warrener.requests",
        body=b"\xff",
        reason=Reason.NOT_JSON,
        detail="\ud800\0" + "x" * 5000,
        message_id="17",
        content_type=None,
    )
    assert message == Message(
        exchange="warrener.dead",
        routing_key="parked.warrener.requests",
        body=b"\xff",
        content_type="application/octet-stream",
        message_id="17",
        type="parked",
        headers={
            "warrener-reason": "not_json",
            "warrener-detail": message.headers["warrener-detail"],
            "warrener-queue": "warrener.requests",
        },
    )
    assert len(message.headers["warrener-detail"].encode()) <= 2010
