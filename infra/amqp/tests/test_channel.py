"""Channels: their lives, what is said on them, and what may not be."""

from typing import Any

import pytest
from infra.amqp.tests.broker_side import (
    CAPABILITIES,
    HEARTBEAT,
    content,
    deliver,
    failure,
    method,
    opened,
    sent,
)
from pamqp import commands
from pamqp.body import ContentBody
from pamqp.header import ContentHeader

from warrener_amqp.connection import Connection
from warrener_amqp.errors import ChannelGone, ConnectionLost, FrameMalformed, ProtocolViolated
from warrener_amqp.events import (
    ChannelClosed,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    PublishReturned,
    Replied,
)
from warrener_amqp.framing import FRAME_MIN


def publish(core: Connection, body: bytes = b"x", key: str = "flights.load", **headers: str) -> int:
    return core.publish(
        1,
        "warrener.requests",
        key,
        body,
        content_type="application/cloudevents+json",
        headers=headers,
        message_id="m-1",
        type="job.requested.v1",
        persistent=True,
        mandatory=True,
    )


@pytest.mark.parametrize("size", [0, 1, 4087, 4088, 4089, 8176, 8177, 20_000])
def test_a_publish_reads_back_whole_in_frames_that_the_broker_takes(size: int) -> None:
    core = opened(frame_max=FRAME_MIN)
    body = bytes(n % 251 for n in range(size))
    publish(core, body, traceparent="00-1-2-01", note="é")
    publish(core, b"")
    raw = b"".join(core.data_to_send())
    at, frames = 0, list[int]()
    while at < len(raw):
        length = 8 + int.from_bytes(raw[at + 3 : at + 7], "big")
        frames.append(length)
        at += length
    assert max(frames) <= FRAME_MIN
    again = opened(frame_max=FRAME_MIN)
    publish(again, body, traceparent="00-1-2-01", note="é")
    method_frame, head, *bodies = sent(again)
    assert isinstance(method_frame, commands.Basic.Publish)
    assert (method_frame.exchange, method_frame.routing_key) == ("warrener.requests", "flights.load")
    assert (method_frame.mandatory, method_frame.immediate) == (True, False)
    assert isinstance(head, ContentHeader)
    properties = head.properties
    assert properties.headers == {"traceparent": "00-1-2-01", "note": "é"}
    assert (properties.delivery_mode, properties.message_id) == (2, "m-1")
    assert properties.message_type == "job.requested.v1"
    assert properties.content_type == "application/cloudevents+json"
    assert b"".join(part.value or b"" for part in bodies if isinstance(part, ContentBody)) == body


def test_publishes_are_counted_from_confirm_select() -> None:
    core = opened(channels=2)
    assert publish(core) == 0
    core.call(1, commands.Confirm.Select())
    assert [publish(core), publish(core)] == [1, 2]
    confirms = [method(1, commands.Basic.Ack(2, True)), method(1, commands.Basic.Nack(3, False, True))]
    of_two, refusal = core.receive(b"".join(confirms))
    assert of_two == Confirmed(1, 2, multiple=True, positive=True)
    assert refusal == Confirmed(1, 3, multiple=False, positive=False)


def test_a_string_that_is_too_long_sends_nothing() -> None:
    core = opened()
    core.call(1, commands.Confirm.Select())
    core.data_to_send()
    with pytest.raises(ValueError, match="at most 255 bytes"):
        publish(core, b"x", "é" * 128)
    assert core.data_to_send() == []
    assert publish(core) == 1, "and is not counted"


def test_acknowledgements_are_those_that_pamqp_would_write() -> None:
    core = opened()
    core.ack(1, 7, multiple=True)
    core.ack(1, 2**62)
    core.reject(1, 9, requeue=True)
    assert b"".join(core.data_to_send()) == (
        method(1, commands.Basic.Ack(7, True))
        + method(1, commands.Basic.Ack(2**62, False))
        + method(1, commands.Basic.Reject(9, True))
    )


def test_a_return_brings_what_was_returned() -> None:
    data = method(1, commands.Basic.Return(312, "NO_ROUTE", "e", "k")) + content(
        1, b"body", properties={"message_id": "m"}
    )
    (returned,) = opened().receive(data)
    assert isinstance(returned, PublishReturned)
    assert returned[:5] == (1, 312, "NO_ROUTE", "e", "k")
    assert (returned.properties.message_id, returned.body) == ("m", b"body")


def test_messages_on_two_channels_may_be_interleaved() -> None:
    core = opened(channels=2)
    halves = [deliver(number, number, b"x" * 100 * number) for number in (1, 2)]
    cut = len(method(1, commands.Basic.Deliver("c", 1, True, "warrener.dispatch", "default.flights.load")))
    events = core.receive(halves[0][:cut] + halves[1][:cut] + halves[0][cut:] + halves[1][cut:])
    found = [(what.channel, len(what.body)) for what in events if isinstance(what, Delivered)]
    assert found == [(1, 100), (2, 200)]


def test_a_key_that_is_no_text_goes_out_as_it_came_in() -> None:
    raw = deliver(1, 1, b"").replace(b"default.flights.load", b"default.\xff\xfeights.load")
    (delivered,) = opened().receive(raw)
    assert isinstance(delivered, Delivered)
    core = opened()
    publish(core, b"", delivered.routing_key)
    assert b"default.\xff\xfeights.load" in b"".join(core.data_to_send())


