"""decode() returns events, or the reason for every unreadable one, and never raises for any bytes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.reference.golden import golden_events

from warrener_contracts.codec import MAX_DECODE_FAILURES, DecodedEvent, DecodeFailure, decode
from warrener_contracts.events import Event, JobRequested, Reason
from warrener_contracts.json_safety import is_object
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, build_message, encode
from warrener_contracts.registry import RELEASED, type_of
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


def the_unreadable(body: bytes, content_type: str | None = EVENT_TYPE) -> DecodeFailure:
    (found,) = decode(body, content_type, limit=MAX_BODY)
    assert isinstance(found, DecodeFailure), found
    assert found.body == body
    return found


NOT_EVENTS: dict[Reason, dict[str, tuple[bytes, str]]] = {
    Reason.NOT_JSON: {
        "nothing": (b"", "JSON"),
        "prose": (b"load the flights, please", "JSON"),
        "cut off": (request_with()[:-1], "JSON"),
        "not UTF-8": (b"\xff\xfe{}", "JSON"),
        "ten thousand levels, never closed": (b"[" * 10_000, "recursion"),
        "ten thousand levels": (b"[" * 10_000 + b"]" * 10_000, "recursion"),
        "half a surrogate pair": (request_with(id="\ud800"), "JSON"),
        "a raw NUL byte": (b'{"id":"a\x00b"}', "JSON"),
        "a number of 6000 digits": (b'{"x":' + b"9" * 6000 + b"}", "number"),
    },
    Reason.NOT_AN_EVENT: {
        "a number": (b"17", "specversion"),
        "null": (b"null", "specversion"),
        "an empty object": (b"{}", "specversion"),
        "an array without its type": (b"[" + request_with() + b"]", "batch"),
        "no type": (request_without("type"), "type"),
        "an array as type": (request_with(type=["job"]), "an array"),
        "an old CloudEvent": (request_with(specversion="0.3"), "'0.3'"),
    },
    Reason.UNKNOWN_EVENT: {
        "not ours": (request_with(type="flight.landed.v1"), "flight.landed"),
        "a huge type": (request_with(type="x" * 100_000), "job.requested.v1"),
    },
    Reason.UNKNOWN_VERSION: {
        "the future": (request_with(type="job.requested.v9"), "v1, got 'v9'"),
        "the past": (request_with(type="job.requested.v0"), "version v1"),
    },
    Reason.MISSING_ID: {
        "no id": (request_without("id"), "repeat"),
        "an empty id": (request_with(id=""), "repeat"),
        "null as id": (request_with(id=None), "repeat"),
    },
    Reason.BAD_FIELDS: {
        "a number as id": (request_with(id=17), "id:"),
        "an endless id": (request_with(id="i" * 201), "200"),
        "no source": (request_without("source"), "source: Field required"),
        "no data": (request_without("data"), "data: Field required"),
        "text as data": (request_with(data="flights"), "data:"),
        "no offset": (request_with(time="2013-01-01T12:00:00"), "timezone"),
        "a star": (request_saying(job_type="flights.*"), "data.job_type"),
        "a line end": (request_saying(job_type="flights\n"), "data.job_type"),
        "an array of arguments": (request_saying(arguments=[1]), "data.arguments"),
        "a bad reply address": (request_saying(reply_to="a b"), "data.reply_to"),
        "a list as delay": (request_saying(delay=[1]), "data.delay"),
        "true as delay": (request_saying(delay=True), "data.delay"),
        "a delay into the past": (request_saying(delay=-1), "data.delay"),
        "an endless delay": (request_saying(delay="9" * 400 + "d"), "100 years"),
        "text as number": (request_saying(policy={"max_attempts": "3"}), "integer"),
        "no time at all": (request_saying(policy={"timeout": 0}), "timeout"),
        "past the last year": (request_saying(not_before="9999-12-31T23:59:59-23:59"), "8999"),
        "before the first": (request_saying(not_before="0001-01-01T00:00:00+14:00"), "1970"),
        "U+0000 in a value": (request_saying(arguments={"x": "a\0b"}), "U+0000"),
        "U+0000 in a name": (request_saying(arguments={"a\0b": 1}), "U+0000"),
        "U+0000 in the envelope": (request_with(subject="a\0b"), "U+0000"),
        "NaN": (request_saying(arguments={"x": float("nan")}), "finite"),
        "-Infinity": (request_saying(arguments={"x": -float("inf")}), "finite"),
        "1e400": (request_saying(arguments={"x": 17}).replace(b"17}", b"1e400}"), "finite"),
    },
}


@pytest.mark.parametrize(
    ("reason", "name"), [(reason, name) for reason in NOT_EVENTS for name in NOT_EVENTS[reason]]
)
def test_what_is_not_an_event_is_unreadable_with_its_reason(reason: Reason, name: str) -> None:
    body, hint = NOT_EVENTS[reason][name]
    found = the_unreadable(body)
    assert found.reason is reason, found.detail
    assert hint in found.detail
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
    nan, later = request_saying(arguments={"x": float("nan")}), request_with(type="job.requested.v2")
    elements = [request_with(), request_with(id=""), b"17", nested, later, request_with(id="order-18")]
    not_event = Reason.NOT_AN_EVENT
    expected = ["order-17", Reason.MISSING_ID, not_event, not_event, Reason.UNKNOWN_VERSION, "order-18"]
    for sent, kinds in (
        (elements, expected),
        ([request_with(), nan], ["order-17", Reason.BAD_FIELDS]),
        ([], []),
    ):
        found = decode(b"[%s]" % b", ".join(sent), "application/cloudevents-batch+json; charset=utf-8")
        assert kinds == [one.event.id if isinstance(one, DecodedEvent) else one.reason for one in found]
        assert [one.body for one in found] == sent


ODDLY_WRITTEN = {
    "a field of a newer neighbour": request_with(priority=3),
    "a repeated name": request_with().replace(b'"id"', b'"id": "first", "id"'),
    "brackets and quotes in a text": request_saying(arguments={"x": '], [\u00e9\\"'}),
    "a number in its own way": request_saying(arguments={"x": 4242}).replace(b"4242", b"1.50e+1"),
    "a long number": request_saying(arguments={"x": 4242}).replace(b"4242", b"1" + b"0" * 4000),
    "lines": json.dumps(REQUEST, indent=2).encode(),
    "UTF-8": json.dumps({**REQUEST, "subject": "\u00e9"}, ensure_ascii=False).encode(),
}


@pytest.mark.parametrize("element", ODDLY_WRITTEN.values(), ids=ODDLY_WRITTEN)
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


CONTENT_TYPES = st.sampled_from([None, EVENT_TYPE, BATCH_TYPE, "text/plain"])
# Half surrogate pairs, NUL and NaN among them: json.dumps writes values that JSON forbids.
TEXT = st.text(st.characters(), max_size=20)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)
GOLDEN = {name: json.loads(encode(event)) for name, event in golden_events().items()}


def check(body: bytes, content_type: str | None) -> None:
    for found in decode(body, content_type):
        if isinstance(found, DecodeFailure):
            known = (found.detail, found.identity, found.request_id, found.request_source, found.job_type)
            assert all((text or "").encode().count(0) == 0 for text in known)
            assert found.reply_to is None or found.reply_to.isascii()
        else:
            assert decode(encode(found.event)) == decode(found.body) == [found]
            message = build_message(found.event)
            assert len(message.routing_key) <= 255
            assert len(message.message_id.encode()) <= 255


@given(st.binary(max_size=2000), CONTENT_TYPES)
def test_any_bytes(body: bytes, content_type: str | None) -> None:
    check(body, content_type)


@given(ANYTHING, CONTENT_TYPES)
def test_any_json(value: Any, content_type: str | None) -> None:
    check(json.dumps(value).encode(), content_type)


@settings(max_examples=400)
@given(st.data())
def test_an_event_with_anything_in_place_of_one_of_its_fields(data: st.DataObject) -> None:
    event = json.loads(json.dumps(data.draw(st.sampled_from(list(GOLDEN.values())))))
    place = event if data.draw(st.booleans()) else event["data"]
    name = data.draw(st.sampled_from(sorted(place)))
    if is_object(nested := place[name]) and nested:
        place, name = nested, data.draw(st.sampled_from(sorted(nested)))
    place[name] = data.draw(ANYTHING)
    body = json.dumps(event).encode()
    check(body, EVENT_TYPE)
    check(b"[" + body + b"]", BATCH_TYPE)


@given(
    st.sampled_from(RELEASED).map(type_of), st.dictionaries(TEXT, ANYTHING, max_size=5), st.integers(1, 500)
)
def test_an_event_that_is_damaged_on_its_way(name: str, more: dict[str, Any], cut: int) -> None:
    body = json.dumps({**more, **GOLDEN[name]}).encode()
    check(body, EVENT_TYPE)
    assert isinstance(decode(body[:-cut])[0], DecodeFailure)
