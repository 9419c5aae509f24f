"""The core: bytes in, events out; calls in, bytes out. No socket, no clock, no waiting.

Guarantees: the same bytes give the same events in the same order, however they are cut. No bytes raise an
error: the end of the connection is an event too (`ConnectionFailed`), the last one. The frames of one call
are never interleaved with others.
"""

from collections.abc import Mapping
from functools import partial

from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp.base import Frame as Method

from warrener_amqp import codec, framing, handshake, properties
from warrener_amqp.codec import read_method
from warrener_amqp.content import ContentAssembler, read_delivery
from warrener_amqp.errors import (
    AmqpError,
    AuthenticationRefused,
    ChannelGone,
    ConnectionLost,
    ProtocolViolated,
)
from warrener_amqp.events import (
    AmqpEvent,
    Blocked,
    ChannelClosed,
    Closed,
    Confirmed,
    ConnectionFailed,
    ConsumerCancelled,
    Delivered,
    PublishReturned,
    Replied,
    Unblocked,
)

_MAX_SILENT_HALF_INTERVALS = (
    4  # half heartbeats without a byte: two heartbeats, as the specification requires
)
_ACTIVE_STAGES = frozenset({handshake.Stage.OPEN, handshake.Stage.CLOSING})
_OK = 200


class _ChannelState:
    """The state of one channel."""

    __slots__ = ("assembler", "closed_by_broker", "closing", "confirming", "published")

    def __init__(self) -> None:
        self.assembler = ContentAssembler()
        self.confirming = False
        self.published = 0  # publishes since Confirm.Select: the broker counts the same way
        self.closing = False  # we sent Channel.Close
        self.closed_by_broker = False  # both sides sent Channel.Close: the broker's CloseOk is still to come