class TestClosing:
    def test_a_refused_channel_takes_no_calls_and_its_number_is_free_again(self) -> None:
        core = opened()
        events = core.receive(method(1, commands.Channel.Close(404, "NOT_FOUND", 0, 0)))
        assert events == [ChannelClosed(1, 404, "NOT_FOUND")]
        assert isinstance(sent(core)[0], commands.Channel.CloseOk)
        with pytest.raises(ChannelGone):
            core.ack(1, 1)
        assert core.open_channel() == 1

    def test_what_is_under_way_still_comes_until_the_closing_is_answered(self) -> None:
        core = opened()
        core.close_channel(1)
        with pytest.raises(ChannelGone):
            publish(core)
        events = core.receive(deliver(1, 1, b"late") + method(1, commands.Channel.CloseOk()))
        assert [type(what) for what in events] == [Delivered, Replied]
        assert core.open_channel() == 1

    def test_both_sides_close_at_once(self) -> None:
        core = opened()
        core.close_channel(1)
        core.data_to_send()
        events = core.receive(method(1, commands.Channel.Close(406, "PRECONDITION_FAILED", 0, 0)))
        assert events == [ChannelClosed(1, 406, "PRECONDITION_FAILED")]
        assert isinstance(sent(core)[0], commands.Channel.CloseOk)
        assert core.open_channel() == 2, "1 is not free before the broker has answered"
        assert core.receive(method(1, commands.Channel.CloseOk())) == []
        assert core.open_channel() == 1

    def test_deliveries_still_come_while_the_connection_closes(self) -> None:
        core = opened()
        core.close()
        events = core.receive(deliver(1, 1, b"late") + method(1, commands.Basic.Ack(1, False)))
        assert [type(what) for what in events] == [Delivered, Confirmed]
        with pytest.raises(ConnectionLost):
            core.ack(1, 1)

    def test_there_are_no_more_channels_than_agreed(self) -> None:
        core = opened(channels=2047)
        with pytest.raises(ProtocolViolated, match="2047"):
            core.open_channel()


class TestCancelledConsumers:
    def test_it_is_reported_and_not_answered(self) -> None:
        core = opened()
        assert core.receive(method(1, commands.Basic.Cancel("c", True))) == [ConsumerCancelled(1, "c")]
        assert core.data_to_send() == [], "older brokers close the channel over an answer"

    def test_a_broker_that_waits_for_an_answer_gets_one(self) -> None:
        can: dict[str, Any] = {**CAPABILITIES, "accept_consumer_cancel_ok": True}
        start = commands.Connection.Start(0, 9, {"capabilities": can}, "PLAIN", "en_US")
        core = opened(start=start)
        core.receive(method(1, commands.Basic.Cancel("c", True)))
        (answer,) = sent(core)
        assert isinstance(answer, commands.Basic.CancelOk)


class TestHeartbeats:
    def test_a_silent_client_beats_and_one_that_speaks_need_not(self) -> None:
        core = opened()
        core.tick_heartbeat()
        assert core.data_to_send() == []
        core.tick_heartbeat()
        assert core.data_to_send() == [HEARTBEAT]
        publish(core)
        core.data_to_send()
        core.tick_heartbeat()
        assert core.data_to_send() == []

    def test_a_silent_broker_is_lost_after_two_intervals(self) -> None:
        core = opened()
        for _ in range(20):
            assert core.tick_heartbeat() == []
            core.receive(HEARTBEAT)
        for _ in range(4):
            assert core.tick_heartbeat() == []
        assert "two intervals" in str(failure(core.tick_heartbeat()))
        assert core.tick_heartbeat() == []

    def test_a_publisher_that_is_always_busy_finds_it_out_too(self) -> None:
        core = opened()
        events = list[object]()
        for _ in range(5):
            publish(core)
            core.data_to_send()
            events += core.tick_heartbeat()
        assert len(events) == 1


DELIVER = method(1, commands.Basic.Deliver("c", 1, False, "e", "k"))


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (DELIVER * 2, ProtocolViolated, "another message"),
        (DELIVER + method(1, commands.Basic.Ack(1)), ProtocolViolated, "content of a message"),
        (content(1, b"x"), ProtocolViolated, "no content header"),
        (content(9, b"x"), ProtocolViolated, "open channel"),
        (b"\x03\x00\x01\x00\x00\x00\x01x\xce", ProtocolViolated, "no body frame"),
        (method(9, commands.Basic.Ack(1)), ProtocolViolated, "open channels"),
        (method(0, commands.Connection.CloseOk()), ProtocolViolated, "while open"),
        (b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x50\x01\xce", FrameMalformed, "13 bytes"),
        (b"\x01\x00\x01\x00\x00\x00\x05\x00\x3c\x00\x3c\x09\xce", FrameMalformed, "a delivery"),
        (b"\x01\x00\x01\x00\x00\x00\x04\x00\x63\x00\x63\xce", FrameMalformed, "a method"),
        (HEARTBEAT[:-1] + b"\x00", FrameMalformed, "0xCE"),
        (b"\x03\x00\x01\x7f\xff\xff\xff", FrameMalformed, "at most 131072"),
    ],
)
def test_a_protocol_violation_ends_the_connection_with_a_reason(
    data: bytes, kind: type[Exception], message: str
) -> None:
    core = opened()
    error = failure(core.receive(data))
    assert type(error) is kind
    assert message in str(error)
    assert core.closed


def test_a_body_longer_than_announced_is_a_violation() -> None:
    short, long = content(1, b"ab"), content(1, b"abc")
    head_of_short, body_of_long = short[: -len(b"ab") - 8], long[-len(b"abc") - 8 :]
    error = failure(opened().receive(DELIVER + head_of_short + body_of_long))
    assert "body of 2 bytes" in str(error)
