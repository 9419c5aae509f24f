"""Inspection of the broker: its exchanges and queues, their properties, and the rights of this user.

The Bus port declares what is missing; an inspection must change nothing, so it uses AMQP directly.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import uuid4

from pamqp import commands
from pamqp.base import Frame as Method

from warrener.context import CONNECT_TIMEOUT, SOURCE, parse_broker_urls
from warrener.errors import BrokerUnreachable, CommandError, ExitCode, os_error_text
from warrener_amqp.channel import Channel, ChannelListener
from warrener_amqp.errors import (
    AmqpError,
    AuthenticationRefused,
    ChannelRefused,
    ConnectionLost,
    describe_tls_error,
)
from warrener_amqp.events import Delivered
from warrener_amqp.session import Session, open_session
from warrener_contracts import topology
from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.bus.types import ExchangeSpec, QueueSpec
from warrener_runtime.namespace import DEFAULT_NAMESPACE
from warrener_runtime.secrets import mask

M = TypeVar("M", bound=Method)

_CALL_TIMEOUT = 5.0  # seconds; more than any answer of a healthy broker takes
_LOOK_INTERVAL = 0.05  # seconds
_PROBE_SECONDS = 3.0
_PROBE = commands.Basic.Properties(delivery_mode=2, expiration="100")  # milliseconds
PROBE_WAITS = "messages wait there, behind which none comes back in seconds"
ACCESS_REFUSED, _NOT_FOUND, PRECONDITION_FAILED = 403, 404, 406


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """Counts of an existing queue."""

    messages: int
    consumers: int


@dataclass(frozen=True, slots=True)
class BrokerTime:
    """The broker's clock, in whole seconds, at a moment between `before` and `after` of this machine's."""

    before: datetime
    reported_at: datetime
    after: datetime


class BrokerInspector:
    """Queries one namespace of a broker. Takes the names of the code; `names` maps them to the broker's.

    Each query has a channel of its own, because a refusal closes the channel.
    """

    def __init__(self, session: Session, server: Mapping[str, object], namespace: str, user: str) -> None:
        self._session, self._server, self.user = session, server, user
        self.names = NameMapper(namespace)
        self._unseen: dict[str, str] = {}  # queues, with the broker's reasons

    @property
    def broker(self) -> str:
        """Product and version, such as `RabbitMQ 3.10.8`."""
        return f"{self._server.get('product')} {self._server.get('version')}"

    async def queue(self, name: str) -> QueueInfo | None:
        """The counts of a queue; None if it does not exist. Raises ChannelRefused if the user may not look,
        which is tried once: RabbitMQ 4.3 compares permissions, and logs each refusal."""
        if (reason := self._unseen.get(name)) is not None:
            raise ChannelRefused(ACCESS_REFUSED, reason)
        declare = commands.Queue.Declare(queue=self.names.to_broker(name), passive=True)
        try:
            seen = await self._declare(declare, commands.Queue.DeclareOk, _NOT_FOUND)
        except ChannelRefused as refusal:
            if refusal.code == ACCESS_REFUSED:
                self._unseen[name] = refusal.reason
            raise
        if isinstance(seen, ChannelRefused):
            return None
        return QueueInfo(seen.message_count or 0, seen.consumer_count or 0)

    async def exchange_exists(self, name: str) -> bool:
        declare = commands.Exchange.Declare(exchange=self.names.to_broker(name), passive=True)
        seen = await self._declare(declare, commands.Exchange.DeclareOk, _NOT_FOUND)
        return not isinstance(seen, ChannelRefused)

    async def queue_differs(self, spec: QueueSpec) -> str | None:
        """The broker's words for how an existing queue differs from the spec; None if it is the same."""
        queue = self.names.queue(spec)
        declare = commands.Queue.Declare(queue=queue.name, durable=True, arguments=dict(queue.arguments))
        seen = await self._declare(declare, commands.Queue.DeclareOk, PRECONDITION_FAILED)
        return seen.reason if isinstance(seen, ChannelRefused) else None

    async def exchange_differs(self, spec: ExchangeSpec) -> str | None:
        """The broker's words for how an existing exchange differs from the spec; None if it is the same."""
        exchange = self.names.exchange(spec)
        declare = commands.Exchange.Declare(
            exchange=exchange.name,
            exchange_type=exchange.kind,
            durable=True,
            arguments={"alternate-exchange": exchange.alternate} if exchange.alternate else None,
        )
        seen = await self._declare(declare, commands.Exchange.DeclareOk, PRECONDITION_FAILED)
        return seen.reason if isinstance(seen, ChannelRefused) else None

    async def _declare(self, declare: Method, answer: type[M], expected: int) -> M | ChannelRefused:
        """Declare what exists already, which changes nothing; return a refusal with the expected code."""
        async with self._channel() as channel:
            try:
                return await _call(channel, declare, answer)
            except ChannelRefused as refusal:
                if refusal.code != expected:
                    raise
                return refusal

    async def delete_exchange(self, name: str) -> None:
        async with self._channel() as channel:
            delete = commands.Exchange.Delete(exchange=self.names.to_broker(name))
            await _call(channel, delete, commands.Exchange.DeleteOk)

    async def check_permissions(self) -> str | None:
        """Configure, write and read as every role may, by a queue of its own for pings.

        None if all is granted, else the refused step in the broker's words.
        """
        step = "configure"
        async with self._channel() as channel:
            try:
                queue = await self._declare_own_queue(channel)
                step = "read and write (bind)"
                await self._bind_own_queue(channel, queue)
                step = "write"
                self.publish(channel, queue)
                look = commands.Queue.Declare(queue=queue, passive=True)
                await _call(channel, look, commands.Queue.DeclareOk)  # answered after the publish
                step = "read"
                consume = commands.Basic.Consume(queue=queue, no_ack=True)
                await _call(channel, consume, commands.Basic.ConsumeOk)
            except ChannelRefused as refusal:
                return f"{step}: {refusal.reason}"
        return None

    async def refusal(self, attempt: Callable[[Channel], Awaitable[object]]) -> ChannelRefused | None:
        """Carry an attempt out on a channel of its own; return the broker's refusal of it."""
        async with self._channel() as channel:
            try:
                async with asyncio.timeout(_CALL_TIMEOUT):
                    await attempt(channel)
            except ChannelRefused as refusal:
                return refusal
        return None

    async def alarm(self) -> str | None:
        """Why the broker takes no messages, in its words, such as `low on memory`; None if it takes them.

        Only a connection that publishes is notified; it can be used no longer then. The message goes nowhere.
        """
        look = commands.Exchange.Declare(exchange=self.names.to_broker(topology.EVENTS), passive=True)
        async with self._channel() as channel:
            self.publish(channel, self.own_queue_name())
            answer = asyncio.ensure_future(_call(channel, look, commands.Exchange.DeclareOk))
            while not answer.done() and self._session.blocked is None:
                await asyncio.wait({answer}, timeout=_LOOK_INTERVAL)
            answer.cancel()
            # Permissions have a check of their own.
            with suppress(ChannelRefused, asyncio.CancelledError):
                await answer
        return self._session.blocked

    async def time(self) -> BrokerTime | str:
        """The broker's clock beside ours; or why it is unknown, in the broker's words.

        AMQP reports the broker's time of dead letters alone. So a message expires in one queue and arrives in
        another: both exclusive queues for pings, which go with the connection.
        """
        arrivals = _Arrivals()
        async with self._channel(arrivals) as channel:
            try:
                queue = await self._declare_own_queue(channel)
                await self._bind_own_queue(channel, queue)
                dead_letters: dict[str, str | int] = {
                    "x-message-ttl": 0,
                    "x-dead-letter-exchange": topology.PINGS,
                    "x-dead-letter-routing-key": queue,
                }
                source = await self._declare_own_queue(channel, dead_letters)
                await self._bind_own_queue(channel, source)
                consume = commands.Basic.Consume(queue=queue, no_ack=True)
                await _call(channel, consume, commands.Basic.ConsumeOk)
                before = datetime.now(UTC)
                self.publish(channel, source)
                delivery, after = await asyncio.wait_for(arrivals.next(), _CALL_TIMEOUT)
            except ChannelRefused as refusal:
                return refusal.reason
            except TimeoutError:
                return f"no answer within {_CALL_TIMEOUT:g} s"
        deaths: Any = delivery.properties.headers["x-death"]
        died_at: datetime = deaths[0]["time"]
        return BrokerTime(before, died_at if died_at.tzinfo else died_at.replace(tzinfo=UTC), after)

    async def prove_delay_levels(self) -> dict[str, str | None]:
        """Send a message through each delay queue, which it leaves at once. By level: None if it came back,
        else why not.

        A queue ends messages in their order, so a level is not tried while others wait there for long.
        """
        address = f"doctor-{uuid4().hex}"
        levels, found = list[str](), dict[str, str | None]()
        for level in topology.DELAY_LEVELS:
            waiting = seen.messages if (seen := await self.queue(level.queue)) is not None else 0
            found[level.name] = f"{waiting} {PROBE_WAITS}"
            if not waiting or level.delay.total_seconds() <= _PROBE_SECONDS / 2:
                levels.append(level.name)
                found[level.name] = f"no message came back within {_PROBE_SECONDS:g} s"
        arrivals = _Arrivals()
        async with self._channel(arrivals) as channel:
            queue = await self._declare_own_queue(channel)
            bind = commands.Queue.Bind(
                queue=queue, exchange=self.names.to_broker(topology.RETURN), routing_key=f"*.{address}.#"
            )
            await _call(channel, bind, commands.Queue.BindOk)
            await _call(channel, commands.Basic.Consume(queue=queue, no_ack=True), commands.Basic.ConsumeOk)
            delay = self.names.to_broker(topology.DELAY)
            for level_name in levels:
                core, key = self._session.core, f"{level_name}.{address}"
                core.publish_with(channel.number, delay, key, level_name.encode(), _PROBE.marshal())
            self._session.transport.flush_soon()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROBE_SECONDS):
                    for _ in levels:
                        found[(await arrivals.next())[0].body.decode()] = None
        return found

    def own_queue_name(self) -> str:
        """A fresh name of a queue that every role may declare; it is also the routing key of its pings."""
        return self.names.to_broker(topology.ping_queue(uuid4().hex).name)

    async def _declare_own_queue(
        self, channel: Channel, arguments: Mapping[str, str | int] = MappingProxyType({})
    ) -> str:
        """Declare a queue that goes with the connection; its name on the broker."""
        queue = self.own_queue_name()
        declare = commands.Queue.Declare(queue=queue, exclusive=True, arguments=dict(arguments))
        await _call(channel, declare, commands.Queue.DeclareOk)
        return queue

    async def _bind_own_queue(self, channel: Channel, queue: str) -> None:
        bind = commands.Queue.Bind(queue=queue, exchange=topology.PINGS, routing_key=queue)
        await _call(channel, bind, commands.Queue.BindOk)

    def publish(
        self, channel: Channel, routing_key: str, exchange: str = topology.PINGS, user_id: str | None = None
    ) -> None:
        """Publish an empty object, and do not wait for the broker."""
        self._session.core.publish(
            channel.number,
            exchange,
            routing_key,
            b"{}",
            content_type="application/json",
            headers={},
            message_id="",
            type="",
            persistent=False,
            mandatory=False,
            user_id=user_id,
        )
        self._session.transport.flush_soon()

    @asynccontextmanager
    async def _channel(self, listener: ChannelListener | None = None) -> AsyncGenerator[Channel]:
        async with asyncio.timeout(_CALL_TIMEOUT):
            channel = await self._session.channel(listener)
        try:
            yield channel
        except asyncio.CancelledError:
            channel.abandon()  # an answer that is late would be waited for again
            raise
        finally:
            with suppress(TimeoutError):
                if self._session.blocked is not None:
                    raise TimeoutError  # the broker reads nothing of this connection
                async with asyncio.timeout(_CALL_TIMEOUT):
                    await channel.close()


