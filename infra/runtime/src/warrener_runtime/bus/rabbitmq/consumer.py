"""A consumer of one queue that outlives its channels."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import takewhile
from operator import attrgetter

from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.bus.port import TopologyMismatch
from warrener_runtime.bus.rabbitmq import channels
from warrener_runtime.bus.rabbitmq.connection import ReconnectingConnection
from warrener_runtime.bus.rabbitmq.topology import DeclaredTopology
from warrener_runtime.bus.subscriptions import BufferedSubscription, DeliveryBuffer
from warrener_runtime.bus.types import Delivery
from warrener_runtime.logs import get_logger

_tag_of: Callable[[Delivery], int] = attrgetter("tag")
_log = get_logger(__name__)
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_STABLE_AFTER = 2.0  # seconds; a consumer that lived this long was healthy


def plan_acks(unsettled: Collection[int], done: Collection[int]) -> channels.AckPlan:
    """Plan one range and a few single acknowledgements in place of one for each tag in `done`.

    `unsettled` has all tags in ascending order, `done` among them. A range acknowledges every unsettled tag
    below its end, so it ends before the first tag that is not done.
    """
    if len(done) == len(unsettled) > 1:
        return channels.AckPlan(max(done), [])
    first = list(takewhile(done.__contains__, unsettled))
    if len(first) <= 1:
        return channels.AckPlan(None, sorted(done))
    return channels.AckPlan(first[-1], sorted(tag for tag in done if tag > first[-1]))


class ConsumerSession:
    """One life of a consumer, from opening a channel to losing it: its unsettled deliveries. Tags are
    valid in it alone."""

    def __init__(self, epoch: int, buffer: DeliveryBuffer) -> None:
        self.epoch = epoch
        self._buffer = buffer
        self._gone = asyncio.Event()
        self.channel: channels.ConsumerChannel | None = None
        self.unsettled: dict[int, None] = {}  # tags as they came, so ascending
        self.received_count = 0

    @property
    def is_over(self) -> bool:
        """True if the broker no longer delivers to it."""
        return self._gone.is_set() or self.channel is None or not self.channel.live

    def on_opened(self, channel: channels.ConsumerChannel) -> None:
        self.channel = channel

    def on_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        if not self._gone.is_set():
            self.unsettled.update(dict.fromkeys(map(_tag_of, deliveries)))
            self._buffer.put(deliveries)
            self.received_count += len(deliveries)

    def on_gone(self) -> None:
        """End the session; the broker redelivers the unsettled messages."""
        self._gone.set()

    async def end(self) -> None:
        await self._gone.wait()

    def take(self, deliveries: Iterable[Delivery]) -> set[int]:
        """Select the tags of this session that are still to settle."""
        epoch, unsettled = self.epoch, self.unsettled
        return {one.tag for one in deliveries if one.epoch == epoch and one.tag in unsettled}

    def settled(self, tags: Collection[int]) -> None:
        if len(tags) == len(self.unsettled):
            self.unsettled.clear()
            return
        for tag in tags:
            del self.unsettled[tag]


class RabbitSubscription(BufferedSubscription):
    """Consumes again after the loss of its channel, connection, broker or queue."""

    def __init__(
        self,
        queue: str,
        prefetch: int,
        connection: ReconnectingConnection,
        declared: DeclaredTopology,
        on_resubscribed: Callable[[str], None],
        *,
        on_refused: Callable[[str], None],
        convert: Callable[[Delivery], Delivery] | None = None,
    ) -> None:
        self._queue = queue
        self._prefetch = prefetch
        self._connection = connection
        self._declared = declared
        self._on_resubscribed, self._on_refused = on_resubscribed, on_refused
        super().__init__(convert)
        self._session = ConsumerSession(0, self._buffer)
        self._received_before = 0  # in earlier sessions
        self._backoff = ExponentialBackoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._first_attempt_done = asyncio.Event()
        self._stopped = False
        self._resubscribing = False
        self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"consume {queue}")

    @property
    def live(self) -> bool:
        """True if the broker delivers to it now, as far as can be known before the next heartbeat."""
        is_consuming = self._resubscribing or not self._session.is_over
        return self._connection.is_open and is_consuming and not self._stopped

    @property
    def epoch(self) -> int:
        return self._session.epoch

    @property
    def received_count(self) -> int:
        return self._received_before + self._session.received_count

    @property
    def has_capacity(self) -> bool:
        return len(self._session.unsettled) < self._prefetch

    @property
    def nothing_unacked(self) -> bool:
        return not self._session.unsettled

    @property
    def closed(self) -> bool:
        return self._runner.done()

    def resubscribe(self) -> None:
        self._resubscribing = True
        self._session.on_gone()

    async def wait_first_attempt(self) -> None:
        """Wait until it consumes, or has failed to for the first time (retries go on)."""
        await self._first_attempt_done.wait()

    # -- for its user --------------------------------------------------------------------------------------

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        session = self._session
        tags = session.take(deliveries)
        if tags and session.channel is not None:
            plan = plan_acks(session.unsettled, tags)
            session.settled(tags)
            with contextlib.suppress(channels.BrokerConnectionLost):  # then it is redelivered
                await session.channel.ack(plan)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        session = self._session
        tags = session.take(deliveries)
        if tags and session.channel is not None:
            session.settled(tags)
            with contextlib.suppress(channels.BrokerConnectionLost):
                await session.channel.reject(sorted(tags), requeue=requeue)

    async def stop(self) -> None:
        if self._stopped:
            return
        self._stopped = True
        channel = self._session.channel
        if channel is None or self._session.is_over:
            self._runner.cancel()
        else:
            with contextlib.suppress(channels.BrokerConnectionLost):
                await channel.cancel()
        self._buffer.end()

    async def close(self) -> None:
        self._stopped = True
        self._buffer.end()
        self._runner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._runner

    # -- inside --------------------------------------------------------------------------------------------

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
        """Consume until the session ends; return the reason."""
        session = ConsumerSession(self._session.epoch + 1, self._buffer)
        try:
            client = await self._connection.wait_connected()
            is_first = session.epoch == 1
            await self._declared.ensure_queue(client, self._queue, look=not is_first)
            self._received_before, self._session = self.received_count, session
            consumer = await client.open_consumer(
                self._declared.broker_name(self._queue), self._prefetch, session
            )
            if self._resubscribing:
                self._on_resubscribed(self._queue)
        except (channels.BrokerConnectionLost, TopologyMismatch, channels.RequestRefused) as error:
            self._forget(session)
            self._on_refused(str(error))
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
        """Drop its deliveries, which come again under other tags."""
        session.on_gone()
        session.unsettled.clear()
        self._buffer.clear()
