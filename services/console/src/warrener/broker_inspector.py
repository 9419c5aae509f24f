"""A look at the broker as it is: what exists, with which properties, and what we may do there.

The Bus port makes things exist; here nothing may be made, so this speaks AMQP by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import aiormq
from aiormq.abc import AbstractChannel

from warrener.broker_time import BrokerTime, broker_time
from warrener.command_runner import (
    BrokerUnreachable,
    check_reachable,
    credentials_error,
    os_error_text,
    parse_broker_url,
)
from warrener.errors import CommandError, ExitCode
from warrener_contracts import topology
from warrener_runtime.bus import BusCredentialsRefused
from warrener_runtime.bus.namespace import DEFAULT_NAMESPACE, NameMapper
from warrener_runtime.bus.rabbitmq.aiormq.connection import address, close_quietly, connect
from warrener_runtime.bus.rabbitmq.aiormq.error_translation import translate_errors
from warrener_runtime.bus.rabbitmq.client import BrokerConnectionLost
from warrener_runtime.bus.types import ExchangeSpec, QueueSpec
from warrener_runtime.secrets import mask

_WITHIN = 10.0  # seconds for one step


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """A queue that exists."""

    messages: int
    consumers: int


class BrokerInspector:
    """Asks one question per channel: a no closes the channel. Names are those that code knows; `names` turns
    them into those on the broker."""

    def __init__(self, connection: aiormq.Connection, namespace: str) -> None:
        self._connection = connection
        self.names = NameMapper(namespace)

    @property
    def broker(self) -> str:
        """Such as `RabbitMQ 3.10.8`."""
        properties = self._connection.server_properties
        return f"{_text(properties.get('product'))} {_text(properties.get('version'))}"

    async def queue(self, name: str) -> QueueInfo | None:
        """What is in the queue and who consumes it; None if it does not exist."""
        async with self._channel() as channel:
            try:
                seen = await channel.queue_declare(self.names.to_broker(name), passive=True, timeout=_WITHIN)
            except aiormq.ChannelNotFoundEntity:
                return None
        return QueueInfo(seen.message_count or 0, seen.consumer_count or 0)

    async def queue_differs(self, spec: QueueSpec) -> str | None:
        """How an existing queue differs from ours, in the broker's words; None if it is the same."""
        queue = self.names.queue(spec)
        async with self._channel() as channel:
            try:
                await channel.queue_declare(
                    queue.name, durable=True, arguments=dict(queue.arguments), timeout=_WITHIN
                )
            except aiormq.ChannelPreconditionFailed as error:
                return str(error)
        return None

    async def exchange_exists(self, name: str) -> bool:
        """Whether there is an exchange by this name."""
        async with self._channel() as channel:
            try:
                await channel.exchange_declare(self.names.to_broker(name), passive=True, timeout=_WITHIN)
            except aiormq.ChannelNotFoundEntity:
                return False
        return True

    async def exchange_differs(self, spec: ExchangeSpec) -> str | None:
        """How an existing exchange differs from ours, in the broker's words; None if it is the same."""
        exchange = self.names.exchange(spec)
        arguments: dict[str, Any] | None = (
            {"alternate-exchange": exchange.alternate} if exchange.alternate else None
        )
        async with self._channel() as channel:
            try:
                await channel.exchange_declare(
                    exchange.name,
                    exchange_type=exchange.kind,
                    durable=True,
                    arguments=arguments,
                    timeout=_WITHIN,
                )
            except aiormq.ChannelPreconditionFailed as error:
                return str(error)
        return None

    async def delete_exchange(self, name: str) -> None:
        """Delete it where it is there."""
        async with self._channel() as channel:
            await channel.exchange_delete(self.names.to_broker(name), timeout=_WITHIN)

    async def check_permissions(self) -> str | None:
        """Configure, write and read for real, as a client does: an own reply queue, an answer to it. None:
        all granted; else which is not, in the broker's words."""
        address = f"doctor-{uuid4().hex}"
        own_queue = self.names.queue(topology.reply_queue(address))
        events = self.names.to_broker(topology.EVENTS)
        step = "configure"
        async with self._channel() as channel:
            try:
                await channel.queue_declare(own_queue.name, exclusive=True, timeout=_WITHIN)
                step = "read and write (bind)"
                await channel.queue_bind(own_queue.name, events, topology.reply_key(address), timeout=_WITHIN)
                step = "write"
                await channel.basic_publish(
                    b"{}", exchange=events, routing_key=topology.reply_key(address), timeout=_WITHIN
                )
                step = "read"
                await channel.basic_get(own_queue.name, no_ack=True, timeout=_WITHIN)
            except aiormq.AMQPChannelError as error:
                return f"{step}: {error}"
        return None

    async def time(self) -> BrokerTime | str:
        """The broker's second beside ours; or why it does not tell, in its words."""
        async with self._channel() as channel:
            try:
                return await broker_time(channel, _WITHIN)
            except aiormq.AMQPChannelError as error:
                return str(error)
            except TimeoutError:
                return f"no answer within {_WITHIN:g} s"

    @asynccontextmanager
    async def _channel(self) -> AsyncGenerator[AbstractChannel]:
        channel = await self._connection.channel()
        try:
            yield channel
        finally:
            if not channel.is_closed:
                await channel.close()


@asynccontextmanager
async def open_inspector(url: str, namespace: str = DEFAULT_NAMESPACE) -> AsyncGenerator[BrokerInspector]:
    """A probe of this broker's namespace. Raises CommandError where the broker cannot be reached, or is lost
    on the way."""
    parse_broker_url(url)
    try:
        async with asyncio.timeout(_WITHIN):
            await check_reachable(url)
            connection = await connect(address(url, "warrener.command"))
    except BusCredentialsRefused as error:
        raise credentials_error(error) from error
    except (OSError, BrokerConnectionLost) as error:
        raise BrokerUnreachable(url, _reason(error)) from error
    try:
        with _translate_errors(url):
            yield BrokerInspector(connection, namespace)
    finally:
        await close_quietly(connection)


@contextmanager
def _translate_errors(url: str) -> Generator[None]:
    try:
        with translate_errors():
            yield
    except aiormq.AMQPChannelError as error:
        raise CommandError(
            f"expected the broker at {mask(url)} to let us look, got: {error}",
            do="give the user the right to configure, write and read warrener.*: rabbitmqctl set_permissions",
            code=ExitCode.UNREACHABLE,
        ) from error
    except BrokerConnectionLost as error:
        raise CommandError(
            f"expected the broker at {mask(url)} to go on answering, got: {error}",
            do="look whether it still runs, and try again",
            code=ExitCode.UNREACHABLE,
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {_WITHIN:g} s"
    return os_error_text(error) if isinstance(error, OSError) else str(error)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
