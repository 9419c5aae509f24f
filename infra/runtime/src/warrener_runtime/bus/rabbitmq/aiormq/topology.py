"""Making exchanges and queues exist, by aiormq."""

import asyncio
from collections.abc import Iterable

import aiormq

from warrener_runtime.bus.rabbitmq.aiormq.connection import (
    RPC_SECONDS,
    HandshakeConnection,
    close_quietly,
    open_channel,
)
from warrener_runtime.bus.rabbitmq.aiormq.error_translation import translate_errors
from warrener_runtime.bus.rabbitmq.aiormq.frames import run_unless_closed
from warrener_runtime.bus.rabbitmq.topology import mismatch, validate_exchange_kind
from warrener_runtime.bus.types import BindingSpec, ExchangeSpec, QueueSpec


async def declare(
    connection: HandshakeConnection, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    """Declare all, on a channel of its own. Raises TopologyMismatch at the first that differs;
    BrokerConnectionLost."""
    channel = await open_channel(connection, aiormq.Channel)
    try:
        await run_unless_closed(connection, _declare(channel, exchanges, queues))
    finally:
        await close_quietly(channel)


async def _declare(
    channel: aiormq.Channel, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    for exchange in exchanges:
        await _declare_exchange(channel, exchange)
    for queue in queues:
        await _declare_queue(channel, queue)


async def _declare_exchange(channel: aiormq.Channel, exchange: ExchangeSpec) -> None:
    with _raising_mismatch(f"exchange {exchange.name!r}"), translate_errors():
        await channel.exchange_declare(
            exchange.name,
            exchange_type=validate_exchange_kind(exchange),
            durable=True,
            arguments=None if exchange.alternate is None else {"alternate-exchange": exchange.alternate},
            timeout=RPC_SECONDS,
        )


async def _declare_queue(channel: aiormq.Channel, queue: QueueSpec) -> None:
    with _raising_mismatch(f"queue {queue.name!r}"), translate_errors():
        await channel.queue_declare(
            queue.name,
            durable=not queue.exclusive,
            exclusive=queue.exclusive,
            arguments=dict(queue.arguments),
            timeout=RPC_SECONDS,
        )
        for binding in queue.bindings:
            await channel.queue_bind(queue.name, binding.exchange, binding.key, timeout=RPC_SECONDS)


async def unbind(connection: HandshakeConnection, queue: str, bindings: Iterable[BindingSpec]) -> None:
    """Remove bindings, on a channel of its own. Raises BrokerConnectionLost."""
    channel = await open_channel(connection, aiormq.Channel)
    try:
        with translate_errors():
            for binding in bindings:
                request = channel.queue_unbind(queue, binding.exchange, binding.key)
                async with asyncio.timeout(RPC_SECONDS):
                    await run_unless_closed(connection, request)
    finally:
        await close_quietly(channel)


class _raising_mismatch:  # noqa: N801 - it reads as a statement
    """Translate a refused declaration to TopologyMismatch."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, aiormq.AMQPChannelError):
            raise mismatch(self._what, str(error)) from error
