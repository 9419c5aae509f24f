"""Making exchanges and queues exist, by the lean lane."""

from collections.abc import Iterable

from pamqp import commands

from warrener_amqp import Channel
from warrener_runtime.bus.lean.error_translation import translate_amqp_errors
from warrener_runtime.bus.lean.timeouts import with_timeout
from warrener_runtime.bus.port import ExchangeSpec, QueueSpec
from warrener_runtime.bus.rabbit.broker_client import RequestRefused
from warrener_runtime.bus.rabbit.mismatch import mismatch, validate_exchange_kind


async def declare_on(
    channel: Channel, exchanges: Iterable[ExchangeSpec], queues: Iterable[QueueSpec]
) -> None:
    """Declare all. Raises TopologyMismatch at the first that differs; LinkLost."""
    for exchange in exchanges:
        await _declare_exchange(channel, exchange)
    for queue in queues:
        await _declare_queue(channel, queue)


async def _declare_exchange(channel: Channel, exchange: ExchangeSpec) -> None:
    method = commands.Exchange.Declare(
        exchange=exchange.name,
        exchange_type=validate_exchange_kind(exchange),
        durable=True,
        arguments=None if exchange.alternate is None else {"alternate-exchange": exchange.alternate},
    )
    try:
        with translate_amqp_errors():
            await with_timeout(channel.call(method, commands.Exchange.DeclareOk))
    except RequestRefused as refused:
        raise mismatch(f"exchange {exchange.name!r}", str(refused)) from refused


async def _declare_queue(channel: Channel, queue: QueueSpec) -> None:
    method = commands.Queue.Declare(
        queue=queue.name,
        durable=not queue.exclusive,
        exclusive=queue.exclusive,
        arguments=dict(queue.arguments),
    )
    try:
        with translate_amqp_errors():
            await with_timeout(channel.call(method, commands.Queue.DeclareOk))
            for binding in queue.bindings:
                bind = commands.Queue.Bind(
                    queue=queue.name, exchange=binding.exchange, routing_key=binding.key
                )
                await with_timeout(channel.call(bind, commands.Queue.BindOk))
    except RequestRefused as refused:
        raise mismatch(f"queue {queue.name!r}", str(refused)) from refused
