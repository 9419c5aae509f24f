"""Channels of `warrener_amqp` for a bus: calls with its errors and time limit, publishing, and consuming.

All frames of a batch leave in one write, with one future for all its confirms; deliveries come per loop turn,
acknowledgements leave in one write.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple, Protocol, TypeVar

from pamqp import commands

from warrener_amqp.channel import Channel, ChannelListener
from warrener_amqp.errors import AmqpError, ChannelRefused
from warrener_amqp.events import Confirmed, Delivered, PublishReturned
from warrener_amqp.session import Session
from warrener_runtime.bus.types import Delivery, OutgoingMessage, PublishResult

RPC_SECONDS = 10.0  # seconds for a reply of the broker
DECLARE_SECONDS = 100.0
"""Seconds for a declaration. RabbitMQ 3.10 writes it to all nodes at once: while one of them is frozen, it
waits for `net_ticktime` (60 to 75 s by default), and a second try would wait behind the first."""
# The request is at fault, not the connection: no access, not found, exclusive to others, other properties.
_REQUEST_ERRORS = frozenset({403, 404, 405, 406})
_NOT_FOUND, _ACCESS_REFUSED = 404, 403  # reply codes of AMQP
_WRITE = 1024 * 1024  # bytes written at once; the rest waits for the socket

T = TypeVar("T")


class BrokerConnectionLost(Exception):
    """The connection or the channel ended, or the broker refused a step; what was under way is uncertain."""


class RequestRefused(Exception):
    """The broker refuses a request, with a reason (403, 404, 405, 406)."""


@contextlib.contextmanager
def translate_amqp_errors() -> Generator[None]:
    """Translate errors: refusals to RequestRefused, all others to BrokerConnectionLost."""
    try:
        yield
    except ChannelRefused as error:
        if error.code in _REQUEST_ERRORS:
            raise RequestRefused(f"{error.code}: {error.reason}") from error
        raise BrokerConnectionLost(str(error)) from error
    except TimeoutError as error:
        raise BrokerConnectionLost("the broker did not answer in time") from error
    except (AmqpError, OSError) as error:
        raise BrokerConnectionLost(str(error) or type(error).__name__) from error


async def with_timeout(call: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
    """Await a call, for RPC_SECONDS by default. Raises TimeoutError, and the errors of the call."""
    async with asyncio.timeout(RPC_SECONDS if seconds is None else seconds):
        return await call


class PublishBatch:
    """Messages that are published together, and their results: UNKNOWN until one is known. `done` is set when
    each has one."""

    __slots__ = ("_open", "done", "messages", "results")

    def __init__(self, messages: Sequence[OutgoingMessage]) -> None:
        self.messages = messages
        self.results = [PublishResult.UNKNOWN] * len(messages)
        self._open = len(messages)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, index: int, result: PublishResult) -> None:
        """Set the result of one message; each gets one."""
        self.results[index] = result
        self._open -= 1
        if not self._open and not self.done.done():
            self.done.set_result(None)


class ConfirmTracker:
    """The unconfirmed messages of one channel, in the order of their numbers. Pure."""

    def __init__(self) -> None:
        self._pending: dict[int, tuple[PublishBatch, int]] = {}
        self._returned = 0  # the number of the last message that was returned

    def add(self, number: int, batch: PublishBatch, index: int) -> None:
        """Add a message of a batch that was sent under this number, the highest so far."""
        self._pending[number] = batch, index

    def confirm(self, number: int, result: PublishResult, *, multiple: bool) -> None:
        """Apply a confirm of one message, or of all up to it."""
        for one in list(takewhile(number.__ge__, self._pending)) if multiple else (number,):
            self._resolve(one, result)

    def unroutable(self, exchange: str, routing_key: str, message_id: str | None) -> None:
        """Apply a return of a mandatory message; its confirm follows and changes nothing.

        A return has no number, and the broker returns in the order of publishing: it belongs to the next
        message with this id and address, and no message is looked at for two returns.
        """
        first, last = next(iter(self._pending), 0), next(reversed(self._pending), 0)
        for number in range(max(first, self._returned + 1), last + 1):
            if (pending := self._pending.get(number)) is None:
                continue
            batch, index = pending
            message = batch.messages[index]
            if (
                message.mandatory
                and message.message_id == message_id
                and message.routing_key == routing_key
                and message.exchange == exchange
            ):
                self._returned = number
                self._resolve(number, PublishResult.UNROUTABLE)
                return

    def end(self, result_of: Callable[[OutgoingMessage], PublishResult]) -> None:
        """Resolve all pending messages by `result_of`, as the channel is gone."""
        for number, (batch, index) in list(self._pending.items()):
            self._resolve(number, result_of(batch.messages[index]))

    def _resolve(self, number: int, result: PublishResult) -> None:
        if (pending := self._pending.pop(number, None)) is not None:
            batch, index = pending
            batch.resolve(index, result)


class PublisherChannel(ChannelListener):
    """A channel that publishes, with confirms."""

    def __init__(self, session: Session, user_id: str | None) -> None:
        """`user_id`: the user that all messages name; None: none."""
        self._session, self._user_id = session, user_id
        self._confirms = ConfirmTracker()
        self._channel: Channel | None = None
        self._close_reason: AmqpError | None = None

    async def open(self) -> None:
        """Open the channel. Raises AmqpError."""
        self._channel = await self._session.channel(self)
        await self._channel.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    @property
    def closed(self) -> bool:
        return self._close_reason is not None

    @property
    def refusal(self) -> str | None:
        """The broker's reason, if it closed the channel over a publish."""
        return str(self._close_reason) if isinstance(self._close_reason, ChannelRefused) else None

    async def send(self, batch: PublishBatch, indexes: Sequence[int]) -> None:
        """Send these messages of a batch; return when all of it have results. After a BrokerConnectionLost
        those without one are uncertain."""
        assert self._channel is not None
        channel, transport = self._channel.number, self._session.transport
        publish, user_id = self._session.core.publish, self._user_id
        with translate_amqp_errors():
            await transport.drain()
            size = 0
            for index in indexes:
                if size >= _WRITE:
                    transport.flush()
                    await transport.drain()
                    size = 0
                message = batch.messages[index]
                number = publish(
                    channel,
                    message.exchange,
                    message.routing_key,
                    message.body,
                    content_type=message.content_type,
                    headers=message.headers,
                    message_id=message.message_id,
                    type=message.type,
                    persistent=message.persistent,
                    mandatory=message.mandatory,
                    user_id=user_id,
                )
                self._confirms.add(number, batch, index)
                size += len(message.body)
            transport.flush_soon()
        await batch.done

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()

    # -- events of the channel ----------------------------------------------------------------------------

    def on_confirm(self, confirm: Confirmed) -> None:
        result = PublishResult.CONFIRMED if confirm.positive else PublishResult.REFUSED
        self._confirms.confirm(confirm.tag, result, multiple=confirm.multiple)

    def on_return(self, returned: PublishReturned) -> None:
        """Resolve a message without a bound queue."""
        self._confirms.unroutable(returned.exchange, returned.routing_key, returned.properties.message_id)

    def on_closed(self, reason: AmqpError) -> None:
        """Resolve messages to the missing exchange as unroutable, those without a permission as refused, and
        all others as unknown."""
        self._close_reason = reason
        text = reason.reason if isinstance(reason, ChannelRefused) else ""
        code = reason.code if isinstance(reason, ChannelRefused) else 0

        def result_of(message: OutgoingMessage) -> PublishResult:
            if f"exchange '{message.exchange or 'amq.default'}'" not in text:
                return PublishResult.UNKNOWN
            if code == _NOT_FOUND:
                return PublishResult.UNROUTABLE
            # A topic permission refuses one routing key: "access to topic 'a.b' in exchange 'c' refused".
            if code == _ACCESS_REFUSED and (
                "topic '" not in text or f"topic '{message.routing_key}'" in text
            ):
                return PublishResult.REFUSED
            return PublishResult.UNKNOWN

        self._confirms.end(result_of)


