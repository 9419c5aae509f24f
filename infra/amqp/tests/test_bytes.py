"""Any cutting of the bytes gives the same events, and no bytes whatever raise. What is sent is what was once
written down; our own properties are read in a shorter way than those of others, and as the same."""

import itertools
import struct
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from infra.amqp.tests.broker_side import content, deliver, method, opened, story
from pamqp import commands, frame, header
from tests.faults.raw_messages import POISON

from warrener_amqp import properties
from warrener_amqp.errors import AmqpError
from warrener_amqp.events import (
    AmqpEvent,
    Blocked,
    ChannelClosed,
    Confirmed,
    ConnectionFailed,
    ConsumerCancelled,
    Delivered,
    PublishReturned,
    Replied,
    Unblocked,
)
from warrener_amqp.properties import UNREADABLE, Properties

STORY = story()
KINDS: list[type[AmqpEvent]] = [
    *([Delivered] * 4),
    Confirmed,
    PublishReturned,
    Confirmed,
    Blocked,
    Unblocked,
    ConsumerCancelled,
    Replied,
    ChannelClosed,
    ConnectionFailed,
]


def frame_of(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def comparable(events: list[AmqpEvent]) -> list[object]:
    """Methods and errors know no equality."""
    return [
        what.method.name
        if isinstance(what, Replied)
        else (type(what.error), str(what.error))
        if isinstance(what, ConnectionFailed)
        else what
        for what in events
    ]


def in_pieces(data: bytes, cuts: list[int]) -> list[AmqpEvent]:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    core, received = opened(), list[AmqpEvent]()
    for start, end in itertools.pairwise(edges):
        received += core.receive(data[start:end])
    return received


def test_the_story_is_parsed_whole() -> None:
    whole = opened().receive(STORY)
    assert [type(what) for what in whole] == KINDS
    rich = whole[1]
    assert isinstance(rich, Delivered)
    assert rich.properties.headers == {"a": 1, "b": {"c": [True, None, "s"]}, "t": "text"}
    assert (rich.tag, rich.redelivered, rich.exchange) == (2, True, "warrener.dispatch")
    ours = ("application/json", {"traceparent": "00-1-2-01"}, True, "m", "t", True, None)
    at_once = (1, "c", 4, True, "warrener.dispatch", "default.flights.load", ours, b"and another")
    assert whole[3] == at_once


@given(st.lists(st.integers(0, len(STORY)), max_size=40))
@example(list(range(len(STORY))))
@settings(max_examples=300)
def test_any_cutting_gives_the_same_events(cuts: list[int]) -> None:
    assert comparable(in_pieces(STORY, cuts)) == comparable(opened().receive(STORY))


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=60), st.integers(0, 255), st.integers(0, 255))
@settings(max_examples=300)
def test_a_delivery_read_at_once_is_the_one_that_is_read_frame_by_frame(
    arguments: bytes, body: bytes, consumer: int, flags: int
) -> None:
    """However wrong its method and its properties are. Without its last byte it is read frame by frame."""
    method_payload = struct.pack(">HHB", 60, 60, consumer) + arguments
    head = struct.pack(">HHQB", 60, 0, len(body), flags) + arguments
    whole = frame_of(1, 1, method_payload) + frame_of(2, 1, head) + frame_of(3, 1, body)
    assert comparable(in_pieces(whole, [len(whole) - 1])) == comparable(opened().receive(whole))


