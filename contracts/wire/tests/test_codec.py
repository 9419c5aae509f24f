"""decode() returns events, or the reason for every unreadable one."""

import json
from typing import Any

import pytest
from tools.reference.golden import golden_events

from warrener_contracts.codec import MAX_DECODE_FAILURES, DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import Event, JobRequested, Reason
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, encode
from warrener_contracts.topology import MAX_BODY, MAX_EVENTS

REQUEST: dict[str, Any] = {
    "specversion": "1.0",
    "id": "order-17",
    "source": "airline/operations",
    "type": "job.requested.v1",
    "data": {
        "job_type": "flights.load",
        "arguments": {"path": "flights/2013-01-01.csv"},
        "reply_to": "desk-4",
    },
}


def request_with(**changes: Any) -> bytes:
    return json.dumps({**REQUEST, **changes}).encode()


def request_saying(**data: Any) -> bytes:
    return request_with(data={**REQUEST["data"], **data})


def request_without(name: str) -> bytes:
    return json.dumps({key: value for key, value in REQUEST.items() if key != name}).encode()


def the_unreadable(
    body: bytes, content_type: str | None = EVENT_TYPE, limit: int = MAX_BODY
) -> DecodeFailure:
    (found,) = decode(body, content_type, limit=limit)
    assert isinstance(found, DecodeFailure), found
    assert found.body == body
    return found