class Connection:
    """The client's side of one AMQP 0-9-1 connection."""

    def __init__(
        self, credentials: handshake.Credentials, params: handshake.ConnectionParams | None = None
    ) -> None:
        self._params = params or handshake.ConnectionParams()
        self._handshake = handshake.Handshake(credentials, self._params)
        self._frame_parser = framing.FrameParser(self._params.frame_max)
        self._stage = handshake.Stage.START
        self._channels: dict[int, _ChannelState] = {}
        self._out: list[bytes] = [handshake.PROTOCOL_HEADER]
        self._frame_max = framing.FRAME_MIN
        self._silent_half_intervals = 0
        self._sent_since_heartbeat = True

    # -- bytes ---------------------------------------------------------------------------------------------

    def data_to_send(self) -> list[bytes]:
        """Take the pieces to send now, in order."""
        out, self._out = self._out, []
        if out:
            self._sent_since_heartbeat = True
        return out

    def receive(self, data: bytes) -> list[AmqpEvent]:
        """Read bytes; return their events. After the end (`Closed`, `ConnectionFailed`) there are none."""
        events: list[AmqpEvent] = []
        if self._stage is handshake.Stage.CLOSED:
            return events
        self._silent_half_intervals = 0
        try:
            for kind, number, payload in self._frame_parser.feed(
                data, partial(self._read_deliveries, events)
            ):
                if kind == framing.METHOD:
                    self._handle_method(number, payload, events)
                    if self.closed:
                        break
                elif kind != framing.HEARTBEAT:
                    self._handle_content(kind, number, payload, events)
        except AmqpError as error:
            self._fail(error, events)
        return events

    def tick_heartbeat(self) -> list[AmqpEvent]:
        """Count half a heartbeat interval. Send a heartbeat if we sent nothing in it; fail the connection if
        the broker sent nothing for two whole intervals."""
        events: list[AmqpEvent] = []
        if self._stage not in _ACTIVE_STAGES:
            return events
        self._silent_half_intervals += 1
        if self._silent_half_intervals > _MAX_SILENT_HALF_INTERVALS:
            self._fail(
                ConnectionLost("expected a heartbeat from the broker, got nothing for two intervals"), events
            )
            return events
        if not self._sent_since_heartbeat:
            self._out.append(framing.HEARTBEAT_FRAME)
        self._sent_since_heartbeat = False
        return events

    def receive_eof(self) -> list[AmqpEvent]:
        """Fail the connection at the end of the stream, unless it was closed properly."""
        events: list[AmqpEvent] = []
        if self._stage is handshake.Stage.TUNE and not self._handshake.server_supports(
            "authentication_failure_close"
        ):
            self._fail(
                AuthenticationRefused("expected to be let in, got hung up on after the credentials"), events
            )
        elif self._stage is not handshake.Stage.CLOSED:
            self._fail(ConnectionLost("expected the connection to last, got the end of the stream"), events)
        return events

    # -- calls ---------------------------------------------------------------------------------------------

    def open_channel(self) -> int:
        """Open the lowest free channel; `Replied` with Channel.OpenOk confirms it. Raises
        ProtocolViolated."""
        self._require_open()
        limit = self._handshake.negotiated.channel_max or 65_535
        number = next((n for n in range(1, limit + 1) if n not in self._channels), None)
        if number is None:
            raise ProtocolViolated(f"expected at most {limit} channels, got one more; close one")
        self._channels[number] = _ChannelState()
        self.call(number, commands.Channel.Open())
        return number

    def call(self, channel: int, method: Method) -> None:
        """Send any method that carries no content. Raises ConnectionLost, ChannelGone."""
        state = self._require_channel(channel)
        if isinstance(method, commands.Confirm.Select):
            state.confirming = True
        self._send_method(channel, method)

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes,
        *,
        content_type: str,
        headers: Mapping[str, str],
        message_id: str,
        type: str,  # noqa: A002 - the property's name
        persistent: bool,
        mandatory: bool,
        user_id: str | None = None,
    ) -> int:
        """Send one message; return the number by which this channel confirms it (1, 2, …; 0 without
        confirms).

        Raises ConnectionLost, ChannelGone, and ValueError for a string that is too long; then nothing is
        sent.
        """
        state = self._require_channel(channel)
        method = codec.encode_publish(channel, exchange, routing_key, mandatory)
        written = properties.write_properties(
            content_type, headers, message_id, type, persistent=persistent, user_id=user_id
        )
        out = self._out
        out.append(method)
        out += codec.encode_content(channel, written, body, self._frame_max)
        if state.confirming:
            state.published += 1
        return state.published

    def publish_with(
        self, channel: int, exchange: str, routing_key: str, body: bytes, properties: bytes
    ) -> None:
        """Send one message with encoded properties, on a channel without confirms. Raises ConnectionLost,
        ChannelGone."""
        self._require_channel(channel)
        self._out.append(codec.encode_publish(channel, exchange, routing_key, mandatory=False))
        self._out += codec.encode_content(channel, [properties], body, self._frame_max)

    def ack(self, channel: int, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge one delivery, or with `multiple` all up to it. Raises ConnectionLost, ChannelGone."""
        self._require_channel(channel)
        self._out.append(codec.encode_ack(channel, tag, multiple=multiple))

    def reject(self, channel: int, tag: int, *, requeue: bool) -> None:
        """Return one delivery to its queue, or dead-letter it. Raises ConnectionLost, ChannelGone."""
        self._require_channel(channel)
        self._out.append(codec.encode_reject(channel, tag, requeue=requeue))

    def close_channel(self, channel: int) -> None:
        """Close a channel; `Replied` with Channel.CloseOk confirms it. Raises ConnectionLost, ChannelGone."""
        state = self._require_channel(channel)
        self._send_method(channel, commands.Channel.Close(_OK, "done", 0, 0))
        state.closing = True

    def close(self) -> None:
        """Close the connection; `Closed` confirms it. Before the end of the handshake, just end."""
        if self._stage is handshake.Stage.OPEN:
            self._send_method(0, commands.Connection.Close(_OK, "done", 0, 0))
            self._stage = handshake.Stage.CLOSING
        elif self._stage is not handshake.Stage.CLOSING:
            self._stage = handshake.Stage.CLOSED

    @property
    def closed(self) -> bool:
        return self._stage is handshake.Stage.CLOSED

    def _require_open(self) -> None:
        if self._stage is not handshake.Stage.OPEN:
            raise ConnectionLost(f"expected an open connection, got one that is {self._stage.name.lower()}")

    def _require_channel(self, number: int) -> _ChannelState:
        self._require_open()
        state = self._channels.get(number)
        if state is None or state.closing:
            raise ChannelGone(f"expected an open channel, got {number}, which is closed")
        return state

    def _send_method(self, channel: int, method: Method) -> None:
        self._out.append(pamqp_frame.marshal(method, channel))

    # -- frames --------------------------------------------------------------------------------------------

    def _read_deliveries(self, events: list[AmqpEvent], data: bytes, at: int) -> int:
        """Read the deliveries that lie whole from `at` on; return the start of the first other frame."""
        frame_max, channels = self._frame_parser.frame_max, self._channels
        while (found := read_delivery(data, at, frame_max)) is not None:
            delivered, end = found
            channel = channels.get(delivered.channel)
            if channel is None or channel.assembler.is_assembling:
                break
            events.append(delivered)
            at = end
        return at

    def _handle_content(self, kind: int, number: int, payload: bytes, events: list[AmqpEvent]) -> None:
        channel = self._channels.get(number)
        if channel is None:
            raise ProtocolViolated(f"expected content on an open channel, got some on {number}")
        step = channel.assembler.body if kind == framing.BODY else channel.assembler.header
        if (content := step(payload)) is not None:
            events.append(content)

    def _handle_method(self, number: int, payload: bytes, events: list[AmqpEvent]) -> None:
        channel = self._channels.get(number)
        if channel is None:
            self._handle_connection_method(number, read_method(payload), events)
            return
        if payload.startswith(codec.DELIVER_BYTES):
            channel.assembler.begin(Delivered._make, (number, *codec.read_deliver(payload)))
            return
        index = int.from_bytes(payload[:4], "big")
        if channel.assembler.is_assembling:
            raise ProtocolViolated(f"expected the content of a message, got method {index:#x}")
        if index in {codec.ACK, codec.NACK}:
            events.append(Confirmed(number, *codec.read_confirm(payload), positive=index == codec.ACK))
        else:
            self._handle_channel_method(number, channel, read_method(payload), events)

    def _handle_channel_method(
        self, number: int, channel: _ChannelState, method: Method, events: list[AmqpEvent]
    ) -> None:
        match method:
            case commands.Channel.Close():
                self._handle_channel_close(number, channel, method, events)
            case commands.Channel.CloseOk():
                del self._channels[number]
                if not channel.closed_by_broker:
                    events.append(Replied(number, method))
            case commands.Basic.Return():
                code, reason = int(method.reply_code or 0), str(method.reply_text)
                where = str(method.exchange), str(method.routing_key)
                channel.assembler.begin(PublishReturned._make, (number, code, reason, *where))
            case commands.Basic.Cancel():
                # RabbitMQ always sends nowait. From 4.3.7 on this capability announces that it waits all the
                # same; earlier releases close the channel over a reply.
                if not method.nowait or self._handshake.server_supports("accept_consumer_cancel_ok"):
                    self._send_method(number, commands.Basic.CancelOk(method.consumer_tag))
                events.append(ConsumerCancelled(number, str(method.consumer_tag)))
            case commands.Channel.Flow():  # RabbitMQ never sends this
                self._send_method(number, commands.Channel.FlowOk(active=method.active))
            case _:
                events.append(Replied(number, method))

    def _handle_channel_close(
        self, number: int, channel: _ChannelState, method: commands.Channel.Close, events: list[AmqpEvent]
    ) -> None:
        self._send_method(number, commands.Channel.CloseOk())
        if channel.closing:
            channel.closed_by_broker = (
                True  # both closed it at once: the number is free when ours was answered
            )
        else:
            del self._channels[number]
        events.append(ChannelClosed(number, int(method.reply_code or 0), str(method.reply_text)))

    def _handle_connection_method(self, number: int, method: Method, events: list[AmqpEvent]) -> None:
        if number:
            raise ProtocolViolated(f"expected methods on open channels, got {method.name} on {number}")
        match method:
            case commands.Connection.Close():
                self._send_method(0, commands.Connection.CloseOk())
                code, reason = int(method.reply_code or 0), str(method.reply_text)
                self._fail(handshake.closing_error(self._stage, code, reason), events)
            case commands.Connection.CloseOk() if self._stage is handshake.Stage.CLOSING:
                self._stage = handshake.Stage.CLOSED
                events.append(Closed())
            case commands.Connection.Blocked() if self._stage in _ACTIVE_STAGES:
                events.append(Blocked(str(method.reason)))
            case commands.Connection.Unblocked() if self._stage in _ACTIVE_STAGES:
                events.append(Unblocked())
            case _:
                self._continue_handshake(method, events)

    def _continue_handshake(self, method: Method, events: list[AmqpEvent]) -> None:
        if self._stage is handshake.Stage.START:
            answers, self._stage = self._handshake.start(method), handshake.Stage.TUNE
        elif self._stage is handshake.Stage.TUNE:
            answers, self._stage = self._handshake.tune(method), handshake.Stage.OPEN_OK
            self._frame_max = self._frame_parser.frame_max = self._handshake.negotiated.frame_max
        elif self._stage is handshake.Stage.OPEN_OK and isinstance(method, commands.Connection.OpenOk):
            answers, self._stage = [], handshake.Stage.OPEN
            events.append(self._handshake.negotiated)
        else:
            raise ProtocolViolated(f"expected no {method.name} while {self._stage.name.lower()}, got one")
        for answer in answers:
            self._send_method(0, answer)

    def _fail(self, error: AmqpError, events: list[AmqpEvent]) -> None:
        self._stage = handshake.Stage.CLOSED
        events.append(ConnectionFailed(error))