@given(st.lists(st.integers(0, 250_000), max_size=20), st.integers(0, 250_000))
@settings(max_examples=60)
def test_large_bodies_come_whole_however_they_are_cut(cuts: list[int], size: int) -> None:
    body = (b"0123456789" * (size // 10 + 1))[:size]
    received = in_pieces(deliver(1, 5, body), cuts)
    assert [what.body for what in received if isinstance(what, Delivered)] == [body]


@given(st.integers(0, len(STORY) - 1), st.integers(0, 255), st.lists(st.integers(0, len(STORY)), max_size=8))
@settings(max_examples=500)
def test_one_wrong_byte_gives_the_same_events_however_it_is_cut(at: int, byte: int, cuts: list[int]) -> None:
    wrong = STORY[:at] + bytes([byte]) + STORY[at + 1 :]
    assert comparable(in_pieces(wrong, cuts)) == comparable(opened().receive(wrong))


@given(st.binary(max_size=400))
@settings(max_examples=500)
def test_garbage_fails_the_connection(data: bytes) -> None:
    for event in opened().receive(data):
        if isinstance(event, ConnectionFailed):
            assert isinstance(event.error, AmqpError)
            assert str(event.error).startswith("expected")


@given(st.sampled_from([1, 2, 3, 8]), st.sampled_from([0, 1, 2]), st.binary(max_size=200))
@settings(max_examples=600)
def test_frames_with_any_payload_never_raise(kind: int, channel: int, payload: bytes) -> None:
    opened().receive(frame_of(kind, channel, payload))


@given(st.sampled_from([10, 20, 40, 50, 60, 85, 90]), st.integers(0, 130), st.binary(max_size=120))
@settings(max_examples=600)
def test_methods_with_any_arguments_never_raise(class_id: int, number: int, arguments: bytes) -> None:
    payload = struct.pack(">HH", class_id, number) + arguments
    for channel in (0, 1):
        opened().receive(frame_of(1, channel, payload))


@given(st.integers(0, 0xFFFF), st.binary(max_size=300))
@settings(max_examples=600)
def test_properties_that_somebody_wrote_wrongly_are_no_fault_of_the_connection(
    flags: int, rest: bytes
) -> None:
    _delivered(struct.pack(">H", flags) + rest)


def _delivered(written: bytes) -> Properties:
    """What a delivery brings whose header has these properties; the connection stays open."""
    head = frame_of(2, 1, struct.pack(">HHQ", 60, 0, 0) + written)
    core = opened()
    (delivered,) = core.receive(method(1, commands.Basic.Deliver("c", 1, False, "e", "k")) + head)
    assert isinstance(delivered, Delivered)
    assert not core.closed
    return delivered.properties


def _with_headers(table: bytes) -> Properties:
    return _delivered(struct.pack(">HI", 1 << 13, len(table)) + table)


def test_a_table_deeper_than_the_stack() -> None:
    table = b""
    for _ in range(15_000):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    assert not _with_headers(table).readable


def test_a_time_after_the_last_year_and_a_name_that_is_no_text() -> None:
    assert not _with_headers(b"\x01aT" + b"\xff" * 8).readable
    received = _with_headers(b"\x02\xff\xfeS\x00\x00\x00\x02\xff\xfe")
    assert received.readable
    assert list(received.headers.values()) == [b"\xff\xfe"]


@pytest.mark.parametrize(
    "headers",
    [{}, {"a": "b"}, {"n": -5, "big": 2**40, "f": 1.5, "yes": True, "none": None}, {"x": [{"y": ["z"]}, 1]}],
)
def test_tables_read_as_pamqp_reads_them(headers: dict[str, object]) -> None:
    data = method(1, commands.Basic.Deliver("c", 1, False, "e", "k")) + content(
        1, b"", properties={"headers": headers}
    )
    (delivered,) = opened().receive(data)
    assert isinstance(delivered, Delivered)
    assert delivered.properties.headers == headers


short = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
headers = st.dictionaries(st.text("abc-", min_size=1, max_size=8), short, max_size=3)


def _of_others(ours: Properties) -> bytes:
    """The same, by pamqp, beside a priority: that is not among what Warrener writes."""
    named: dict[str, Any] = dict(ours.headers)
    encoded = commands.Basic.Properties(
        content_type=ours.content_type,
        headers=named or None,
        delivery_mode=2 if ours.persistent else 1,
        message_id=ours.message_id,
        message_type=ours.type,
        user_id=ours.user_id,
        priority=3,
    )
    return frame.marshal(header.ContentHeader(0, 0, encoded), 1)[7 + 12 : -1]


@given(
    content_type=short.filter(bool),
    named=headers,
    persistent=st.booleans(),
    message_id=short.filter(bool),
    kind=short.filter(bool),
    user_id=st.none() | short.filter(bool),
)
def test_both_ways_read_the_same_and_neither_reads_what_is_cut_off(
    *,
    content_type: str,
    named: Mapping[str, str],
    persistent: bool,
    message_id: str,
    kind: str,
    user_id: str | None,
) -> None:
    written = b"".join(
        properties.write_properties(
            content_type, named, message_id, kind, persistent=persistent, user_id=user_id
        )
    )
    expected = Properties(content_type, named, persistent, message_id, kind, user_id=user_id)
    assert properties.read_properties(written, 0) == expected
    assert properties.read_properties(_of_others(expected), 0) == expected
    for end in range(len(written)):
        assert properties.read_properties(written[:end], 0) is UNREADABLE


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_header_that_cannot_be_read_hides_no_other(poison: bytes) -> None:
    """The broker's own headers are among them: its count of deliveries, and why a message died."""
    flags, list_at = int.from_bytes(poison[:2], "big"), 2
    ours = b"\x03our" + b"S\0\0\0\1x" + b"\x10x-delivery-count" + b"l" + (7).to_bytes(8, "big")
    if flags & 1 << 13:
        size = int.from_bytes(poison[2:6], "big")
        table, list_at = poison[6 : 6 + size], 6 + size
    else:
        table = b""
    written = (
        (flags | 1 << 13).to_bytes(2, "big")
        + (len(table) + len(ours)).to_bytes(4, "big")
        + table
        + ours
        + poison[list_at:]
    )
    read = properties.read_properties(written, 0)
    assert (read.headers["our"], read.headers["x-delivery-count"]) == ("x", 7)
    assert read.readable is (properties.read_properties(poison, 0).readable)


def test_properties_that_make_client_libraries_fail_are_marked() -> None:
    assert {name for name in POISON if not properties.read_properties(POISON[name], 0).readable} == {
        "a time after the year 9999",
        "a header with such a time",
        "such a time in a table in a list",
        "a list nested 3,000 times",
        "a table nested 3,000 times",
        "a nested name that is no text",
    }