NOT_EVENTS = [
    pytest.param(b"", Reason.NOT_JSON, "JSON", id="nothing"),
    pytest.param(b"load the flights, please", Reason.NOT_JSON, "JSON", id="prose"),
    pytest.param(request_with()[:-1], Reason.NOT_JSON, "JSON", id="cut off"),
    pytest.param(b"\xff\xfe{}", Reason.NOT_JSON, "JSON", id="not UTF-8"),
    pytest.param(b"[" * 10_000, Reason.NOT_JSON, "recursion", id="ten thousand levels, never closed"),
    pytest.param(b"[" * 10_000 + b"]" * 10_000, Reason.NOT_JSON, "recursion", id="ten thousand levels"),
    pytest.param(request_with(id="\ud800"), Reason.NOT_JSON, "JSON", id="half a surrogate pair"),
    pytest.param(b'{"id":"a\x00b"}', Reason.NOT_JSON, "JSON", id="a raw NUL byte"),
    pytest.param(b'{"x":' + b"9" * 6000 + b"}", Reason.NOT_JSON, "number", id="a number of 6000 digits"),
    pytest.param(b"17", Reason.NOT_AN_EVENT, "specversion", id="a number"),
    pytest.param(b"null", Reason.NOT_AN_EVENT, "specversion", id="null"),
    pytest.param(b"{}", Reason.NOT_AN_EVENT, "specversion", id="an empty object"),
    pytest.param(b"[" + request_with() + b"]", Reason.NOT_AN_EVENT, "batch", id="an array without its type"),
    pytest.param(request_without("type"), Reason.NOT_AN_EVENT, "type", id="no type"),
    pytest.param(request_with(type=["job"]), Reason.NOT_AN_EVENT, "an array", id="an array as type"),
    pytest.param(request_with(specversion="0.3"), Reason.NOT_AN_EVENT, "'0.3'", id="an old CloudEvent"),
    pytest.param(request_with(type="flight.landed.v1"), Reason.UNKNOWN_EVENT, "flight.landed", id="not ours"),
    pytest.param(
        request_with(type="x" * 100_000), Reason.UNKNOWN_EVENT, "job.requested.v1", id="a huge type"
    ),
    pytest.param(
        request_with(type="job.requested.v9"), Reason.UNKNOWN_VERSION, "v1, got 'v9'", id="the future"
    ),
    pytest.param(request_with(type="job.requested.v0"), Reason.UNKNOWN_VERSION, "version v1", id="the past"),
    pytest.param(request_without("id"), Reason.MISSING_ID, "repeat", id="no id"),
    pytest.param(request_with(id=""), Reason.MISSING_ID, "repeat", id="an empty id"),
    pytest.param(request_with(id=None), Reason.MISSING_ID, "repeat", id="null as id"),
    pytest.param(request_with(id=17), Reason.BAD_FIELDS, "id:", id="a number as id"),
    pytest.param(request_with(id="i" * 201), Reason.BAD_FIELDS, "200", id="an endless id"),
    pytest.param(request_without("source"), Reason.BAD_FIELDS, "source: Field required", id="no source"),
    pytest.param(request_without("data"), Reason.BAD_FIELDS, "data: Field required", id="no data"),
    pytest.param(request_with(data="flights"), Reason.BAD_FIELDS, "data:", id="text as data"),
    pytest.param(request_with(time="2013-01-01T12:00:00"), Reason.BAD_FIELDS, "timezone", id="no offset"),
    pytest.param(request_saying(job_type="flights.*"), Reason.BAD_FIELDS, "data.job_type", id="a star"),
    pytest.param(request_saying(job_type="flights\n"), Reason.BAD_FIELDS, "data.job_type", id="a line end"),
    pytest.param(
        request_saying(arguments=[1]), Reason.BAD_FIELDS, "data.arguments", id="an array of arguments"
    ),
    pytest.param(
        request_saying(reply_to="a b"), Reason.BAD_FIELDS, "data.reply_to", id="a bad reply address"
    ),
    pytest.param(request_saying(delay=[1]), Reason.BAD_FIELDS, "data.delay", id="a list as delay"),
    pytest.param(request_saying(delay=True), Reason.BAD_FIELDS, "data.delay", id="true as delay"),
    pytest.param(request_saying(delay=-1), Reason.BAD_FIELDS, "data.delay", id="a delay into the past"),
    pytest.param(
        request_saying(delay="9" * 400 + "d"), Reason.BAD_FIELDS, "100 years", id="an endless delay"
    ),
    pytest.param(
        request_saying(policy={"max_attempts": "3"}), Reason.BAD_FIELDS, "integer", id="text as number"
    ),
    pytest.param(request_saying(policy={"timeout": 0}), Reason.BAD_FIELDS, "timeout", id="no time at all"),
    pytest.param(
        request_saying(not_before="9999-12-31T23:59:59-23:59"),
        Reason.BAD_FIELDS,
        "8999",
        id="past the last year",
    ),
    pytest.param(
        request_saying(not_before="0001-01-01T00:00:00+14:00"),
        Reason.BAD_FIELDS,
        "1970",
        id="before the first",
    ),
    pytest.param(
        request_saying(arguments={"x": "a\0b"}), Reason.BAD_FIELDS, "U\\+0000", id="U+0000 in a value"
    ),
    pytest.param(request_saying(arguments={"a\0b": 1}), Reason.BAD_FIELDS, "U\\+0000", id="U+0000 in a name"),
    pytest.param(request_with(subject="a\0b"), Reason.BAD_FIELDS, "U\\+0000", id="U+0000 in the envelope"),
    pytest.param(request_saying(arguments={"x": float("nan")}), Reason.BAD_FIELDS, "finite", id="NaN"),
    pytest.param(request_saying(arguments={"x": -float("inf")}), Reason.BAD_FIELDS, "finite", id="-Infinity"),
    pytest.param(
        request_saying(arguments={"x": 17}).replace(b"17}", b"1e400}"),
        Reason.BAD_FIELDS,
        "finite",
        id="1e400",
    ),
]


@pytest.mark.parametrize(("body", "reason", "hint"), NOT_EVENTS)
def test_what_is_not_an_event_is_unreadable_with_its_reason(body: bytes, reason: Reason, hint: str) -> None:
    found = the_unreadable(body)
    assert found.reason is reason, found.detail
    assert hint.replace("\\", "") in found.detail
    assert found.detail.encode()  # it can be sent on, whatever came


def test_a_body_that_is_too_large_is_refused_with_the_limit_and_its_sender_is_known() -> None:
    found = the_unreadable(request_saying(arguments={"path": "x" * MAX_BODY}))
    assert found.reason is Reason.TOO_LARGE
    assert f"at most {MAX_BODY} bytes" in found.detail
    assert (found.reply_to, found.request_id, found.job_type) == ("desk-4", "order-17", "flights.load")