class AckPlan(NamedTuple):
    """Acknowledge everything up to `up_to` at once, and the `individual` tags one by one."""

    up_to: int | None
    individual: list[int]


class ConsumerListener(Protocol):
    """Receives the events of one consumer."""

    @property
    def epoch(self) -> int:
        """The epoch of its deliveries."""
        ...

    def on_opened(self, channel: "ConsumerChannel") -> None:
        """The channel that delivers, and on which to acknowledge; called before the first delivery."""

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Deliveries that arrived together."""

    def on_gone(self) -> None:
        """The channel closed, or the broker cancelled the consumer. May be called more than once."""


class ConsumerChannel(ChannelListener):
    """A channel with one consumer."""

    def __init__(self, session: Session, listener: ConsumerListener) -> None:
        self._session = session
        self._listener = listener
        self._channel: Channel | None = None
        self._consumer: str | None = None
        self._arrived: list[Delivery] = []

    async def open(self, queue: str, prefetch: int) -> None:
        """Open the channel and consume. Raises AmqpError, TimeoutError."""
        self._channel = await with_timeout(self._session.channel(self))
        self._listener.on_opened(self)
        await with_timeout(self._channel.call(commands.Basic.Qos(0, prefetch), commands.Basic.QosOk))
        began = await with_timeout(
            self._channel.call(commands.Basic.Consume(queue=queue), commands.Basic.ConsumeOk)
        )
        self._consumer = str(began.consumer_tag)

    @property
    def live(self) -> bool:
        """True if the broker delivers to this consumer, as far as is known."""
        return self._consumer is not None

    async def ack(self, plan: AckPlan) -> None:
        """Acknowledge, in the one write of this loop turn. Raises BrokerConnectionLost."""
        with translate_amqp_errors():
            await self._session.transport.drain()
            core, channel = self._session.core, self._number
            if plan.up_to is not None:
                core.ack(channel, plan.up_to, multiple=True)
            for tag in plan.individual:
                core.ack(channel, tag)
            self._session.transport.flush_soon()

    async def reject(self, tags: Sequence[int], *, requeue: bool) -> None:
        """Reject, in the one write of this loop turn. Raises BrokerConnectionLost.

        Not nack: RabbitMQ 4.3 does not count it, and poison would come back without end.
        """
        with translate_amqp_errors():
            await self._session.transport.drain()
            for tag in tags:
                self._session.core.reject(self._number, tag, requeue=requeue)
            self._session.transport.flush_soon()

    async def cancel(self) -> None:
        """Stop receiving; deliveries that have arrived may still be settled. Raises BrokerConnectionLost."""
        if self._channel is not None and self._consumer is not None:
            method = commands.Basic.Cancel(self._consumer)
            with translate_amqp_errors():
                await with_timeout(self._channel.call(method, commands.Basic.CancelOk))
            self.on_read_complete()
            self._consumer = None

    async def close(self) -> None:
        """Close the channel; unacknowledged deliveries go back, at the latest with the connection."""
        if self._channel is not None:
            with contextlib.suppress(BrokerConnectionLost), translate_amqp_errors():
                await with_timeout(self._channel.close())

    @property
    def _number(self) -> int:
        assert self._channel is not None
        return self._channel.number

    def _gone(self) -> None:
        self._consumer = None
        self._listener.on_gone()

    # -- events of the channel ----------------------------------------------------------------------------

    def on_delivery(self, delivery: Delivered) -> None:
        """Collect a delivery until the input of the loop turn is read."""
        _, _, tag, redelivered, exchange, routing_key, properties, body = delivery
        self._arrived.append(
            Delivery(
                body,
                routing_key,
                exchange,
                redelivered,
                tag,
                self._listener.epoch,
                properties.content_type,
                properties.message_id,
                properties.type,
                properties.headers,
                properties.readable,
                properties.user_id,
            )
        )

    def on_read_complete(self) -> None:
        """Pass the collected deliveries on together."""
        if self._arrived:
            arrived, self._arrived = self._arrived, []
            self._listener.on_deliveries(arrived)

    def on_cancel(self, consumer: str) -> None:
        self.on_read_complete()
        self._gone()

    def on_closed(self, reason: AmqpError) -> None:
        self._arrived.clear()
        self._gone()
