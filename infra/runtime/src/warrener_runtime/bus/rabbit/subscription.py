"""A consumer of one queue that outlives its channels."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.delivery_buffer import DeliveryBuffer
from warrener_runtime.bus.port import Delivery, TopologyMismatch
from warrener_runtime.bus.rabbit.ack_plan import plan_acks
from warrener_runtime.bus.rabbit.broker_client import BrokerConnectionLost, RequestRefused
from warrener_runtime.bus.rabbit.consumer_factory import ConsumerFactory
from warrener_runtime.bus.rabbit.consumer_session import ConsumerSession
from warrener_runtime.bus.rabbit.declared_topology import DeclaredTopology
from warrener_runtime.bus.rabbit.reconnecting_connection import ReconnectingConnection
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_STABLE_AFTER = 2.0  # seconds; a consumer that lived this long was well


class RabbitSubscription:
    """Consumes again after whatever ended its consumer: channel, connection, broker, or the queue itself."""

    def __init__(
        self,
        queue: str,
        factory: ConsumerFactory,
        connection: ReconnectingConnection,
        declared: DeclaredTopology,
    ) -> None:
        self._queue = queue
        self._factory = factory
        self._connection = connection
        self._declared = declared
        self._buffer = DeliveryBuffer()
        self._session = ConsumerSession(0, self._buffer)
        self._received_before = 0  # in earlier lives
        self._backoff = ExponentialBackoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._first_attempt_done = asyncio.Event()
        self._stopped = False
        self._resubscribing = False
        self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"consume {queue}")

    @property
    def live(self) -> bool:
        """Whether the broker delivers to it now, as far as can be known before the next heartbeat."""
        return self._connection.is_open and (self._is_consuming or self._resubscribing) and not self._stopped

    @property
    def epoch(self) -> int:
        """Which of its lives it is in."""
        return self._session.epoch

    @property
    def received_count(self) -> int:
        """How many deliveries have ever arrived."""
        return self._received_before + self._session.received_count

    @property
    def has_capacity(self) -> bool:
        """Whether the broker may deliver one more."""
        return len(self._session.unsettled) < self._factory.prefetch

    @property
    def nothing_unacked(self) -> bool:
        """Whether nothing that has arrived is unacknowledged."""
        return not self._session.unsettled

    @property
    def closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._runner.done()

    def resubscribe(self) -> None:
        """Give up the channel, and consume by another one at once."""
        self._resubscribing = True
        self._session.on_gone()

    async def wait_first_attempt(self) -> None:
        """Wait until it consumes, or has failed to for the first time (it goes on trying)."""
        await self._first_attempt_done.wait()

    # -- what its user does with it ------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        """All that has arrived since the last batch."""
        batch = await self._buffer.batch()
        if not batch:
            raise StopAsyncIteration
        return batch

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Done with these, in one write; those of an earlier epoch are passed over."""
        session = self._session
        tags = session.take(deliveries)
        if tags and session.channel is not None:
            plan = plan_acks(session.unsettled, tags)
            session.settled(tags)
            with contextlib.suppress(BrokerConnectionLost):  # then it is redelivered
                await session.channel.ack(plan)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        """Give them back, or dead-letter them, in one write."""
        session = self._session
        tags = session.take(deliveries)
        if tags and session.channel is not None:
            session.settled(tags)
            with contextlib.suppress(BrokerConnectionLost):
                await session.channel.reject(sorted(tags), requeue=requeue)

    async def stop(self) -> None:
        """Receive no more; what has arrived is still handed out, and may be settled until the bus closes."""
        if self._stopped:
            return
        self._stopped = True
        channel = self._session.channel
        if channel is None or self._session.is_over:
            self._runner.cancel()
        else:
            with contextlib.suppress(BrokerConnectionLost):
                await channel.cancel()
        self._buffer.end()

    async def close(self) -> None:
        """Stop at once, and let what is unsettled go back."""
        self._stopped = True
        self._buffer.end()
        self._runner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._runner

    # -- inside --------------------------------------------------------------------------------------------

    @property
    def _is_consuming(self) -> bool:
        session = self._session
        return not session.is_over

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped:
            began = loop.time()
            reason = await self._consume_once()
            self._first_attempt_done.set()
            if self._stopped:
                return
            if self._resubscribing:
                continue
            if loop.time() - began > _STABLE_AFTER:
                self._backoff.succeeded()
            pause = random.uniform(0, self._backoff.failed())  # noqa: S311 - it spreads retries
            _log.warning(
                "A consumer was lost; consuming again.",
                action="bus.consumer_lost",
                queue=self._queue,
                reason=reason,
                pause=round(pause, 2),
            )
            await asyncio.sleep(pause)

    async def _consume_once(self) -> str:
        """Consume until it is over; why it is."""
        session = ConsumerSession(self._session.epoch + 1, self._buffer)
        try:
            client = await self._connection.wait_connected()
            await self._declared.restore_queue(client, self._queue)
            self._received_before, self._session = self.received_count, session
            consumer = await self._factory.open(client, session)
        except (BrokerConnectionLost, TopologyMismatch, RequestRefused) as error:
            self._forget(session)
            return str(error)
        finally:
            self._resubscribing = False
        try:
            self._first_attempt_done.set()
            await session.end()
            return "the broker closed the channel or cancelled the consumer"
        finally:
            self._forget(session)
            await consumer.close()

    def _forget(self, session: ConsumerSession) -> None:
        """What it received comes again; tags of it are worth nothing."""
        session.on_gone()
        session.unsettled.clear()
        self._buffer.clear()