def test_a_body_too_large_to_be_looked_at_has_no_asker() -> None:
    found = the_unreadable(b" " * (9 * MAX_BODY))
    assert found.reason is Reason.TOO_LARGE
    assert (found.reply_to, found.request_id, found.request_source, found.job_type) == (None, "", "", None)


def test_what_is_known_of_the_asker_is_safe_to_send_on() -> None:
    found = the_unreadable(
        request_with(id="\ud800" + "i" * 5000, data={"job_type": "*\0" * 500, "reply_to": "#"})
    )
    assert found.reply_to is None
    for text in (found.request_id, found.job_type or "", found.detail):
        assert text.encode()
        assert "\0" not in text
        assert len(text) <= 2000


def test_the_same_bytes_have_the_same_identity_and_others_have_another() -> None:
    one, again, other = the_unreadable(b"{"), the_unreadable(b"{"), the_unreadable(b"[")
    assert one.identity == again.identity == "3341a2d2-c78a-5856-84b5-33eb37e3d5bc"
    assert other.identity != one.identity


def test_fields_of_a_newer_neighbour_are_ignored() -> None:
    (found,) = decode(request_with(priority=3, data={**REQUEST["data"], "affinity": "gate-7"}))
    assert isinstance(found, DecodedEvent)
    assert found.event == decode_one(request_with())


def test_of_a_repeated_name_the_last_one_counts() -> None:
    event = decode_one(request_with().replace(b'"id"', b'"id": "first", "id"'))
    assert event.id == "order-17"


def test_a_malformed_trace_context_is_dropped_and_refuses_nothing() -> None:
    event = decode_one(request_with(traceparent="x" * 200_000, tracestate="\u00e9"))
    assert (event.traceparent, event.tracestate) == (None, None)


def test_an_unknown_content_type_is_read_as_one_event() -> None:
    for content_type in (None, "application/json", "application/cloudevents+json; charset=utf-8"):
        assert events_in(request_with(), content_type) == [decode_one(request_with())]


def test_each_element_of_a_batch_is_judged_by_itself() -> None:
    nested = b"[" + request_with() + b"]"
    body = b"[%s, %s, 17, %s, %s]" % (
        request_with(),
        request_with(id=""),
        nested,
        request_with(id="order-18"),
    )
    found = decode(body, "application/cloudevents-batch+json; charset=utf-8")
    kinds = [one.event.id if isinstance(one, DecodedEvent) else one.reason for one in found]
    assert kinds == ["order-17", Reason.MISSING_ID, Reason.NOT_AN_EVENT, Reason.NOT_AN_EVENT, "order-18"]
    assert [one.body for one in found] == [
        request_with(),
        request_with(id=""),
        b"17",
        nested,
        request_with(id="order-18"),
    ]


def test_a_nan_in_a_batch_parks_its_own_element_alone() -> None:
    body = b"[%s, %s]" % (request_with(), request_saying(arguments={"x": float("nan")}))
    good, bad = decode(body, BATCH_TYPE)
    assert isinstance(good, DecodedEvent)
    assert isinstance(bad, DecodeFailure)
    assert bad.reason is Reason.BAD_FIELDS


@pytest.mark.parametrize(
    "element",
    [
        pytest.param(request_with(priority=3), id="a field of a newer neighbour"),
        pytest.param(request_with().replace(b'"id"', b'"id": "first", "id"'), id="a repeated name"),
        pytest.param(request_saying(arguments={"x": '], [\u00e9\\"'}), id="brackets and quotes in a text"),
        pytest.param(
            request_saying(arguments={"x": 4242}).replace(b"4242", b"1.50e+1"), id="a number in its own way"
        ),
        pytest.param(
            request_saying(arguments={"x": 4242}).replace(b"4242", b"1" + b"0" * 4000), id="a long number"
        ),
        pytest.param(json.dumps(REQUEST, indent=2).encode(), id="lines"),
        pytest.param(json.dumps({**REQUEST, "subject": "\u00e9"}, ensure_ascii=False).encode(), id="UTF-8"),
    ],
)
def test_an_event_has_the_bytes_it_was_read_from(element: bytes) -> None:
    """A readable event that is rejected later keeps its received bytes."""
    (alone,) = decode(element)
    assert alone.body == element
    for rest in (request_with(), b"17"):  # all of them good, or each read by itself
        body = b" [\n%s ,\t%s,%s\r\n] " % (element, rest, element)
        first, _, last = decode(body, BATCH_TYPE)
        assert isinstance(first, DecodedEvent)
        assert first.body == last.body == element
        assert first.identity == alone.identity


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"[", Reason.NOT_JSON), (b"[" * 10_000, Reason.NOT_JSON), (request_with(), Reason.NOT_AN_EVENT)],
)
def test_what_is_no_batch_is_unreadable_as_a_whole(body: bytes, reason: Reason) -> None:
    assert the_unreadable(body, BATCH_TYPE).reason is reason


