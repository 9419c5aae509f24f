"""The broker's side of the wire: frames as RabbitMQ sends them, made by pamqp and not by our own code."""

from collections.abc import Mapping
from typing import Any

from pamqp import body, commands, frame, header
from pamqp.base import Frame as Method

from warrener_amqp import AmqpEvent, Connection, ConnectionFailed, ConnectionParams, Credentials

CAPABILITIES: dict[str, Any] = {"authentication_failure_close": True, "basic.nack": True}
START = commands.Connection.Start(0, 9, {"capabilities": CAPABILITIES}, "AMQPLAIN PLAIN", "en_US")
TUNE = commands.Connection.Tune(2047, 131_072, 60)
HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


def method(channel: int, what: Method) -> bytes:
    return frame.marshal(what, channel)


def content(
    channel: int, payload: bytes, *, properties: Mapping[str, Any] | None = None, cut: int = 131_064
) -> bytes:
    """A content header and its body frames, of at most `cut` bytes each."""
    head = header.ContentHeader(0, len(payload), commands.Basic.Properties(**(properties or {})))
    pieces = [payload[at : at + cut] for at in range(0, len(payload), cut)]
    return frame.marshal(head, channel) + b"".join(
        frame.marshal(body.ContentBody(p), channel) for p in pieces
    )


def deliver(channel: int, tag: int, payload: bytes, *, cut: int = 131_064, **properties: Any) -> bytes:
    deliver_frame = commands.Basic.Deliver("c", tag, True, "warrener.dispatch", "default.flights.load")
    return method(channel, deliver_frame) + content(channel, payload, properties=properties, cut=cut)


def opened(
    *, frame_max: int = 131_072, channels: int = 1, heartbeat: int = 10, start: Method = START
) -> Connection:
    """A connection after its handshake, with open channels 1, 2, …; its output so far is forgotten."""
    core = Connection(
        Credentials("guest", "guest"), ConnectionParams(frame_max=frame_max, heartbeat=heartbeat)
    )
    core.receive(method(0, start))
    core.receive(method(0, TUNE))
    core.receive(method(0, commands.Connection.OpenOk()))
    for _ in range(channels):
        number = core.open_channel()
        core.receive(method(number, commands.Channel.OpenOk()))
    core.data_to_send()
    return core


def sent(core: Connection) -> list[object]:
    """What the core has to say, read by pamqp."""
    data, events = b"".join(core.data_to_send()), list[object]()
    while data:
        used, _, what = frame.unmarshal(data)
        events.append(what)
        data = data[used:]
    return events


def failure(events: list[AmqpEvent]) -> Exception:
    """The error of the last event, `ConnectionFailed`."""
    last = events[-1]
    assert isinstance(last, ConnectionFailed), events
    return last.error


def story() -> bytes:
    """A bit of everything that a broker says once the connection is open."""
    rich = {"a": 1, "b": {"c": [True, None, "s"]}, "t": "text"}
    ours: dict[str, Any] = {
        "content_type": "application/json",
        "delivery_mode": 2,
        "message_id": "m",
        "message_type": "t",
    }
    return (
        deliver(1, 1, b"")
        + deliver(1, 2, b"x" * 300, message_id="m", headers=rich, priority=3, cut=100)
        + deliver(1, 3, b"whole", **ours)
        + deliver(1, 4, b"and another", **ours, headers={"traceparent": "00-1-2-01"})
        + method(1, commands.Basic.Ack(7, True))
        + method(1, commands.Basic.Return(312, "NO_ROUTE", "warrener.requests", "k"))
        + content(1, b"unroutable", properties={"message_id": "m"})
        + method(1, commands.Basic.Nack(8, False, True))
        + HEARTBEAT
        + method(0, commands.Connection.Blocked("low on memory"))
        + method(0, commands.Connection.Unblocked())
        + method(1, commands.Basic.Cancel("c", True))
        + method(1, commands.Queue.DeclareOk("q", 1, 2))
        + method(1, commands.Channel.Close(404, "NOT_FOUND", 0, 0))
        + method(0, commands.Connection.Close(320, "CONNECTION_FORCED", 0, 0))
    )
