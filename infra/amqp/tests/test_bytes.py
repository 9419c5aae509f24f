"""Any cutting of the bytes gives the same events, and no bytes whatever raise."""

import itertools
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from infra.amqp.tests.broker_side import content, deliver, method, opened, story
from pamqp import commands

from warrener_amqp import (
    AmqpError,
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

STORY = story()
KINDS: list[type[AmqpEvent]] = [
    Delivered,
    Delivered,
    Delivered,
    Delivered,
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
    lying_whole = whole[3]
    assert isinstance(lying_whole, Delivered)
    assert lying_whole == (
        1,
        "c",
        4,
        True,
        "warrener.dispatch",
        "default.flights.load",
        ("application/json", {"traceparent": "00-1-2-01"}, True, "m", "t", True),
        b"and another",
    )


@given(st.lists(st.integers(0, len(STORY)), max_size=40))
@settings(max_examples=300)
def test_any_cutting_gives_the_same_events(cuts: list[int]) -> None:
    assert comparable(in_pieces(STORY, cuts)) == comparable(opened().receive(STORY))


def test_byte_by_byte() -> None:
    assert comparable(in_pieces(STORY, list(range(len(STORY))))) == comparable(opened().receive(STORY))


@given(st.binary(max_size=60), st.binary(min_size=1, max_size=60), st.integers(0, 255), st.integers(0, 255))
@settings(max_examples=300)
def test_a_delivery_read_at_once_is_the_one_that_is_read_frame_by_frame(
    arguments: bytes, body: bytes, consumer: int, flags: int
) -> None:
    """However wrong its method and its properties are. Without its last byte it is read frame by frame."""
    method_payload = struct.pack(">HHB", 60, 60, consumer) + arguments
    head = struct.pack(">HHQB", 60, 0, len(body), flags) + arguments
    whole = b"".join(
        struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"
        for kind, payload in ((1, method_payload), (2, head), (3, body))
    )
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
    data = struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"
    opened().receive(data)


@given(st.sampled_from([10, 20, 40, 50, 60, 85, 90]), st.integers(0, 130), st.binary(max_size=120))
@settings(max_examples=600)
def test_methods_with_any_arguments_never_raise(class_id: int, number: int, arguments: bytes) -> None:
    payload = struct.pack(">HH", class_id, number) + arguments
    for channel in (0, 1):
        opened().receive(struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce")


@given(st.integers(0, 0xFFFF), st.binary(max_size=300))
@settings(max_examples=600)
def test_properties_that_somebody_wrote_wrongly_are_no_fault_of_the_connection(
    flags: int, rest: bytes
) -> None:
    payload = struct.pack(">HHQH", 60, 0, 0, flags) + rest
    head = struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"
    core = opened()
    (delivered,) = core.receive(method(1, commands.Basic.Deliver("c", 1, False, "e", "k")) + head)
    assert isinstance(delivered, Delivered)
    assert not core.closed


def _with_headers(table: bytes) -> Delivered:
    payload = struct.pack(">HHQHI", 60, 0, 0, 1 << 13, len(table)) + table
    head = struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"
    core = opened()
    (delivered,) = core.receive(method(1, commands.Basic.Deliver("c", 1, False, "e", "k")) + head)
    assert isinstance(delivered, Delivered)
    assert not core.closed
    return delivered


def test_a_table_deeper_than_the_stack() -> None:
    table = b""
    for _ in range(15_000):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    assert not _with_headers(table).properties.readable


def test_a_time_after_the_last_year_and_a_name_that_is_no_text() -> None:
    assert not _with_headers(b"\x01aT" + b"\xff" * 8).properties.readable
    received = _with_headers(b"\x02\xff\xfeS\x00\x00\x00\x02\xff\xfe").properties
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