@pytest.mark.parametrize("element", [b"1", b"[]", b'"a,b"', b"null"])
def test_a_batch_of_too_many_elements_is_one_unreadable_message(element: bytes) -> None:
    found = the_unreadable(b" [\n" + b",".join([element] * (MAX_EVENTS + 1)) + b"]", BATCH_TYPE)
    assert found.reason is Reason.TOO_LARGE
    assert f"at most {MAX_EVENTS} events" in found.detail
    assert found.content_type == BATCH_TYPE


def test_the_commas_inside_of_events_do_not_count_as_elements() -> None:
    event = request_saying(arguments={"path": "," * MAX_EVENTS, "rows": [1] * MAX_EVENTS})
    (found,) = events_in(b"[%s]" % event, BATCH_TYPE)
    assert found == decode_one(event)


@pytest.mark.parametrize("number", [2, 3])
def test_how_many_events_a_message_may_hold_can_be_set(number: int) -> None:
    body = b"[" + b",".join([request_with()] * number) + b"]"
    found = decode(body, BATCH_TYPE, max_events=2)
    assert [type(one) for one in found] == ([DecodedEvent] * 2 if number == 2 else [DecodeFailure])


def test_a_batch_without_one_object_is_one_unreadable_message() -> None:
    found = the_unreadable(b"[1, [2], null]", BATCH_TYPE)
    assert (found.reason, found.content_type) == (Reason.NOT_AN_EVENT, BATCH_TYPE)


def test_of_many_unreadable_events_the_first_stand_alone_and_the_others_together() -> None:
    bad = [json.dumps({"number": number}).encode() for number in range(MAX_DECODE_FAILURES + 300)]
    found = decode(b"[%s,%s,%s]" % (request_with(), b",".join(bad), request_with(id="order-18")), BATCH_TYPE)
    assert [one.event.id for one in found if isinstance(one, DecodedEvent)] == ["order-17", "order-18"]
    *alone, rest = [one for one in found if isinstance(one, DecodeFailure)]
    assert [one.body for one in alone] == bad[:MAX_DECODE_FAILURES]
    assert {one.content_type for one in alone} == {EVENT_TYPE}
    assert (rest.body, rest.content_type) == (b"[" + b",".join(bad[MAX_DECODE_FAILURES:]) + b"]", BATCH_TYPE)
    assert "300 more" in rest.detail
    assert "not_an_event 300" in rest.detail


def test_an_empty_batch_holds_nothing() -> None:
    assert decode(b"[]", BATCH_TYPE) == []


def test_a_batch_of_everything_is_read_again() -> None:
    written = list(golden_events().values())
    body = b"[" + b",".join(encode(event) for event in written) + b"]"
    assert events_in(body, BATCH_TYPE) == written


def test_nulls_inside_of_arguments_survive_the_wire() -> None:
    event = decode_one(request_saying(arguments={"carrier": None, "legs": [None, {"gate": None}]}))
    assert decode_one(encode(event)).data.arguments == {"carrier": None, "legs": [None, {"gate": None}]}


def events_in(body: bytes, content_type: str | None = None) -> list[Event[Any]]:
    found = decode(body, content_type)
    return [one.event for one in found if isinstance(one, DecodedEvent)]


def decode_one(body: bytes) -> JobRequested:
    (found,) = decode(body)
    assert isinstance(found, DecodedEvent), found
    assert isinstance(found.event, JobRequested)
    return found.event
