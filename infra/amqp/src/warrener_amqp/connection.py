"""The core: bytes in, happenings out; calls in, bytes out. No socket, no clock, no waiting.

Guarantees: any cutting of the incoming bytes gives the same happenings in the same order. Whatever the bytes
are, nothing is raised for them: the end of the connection is a happening too (`Failed`), the last one. The
frames of one call are never interleaved with others.
"""

from collections.abc import Mapping
from functools import partial

from pamqp import commands
from pamqp import frame as pamqp_frame
from pamqp.base import Frame as Method

from warrener_amqp import framing, hot, properties
from warrener_amqp.contents import Assembly
from warrener_amqp.credentials import Credentials
from warrener_amqp.errors import (
    AmqpError,
    AuthenticationRefused,
    ChannelGone,
    ConnectionLost,
    ProtocolViolated,
)
from warrener_amqp.handshake import PROTOCOL_HEADER, Handshake, Stage, Wishes, closing_error
from warrener_amqp.happenings import (
    Blocked,
    ChannelClosed,
    Closed,
    Confirmed,
    ConsumerCancelled,
    Delivered,
    Failed,
    Happening,
    Replied,
    Returned,
    Unblocked,
)
from warrener_amqp.methods import read_method
from warrener_amqp.whole import read_delivery

_SILENT_HALVES = 4  # half heartbeats without a byte: two heartbeats, as the specification asks
_SPEAKING = frozenset({Stage.OPEN, Stage.CLOSING})
_OK = 200


class _Channel:
    """What one channel remembers."""

    __slots__ = ("assembly", "closing", "confirming", "published", "refused")

    def __init__(self) -> None:
        self.assembly = Assembly()
        self.confirming = False
        self.published = 0  # publishes since Confirm.Select: the broker counts the same way
        self.closing = False  # we asked to close it
        self.refused = False  # the broker closed it while we asked to: its CloseOk is still to come


