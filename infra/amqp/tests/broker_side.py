"""The broker's side of the wire, made by pamqp and not by our own code; and a listener that records."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pamqp import body, commands, frame, header
from pamqp.base import Frame as Method

from warrener_amqp.channel import Channel, ChannelListener
from warrener_amqp.connection import Connection
from warrener_amqp.errors import AmqpError
from warrener_amqp.events import AmqpEvent, Confirmed, ConnectionFailed, Delivered, PublishReturned
from warrener_amqp.handshake import ConnectionParams, Credentials
from warrener_amqp.session import Session

T = TypeVar("T")

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
    ours: dict[str, Any] = {"content_type": "application/json", "delivery_mode": 2}
    ours |= {"message_id": "m", "message_type": "t"}
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


class RecordingListener(ChannelListener):
    """Stores a channel's events, and wakes the tasks that wait for one."""

    def __init__(self) -> None:
        self.deliveries: list[Delivered] = []
        self.confirms: list[Confirmed] = []
        self.returns: list[PublishReturned] = []
        self.cancelled: list[str] = []
        self.closed: list[AmqpError] = []
        self._changed = asyncio.Event()

    def on_delivery(self, delivery: Delivered) -> None:
        self._note(self.deliveries, delivery)

    def on_confirm(self, confirm: Confirmed) -> None:
        self._note(self.confirms, confirm)

    def on_return(self, returned: PublishReturned) -> None:
        self._note(self.returns, returned)

    def on_cancel(self, consumer: str) -> None:
        self._note(self.cancelled, consumer)

    def on_closed(self, reason: AmqpError) -> None:
        self._note(self.closed, reason)

    def _note(self, events: list[T], event: T) -> None:
        events.append(event)
        self._changed.set()

    @property
    def confirmed(self) -> int:
        """The highest number that the broker has confirmed."""
        return max((confirm.tag for confirm in self.confirms if confirm.positive), default=0)

    async def until(self, fact: Callable[[], object], *, within: float = 60.0) -> None:
        async with asyncio.timeout(within):
            while not fact():
                self._changed.clear()
                await self._changed.wait()


def publish(session: Session, channel: Channel, key: str, body: bytes = b"x", message_id: str = "m") -> int:
    """A mandatory message by the nameless exchange; sent at the end of the loop turn."""
    number = session.core.publish(
        channel.number,
        "",
        key,
        body,
        content_type="text/plain",
        headers={"traceparent": "00"},
        message_id=message_id,
        type="t",
        persistent=True,
        mandatory=True,
    )
    session.transport.flush_soon()
    return number
