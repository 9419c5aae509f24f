"""Consumer of the broker's outbound events: each becomes topics, and is forgotten.

Its queue is exclusive, short and drops its oldest messages, so that a console holds up nobody. It is bound to
`warrener.events` alone: bound to requests or reports too, it would hide from the broker that the queue of a
service is missing. Without open pages it is not connected at all.
"""

import asyncio
import logging
from time import monotonic
from typing import Any
from uuid import uuid4

import aio_pika
from faststream import AckPolicy
from faststream.message import StreamMessage
from faststream.rabbit import Channel, ExchangeType, RabbitBroker, RabbitExchange, RabbitQueue

from warrener.web.live.hub import Hub
from warrener.web.live.topics import PATTERNS, topics_of
from warrener_amqp import pick_host
from warrener_contracts.topology import EVENTS
from warrener_runtime.backoff import ExponentialBackoff, FailureStreak
from warrener_runtime.bus.namespace import NameMapper
from warrener_runtime.commands.connection import CommandConnection, complete_url
from warrener_runtime.lifecycle.components import ManagedComponent, cancel, is_being_cancelled
from warrener_runtime.logs import get_logger

log = get_logger("console")

_PREFETCH = 200
_MAX_QUEUE_LENGTH = 2000  # messages
_CONNECT_TIMEOUT = 5.0  # seconds
_START_TIMEOUT = 20.0
_CHECK_INTERVAL = 3.0
_REPLACE_AFTER = 10.0  # seconds without an answer
_IDLE_AFTER = 60.0  # seconds without an open page


class EventConsumer(ManagedComponent):
    """Consumes events while pages are open. Started means that it tries: no broker is needed to start."""

    def __init__(self, url: str, *, namespace: str, hub: Hub) -> None:
        super().__init__("events for open pages")
        self._url = complete_url(url, "warrener-console receives events")
        self._names = NameMapper(namespace)
        self._hub = hub
        self._task: asyncio.Task[None] | None = None
        self._backoff = ExponentialBackoff(ceiling=5.0)
        self._streak = FailureStreak(log, consumer=self.name)
        self.received_count = 0
        """The number of messages that have ever arrived."""

    async def _on_start(self) -> None:
        for library in ("aio_pika", "aiormq"):  # they log each failed try to connect, with a traceback
            logging.getLogger(library).setLevel(logging.CRITICAL)
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def _on_drain(self) -> None:
        await self._on_stop()

    async def _on_stop(self) -> None:
        await cancel(self._task)
        self._task = None

    async def _run(self) -> None:
        while True:
            await self._hub.has_viewers.wait()
            try:
                await self._consume_by_one_connection()
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                self._hub.interrupt()
                self._streak.failed(
                    error, "Events cannot be received; retrying.", monotonic(), action="console.events_failed"
                )
                await asyncio.sleep(self._backoff.failed())

    async def _consume_by_one_connection(self) -> None:
        """Consume until nobody looks. Raises if the connection is lost."""
        queue = RabbitQueue(
            self._names.to_broker(f"warrener.console.{uuid4()}"),
            durable=False,
            exclusive=True,
            auto_delete=True,
            arguments={"x-max-length": _MAX_QUEUE_LENGTH, "x-overflow": "drop-head"},
        )
        connection = CommandConnection(0)
        broker = self._broker(queue)
        try:
            async with asyncio.timeout(_START_TIMEOUT):
                await connection.open(broker, queue)
                exchange = await broker.declare_exchange(
                    RabbitExchange(self._names.to_broker(EVENTS), type=ExchangeType.TOPIC, durable=True)
                )
                bound = await broker.declare_queue(queue)
                for pattern in PATTERNS:
                    await bound.bind(exchange, pattern)
            self._streak.recovered(
                "Events are received again.", monotonic(), action="console.events_recovered"
            )
            self._backoff.succeeded()
            self._hub.resume()
            await self._watch(connection)
        finally:
            await connection.close()

    async def _watch(self, connection: CommandConnection) -> None:
        answered_at = seen_at = monotonic()
        while monotonic() - seen_at < _IDLE_AFTER:
            try:
                async with asyncio.timeout(_CHECK_INTERVAL):
                    await connection.over.wait()
            except TimeoutError:
                pass
            else:
                raise ConnectionError("the broker closed the connection that receives events")
            await connection.check()
            now = monotonic()
            if connection.answers:
                answered_at = now
            elif now - answered_at > _REPLACE_AFTER:
                raise ConnectionError("the broker does not answer on the connection that receives events")
            if self._hub.has_viewers.is_set():
                seen_at = now

    def _broker(self, queue: RabbitQueue) -> RabbitBroker:
        broker = RabbitBroker(
            pick_host(self._url),
            timeout=_CONNECT_TIMEOUT,
            default_channel=Channel(prefetch_count=_PREFETCH, publisher_confirms=False),
            logger=None,
            apply_types=False,
        )

        async def decode(message: StreamMessage[aio_pika.IncomingMessage]) -> Any:
            raw = message.raw_message
            return topics_of(raw.routing_key or "", raw.body, self._hub.watched)

        async def publish(topics: set[str]) -> None:
            self.received_count += 1
            self._hub.publish(topics)

        subscriber = broker.subscriber(queue, ack_policy=AckPolicy.ACK_FIRST, decoder=decode, no_reply=True)
        subscriber(_untyped(publish))
        # A subscriber drops messages that arrive before its start returns, and leaves them unacknowledged.
        subscriber.running = True
        return broker


def _untyped(publish: Any) -> Any:
    """Hide the types from FastStream, which would make a model of them."""

    async def handle(topics: Any) -> Any:
        return await publish(topics)

    return handle