class _Arrivals(ChannelListener):
    """A channel listener that queues its deliveries with their times, and why the channel was closed."""

    def __init__(self) -> None:
        self._queue = asyncio.Queue[tuple[Delivered, datetime] | AmqpError]()

    async def next(self) -> tuple[Delivered, datetime]:
        """The next delivery, and when it arrived. Raises AmqpError."""
        if isinstance(found := await self._queue.get(), AmqpError):
            raise found
        return found

    def on_delivery(self, delivery: Delivered) -> None:
        self._queue.put_nowait((delivery, datetime.now(UTC)))

    def on_closed(self, reason: AmqpError) -> None:
        self._queue.put_nowait(reason)


async def _call(channel: Channel, method: Method, answer: type[M]) -> M:
    async with asyncio.timeout(_CALL_TIMEOUT):
        return await channel.call(method, answer)


@asynccontextmanager
async def open_inspector(url: str, namespace: str = DEFAULT_NAMESPACE) -> AsyncGenerator[BrokerInspector]:
    """Connect to this broker. Raises CommandError if it is unreachable, refuses us, or is lost meanwhile."""
    addresses = [address.with_name(SOURCE) for address in parse_broker_urls(url)]
    where = addresses[0]
    try:
        session, opened = await open_session(addresses, timeout=CONNECT_TIMEOUT)
    except AuthenticationRefused as error:
        raise CommandError(
            f"expected the broker at {where} to let {where.credentials.description} into virtual host "
            f"{where.params.virtual_host!r}, got: {error}",
            do="correct the broker URL, or create the user, its permissions or the virtual host",
            code=ExitCode.UNREACHABLE,
        ) from error
    except (OSError, ConnectionLost) as error:
        why = os_error_text(error) if isinstance(error, OSError) else str(error)
        raise BrokerUnreachable(url, describe_tls_error(error, where) or why) from error
    try:
        yield BrokerInspector(session, opened.server, namespace, where.credentials.user or "")
    except ChannelRefused as error:
        raise CommandError(
            f"expected the broker at {mask(url)} to let us look, got: {error}",
            do="give the user the right to configure, write and read warrener.*: rabbitmqctl set_permissions",
            code=ExitCode.UNREACHABLE,
        ) from error
    except (AmqpError, TimeoutError) as error:
        raise CommandError(
            f"expected the broker at {mask(url)} to go on answering, got: "
            f"{str(error) or f'no answer within {_CALL_TIMEOUT:g} s'}",
            do="check that it still runs, and try again",
            code=ExitCode.UNREACHABLE,
        ) from error
    finally:
        if session.blocked is not None:
            session.transport.abort(ConnectionLost("the broker reads nothing of this connection"))
        await session.close()