class Connection:
    """One AMQP 0-9-1 connection, seen from the client."""

    def __init__(self, credentials: Credentials, wishes: Wishes | None = None) -> None:
        self._wishes = wishes or Wishes()
        self._handshake = Handshake(credentials, self._wishes)
        self._splitter = framing.Splitter(self._wishes.frame_max)
        self._stage = Stage.START
        self._channels: dict[int, _Channel] = {}
        self._out: list[bytes] = [PROTOCOL_HEADER]
        self._frame_max = framing.FRAME_MIN
        self._silent = 0
        self._spoke = True

    # -- bytes ---------------------------------------------------------------------------------------------

    def take(self) -> list[bytes]:
        """The pieces to send now, in order; they are forgotten here."""
        out, self._out = self._out, []
        if out:
            self._spoke = True
        return out

    def receive(self, data: bytes) -> list[Happening]:
        """What these bytes say. After the end (`Closed`, `Failed`) they say nothing."""
        told: list[Happening] = []
        if self._stage is Stage.CLOSED:
            return told
        self._silent = 0
        try:
            for kind, number, payload in self._splitter.feed(data, partial(self._deliveries, told)):
                if kind == framing.METHOD:
                    self._method(number, payload, told)
                    if self.closed:
                        break
                elif kind != framing.HEARTBEAT:
                    self._content(kind, number, payload, told)
        except AmqpError as error:
            self._fail(error, told)
        return told

    def half_beat(self) -> list[Happening]:
        """Half a heartbeat interval has gone by. A heartbeat is sent where we said nothing in it; the
        connection has `Failed` where the broker said nothing for two whole intervals."""
        told: list[Happening] = []
        if self._stage not in _SPEAKING:
            return told
        self._silent += 1
        if self._silent > _SILENT_HALVES:
            self._fail(
                ConnectionLost("expected a heartbeat from the broker, got nothing for two intervals"), told
            )
            return told
        if not self._spoke:
            self._out.append(framing.HEARTBEAT_FRAME)
        self._spoke = False
        return told

    def end_of_stream(self) -> list[Happening]:
        """The broker has hung up: the connection has `Failed`, unless it was closed properly."""
        told: list[Happening] = []
        if self._stage is Stage.TUNE and not self._handshake.server_can("authentication_failure_close"):
            self._fail(
                AuthenticationRefused("expected to be let in, got hung up on after the credentials"), told
            )
        elif self._stage is not Stage.CLOSED:
            self._fail(ConnectionLost("expected the connection to last, got the end of the stream"), told)
        return told

    # -- calls ---------------------------------------------------------------------------------------------

    def open_channel(self) -> int:
        """Open the lowest free channel; `Replied` with Channel.OpenOk says that it is. Raises
        ProtocolViolated."""
        self._must_be_speaking()
        limit = self._handshake.agreed.channel_max or 65_535
        number = next((n for n in range(1, limit + 1) if n not in self._channels), None)
        if number is None:
            raise ProtocolViolated(f"expected at most {limit} channels, got one more; close one")
        self._channels[number] = _Channel()
        self.call(number, commands.Channel.Open())
        return number

    def call(self, channel: int, method: Method) -> None:
        """Send any method that carries no content. Raises ConnectionLost, ChannelGone."""
        state = self._open_channel_of(channel)
        if isinstance(method, commands.Confirm.Select):
            state.confirming = True
        self._say(channel, method)

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
    ) -> int:
        """Send one message; the number by which it is confirmed on this channel (1, 2, …; 0 if it is not).

        Raises ConnectionLost, ChannelGone, and ValueError for a string that is too long; then nothing is
        sent."""
        state = self._open_channel_of(channel)
        method = hot.publish_to(channel, exchange, routing_key, mandatory)
        written = properties.write(content_type, headers, message_id, type, persistent=persistent)
        out = self._out
        out.append(method)
        out += hot.content(channel, written, body, self._frame_max)
        if state.confirming:
            state.published += 1
        return state.published

    def ack(self, channel: int, tag: int, *, multiple: bool = False) -> None:
        """Acknowledge one delivery, or with `multiple` all up to it. Raises ConnectionLost, ChannelGone."""
        self._open_channel_of(channel)
        self._out.append(hot.ack(channel, tag, multiple=multiple))

    def reject(self, channel: int, tag: int, *, requeue: bool) -> None:
        """Give one delivery back, or dead-letter it. Raises ConnectionLost, ChannelGone."""
        self._open_channel_of(channel)
        self._out.append(hot.reject(channel, tag, requeue=requeue))

    def close_channel(self, channel: int) -> None:
        """Close it; `Replied` with Channel.CloseOk says that it is. Raises ConnectionLost, ChannelGone."""
        state = self._open_channel_of(channel)
        self._say(channel, commands.Channel.Close(_OK, "done", 0, 0))
        state.closing = True

    def close(self) -> None:
        """Say goodbye; `Closed` follows when the broker has agreed. Before the end of the handshake: just
        end."""
        if self._stage is Stage.OPEN:
            self._say(0, commands.Connection.Close(_OK, "done", 0, 0))
            self._stage = Stage.CLOSING
        elif self._stage is not Stage.CLOSING:
            self._stage = Stage.CLOSED

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""
        return self._stage is Stage.CLOSED

    def _must_be_speaking(self) -> None:
        if self._stage is not Stage.OPEN:
            raise ConnectionLost(f"expected an open connection, got one that is {self._stage.name.lower()}")

    def _open_channel_of(self, number: int) -> _Channel:
        self._must_be_speaking()
        state = self._channels.get(number)
        if state is None or state.closing:
            raise ChannelGone(f"expected an open channel, got {number}, which is closed")
        return state

    def _say(self, channel: int, method: Method) -> None:
        self._out.append(pamqp_frame.marshal(method, channel))

    # -- frames --------------------------------------------------------------------------------------------

    def _deliveries(self, told: list[Happening], data: bytes, at: int) -> int:
        """The deliveries that lie whole from here on; where the first other frame begins."""
        frame_max, channels = self._splitter.frame_max, self._channels
        while (found := read_delivery(data, at, frame_max)) is not None:
            delivered, end = found
            channel = channels.get(delivered.channel)
            if channel is None or channel.assembly.interrupted:
                break
            told.append(delivered)
            at = end
        return at

    def _content(self, kind: int, number: int, payload: bytes, told: list[Happening]) -> None:
        channel = self._channels.get(number)
        if channel is None:
            raise ProtocolViolated(f"expected content on an open channel, got some on {number}")
        step = channel.assembly.body if kind == framing.BODY else channel.assembly.header
        if (content := step(payload)) is not None:
            told.append(content)

    def _method(self, number: int, payload: bytes, told: list[Happening]) -> None:
        channel = self._channels.get(number)
        if channel is None:
            self._of_connection(number, read_method(payload), told)
            return
        if payload.startswith(hot.DELIVER_BYTES):
            channel.assembly.begin(Delivered._make, (number, *hot.read_deliver(payload)))
            return
        index = int.from_bytes(payload[:4], "big")
        if channel.assembly.interrupted:
            raise ProtocolViolated(f"expected the content of a message, got method {index:#x}")
        if index in {hot.ACK, hot.NACK}:
            told.append(Confirmed(number, *hot.read_confirm(payload), positive=index == hot.ACK))
        else:
            self._of_channel(number, channel, read_method(payload), told)

    def _of_channel(self, number: int, channel: _Channel, method: Method, told: list[Happening]) -> None:
        match method:
            case commands.Channel.Close():
                self._channel_refused(number, channel, method, told)
            case commands.Channel.CloseOk():
                del self._channels[number]
                if not channel.refused:
                    told.append(Replied(number, method))
            case commands.Basic.Return():
                code, reason = int(method.reply_code or 0), str(method.reply_text)
                where = str(method.exchange), str(method.routing_key)
                channel.assembly.begin(Returned._make, (number, code, reason, *where))
            case commands.Basic.Cancel():
                # RabbitMQ always says nowait; from 4.3.7 on it says by this capability that it waits all the
                # same, and before it closes the channel over an answer.
                if not method.nowait or self._handshake.server_can("accept_consumer_cancel_ok"):
                    self._say(number, commands.Basic.CancelOk(method.consumer_tag))
                told.append(ConsumerCancelled(number, str(method.consumer_tag)))
            case commands.Channel.Flow():  # RabbitMQ does not send it
                self._say(number, commands.Channel.FlowOk(active=method.active))
            case _:
                told.append(Replied(number, method))

    def _channel_refused(
        self, number: int, channel: _Channel, method: commands.Channel.Close, told: list[Happening]
    ) -> None:
        self._say(number, commands.Channel.CloseOk())
        if channel.closing:
            channel.refused = True  # both closed it at once: the number is free when ours was answered
        else:
            del self._channels[number]
        told.append(ChannelClosed(number, int(method.reply_code or 0), str(method.reply_text)))

    def _of_connection(self, number: int, method: Method, told: list[Happening]) -> None:
        if number:
            raise ProtocolViolated(f"expected methods on open channels, got {method.name} on {number}")
        match method:
            case commands.Connection.Close():
                self._say(0, commands.Connection.CloseOk())
                code, reason = int(method.reply_code or 0), str(method.reply_text)
                self._fail(closing_error(self._stage, code, reason), told)
            case commands.Connection.CloseOk() if self._stage is Stage.CLOSING:
                self._stage = Stage.CLOSED
                told.append(Closed())
            case commands.Connection.Blocked() if self._stage in _SPEAKING:
                told.append(Blocked(str(method.reason)))
            case commands.Connection.Unblocked() if self._stage in _SPEAKING:
                told.append(Unblocked())
            case _:
                self._greet(method, told)

    def _greet(self, method: Method, told: list[Happening]) -> None:
        if self._stage is Stage.START:
            answers, self._stage = self._handshake.start(method), Stage.TUNE
        elif self._stage is Stage.TUNE:
            answers, self._stage = self._handshake.tune(method), Stage.OPEN_OK
            self._frame_max = self._splitter.frame_max = self._handshake.agreed.frame_max
        elif self._stage is Stage.OPEN_OK and isinstance(method, commands.Connection.OpenOk):
            answers, self._stage = [], Stage.OPEN
            told.append(self._handshake.agreed)
        else:
            raise ProtocolViolated(f"expected no {method.name} while {self._stage.name.lower()}, got one")
        for answer in answers:
            self._say(0, answer)

    def _fail(self, error: AmqpError, told: list[Happening]) -> None:
        self._stage = Stage.CLOSED
        told.append(Failed(error))
