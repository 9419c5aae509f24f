"""Work that comes from a queue."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator

from warrener_runtime.backoff import ExponentialBackoff, FailureStreak
from warrener_runtime.bus.port import Bus, Subscription
from warrener_runtime.bus.types import Delivery
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.health import NotReady
from warrener_runtime.lifecycle.components import ManagedComponent, cancel, is_being_cancelled
from warrener_runtime.lifecycle.consumer_health import ConsumerMonitor
from warrener_runtime.lifecycle.crashed_readers import is_suspect
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry.metric_names import BATCH_SIZE, CONSUMED_MESSAGES, PROCESS_DURATION
from warrener_runtime.telemetry.metrics import Metrics

CHUNK_BYTES = 512 * 1024
"""Size of a chunk: a message may hold many events, so its cost goes by bytes rather than by messages."""

log = get_logger("consumer")
Handle = Callable[[Subscription, list[Delivery]], Awaitable[None]]
Probe = Callable[[], Awaitable[None]]
IsHeavy = Callable[[Delivery], bool]
_LAST_PAUSE = 0.1
_WINDOW_FACTOR, _MAX_WINDOW_DOUBLINGS = 4, 5
_SETTLE_TIME, _ROOM_INTERVAL = 5.0, 0.2
RELEASE_TIMEOUT = 5.0  # seconds; a restart of a database is shorter and waited for in place


def split_into_chunks(batch: Iterable[Delivery], max_messages: int) -> Iterator[list[Delivery]]:
    """Split a batch, in order, into chunks of at most `max_messages` messages and CHUNK_BYTES; a larger
    message is a chunk of its own. Pure."""
    part: list[Delivery] = []
    size = 0
    for delivery in batch:
        if part and (len(part) >= max_messages or size + len(delivery.body) > CHUNK_BYTES):
            yield part
            part, size = [], 0
        part.append(delivery)
        size += len(delivery.body)
    if part:
        yield part


class Consumer(ManagedComponent):
    """Hands the batches of one queue to `handle`, which settles them (ack, reject) on the subscription.

    A batch whose handling fails is retried in place, with a growing pause, and the service is not ready
    meanwhile. With a `probe`, after the time of the setting `release_timeout` the subscription is closed:
    unsettled messages go back to the queue, for other replicas. Once `probe` succeeds, the queue is consumed
    again. Brokers count that as a delivery, so the time is four times as long after each return, until a
    success. They are not returned by reject: that counts for each message and each try, and an outage of the
    store would bury good work. So `handle` must be repeatable; IsolatingHandler parks what it cannot handle
    although there is no outage. Unsettled messages go back at a stop too. Started means that the
    queue is consumed. ConsumerMonitor watches for a lost consumer, and for one that seems alive and receives
    nothing.

    `max_batch_size`: maximum messages per call of `handle`, whose bytes are limited too
    (`split_into_chunks`). With a prefetch of twice that, the next ones arrive meanwhile. None: all that has
    arrived.

    `is_heavy`: selects messages that are much work. They are handled one by one beside the others, which do
    not wait for them, so a call of `handle` for one of them may overlap with others. One that cannot be
    handled is returned, behind which others wait; returned often, it is handled among the others.

    `metrics`: messages, batch sizes and, if `measures_processing`, the time that `handle` takes.

    `own_queue`: no other process declares the queue, so a long silence is no reason to resubscribe.
    """

    def __init__(
        self,
        name: str,
        bus: Bus,
        queue: str,
        prefetch: int,
        handle: Handle,
        *,
        max_batch_size: int | None = None,
        clock: Clock | None = None,
        own_queue: bool = False,
        probe: Probe | None = None,
        is_heavy: IsHeavy | None = None,
        metrics: Metrics | None = None,
        measures_processing: bool = True,
    ) -> None:
        super().__init__(name, self.check)
        metrics = metrics or Metrics.disabled()
        # The name of a queue that no other process declares holds an id, which is no label.
        self._destination = queue.rpartition(".")[0] if own_queue else queue
        self._consumed = metrics.counter(CONSUMED_MESSAGES)
        self._batch_size = metrics.histogram(BATCH_SIZE)
        self._process_duration = metrics.histogram(PROCESS_DURATION) if measures_processing else None
        self._bus = bus
        self._queue = queue
        self._prefetch = prefetch
        self._handle = handle
        self._max_batch_size = max_batch_size
        self._clock = clock or SystemClock()
        self._probe = probe
        self._is_heavy = is_heavy
        self._heavy: deque[tuple[Subscription, Delivery]] = deque()
        self._heavy_work: asyncio.Task[None] | None = None
        self._give_back_count = 0  # since the last success
        self.is_paused = False
        """True while nothing is consumed on purpose: messages could not be handled."""
        self._streak = FailureStreak(log, consumer=name, queue=queue)
        self._monitor = ConsumerMonitor(
            name,
            bus,
            queue,
            lambda: self._subscription,
            lambda: self.is_paused,
            clock=self._clock,
            renews_idle=not own_queue,
        )
        self._backoff = ExponentialBackoff()
        self._last_error: str | None = None
        self._is_stopping = False
        self._pausing = False
        self._subscription: Subscription | None = None
        self._subscriptions = 0  # number of subscriptions made
        self._limit = prefetch
        self._room: Callable[[], int] | None = None
        self._settling: list[Subscription] = []
        self._work: asyncio.Task[None] | None = None

    @property
    def live(self) -> bool:
        """True if the broker delivers to us now."""
        return self._subscription is not None and self._subscription.live and not self._monitor.is_starved

    @property
    def epoch(self) -> tuple[int, int]:
        """Changes whenever the consumer was lost, however quickly it came back."""
        return self._subscriptions, self._subscription.epoch if self._subscription is not None else 0

    @property
    def trouble(self) -> str | None:
        """The error of the last try while messages cannot be handled."""
        return self._last_error

    async def check(self) -> None:
        """Raise NotReady if messages cannot be handled."""
        if self._last_error:
            meanwhile = "; they were returned to the queue" if self.is_paused else ""
            raise NotReady(
                f"messages of queue {self._queue} cannot be handled: {self._last_error}{meanwhile}"
            )

    async def resize(self, limit: int, room: Callable[[], int]) -> None:
        """Consume with another prefetch if `limit` has changed; call it now and then.

        What was delivered stays here. The broker delivers again once that is settled, or after a few seconds
        if `room` says for how many messages there is any.
        """
        for settled in [one for one in self._settling if one.nothing_unacked]:
            self._settling.remove(settled)
            await settled.close()
        subscription = self._subscription
        # The subscription that was to be replaced may have ended with the return of its messages.
        is_overdue = self._room is not None and subscription not in self._settling
        if subscription is not None and (limit != self._limit or is_overdue):
            self._limit, self._room = limit, room
            self._settling.append(subscription)
            await subscription.stop()

    async def _on_start(self) -> None:
        self._is_stopping = False
        self._subscription = await self._subscribe()
        self._work = asyncio.create_task(self._run(), name=self.name)
        await self._monitor.start()

    async def _on_drain(self) -> None:
        self._is_stopping = True
        if self._subscription is not None:
            await self._subscription.stop()
        if self._work is not None:
            # A batch that waits for its retry goes back by itself; without a subscription there is none.
            if self._pausing or self._subscription is None:
                self._work.cancel()
            await asyncio.wait({self._work})
        if self._heavy_work is not None:
            if self._pausing:
                self._heavy_work.cancel()
            await asyncio.wait({self._heavy_work})

    async def _on_stop(self) -> None:
        self._is_stopping = True
        await self._monitor.stop()
        await cancel(self._work)
        await cancel(self._heavy_work)
        subscription, self._subscription = self._subscription, None
        self._work = self._heavy_work = None
        self._last_error = None
        if subscription is not None:
            await subscription.stop()

    async def _run(self) -> None:
        while not self._is_stopping:
            subscription = self._subscription
            if subscription is None:
                subscription = self._subscription = await self._subscribe()
            try:
                async for batch in subscription:
                    left = self._set_heavy_aside(subscription, batch)
                    handled = await self._handle_in_chunks(subscription, left)
                    del batch, left  # the next one may come hours later, and its bodies may be large
                    if not handled:
                        break
            except Exception as error:  # noqa: BLE001 - after any error receiving starts again
                self._streak.failed(
                    error,
                    "Receiving from a queue broke off; it starts again.",
                    self._clock.monotonic(),
                    action="consumer.interrupted",
                )
            if self._last_error and self._probe is not None and not self._is_stopping:
                await self._give_back(subscription)
                continue
            self._subscription = None
            if self._is_stopping:
                continue
            if (room := self._room) is not None:
                self._room = None
                await self._wait_for_room(subscription, room)
            else:
                await self._pause(self._backoff.failed())

    async def _wait_for_room(self, before: Subscription, room: Callable[[], int]) -> None:
        self.is_paused, until = True, self._clock.monotonic() + _SETTLE_TIME
        try:
            while not before.nothing_unacked and self._clock.monotonic() < until:
                await self._pause(_ROOM_INTERVAL)
            while (prefetch := room()) < 1:
                await self._pause(_ROOM_INTERVAL)
            self._prefetch = prefetch
            self._subscription = await self._subscribe()
        finally:
            self.is_paused = False

    async def _subscribe(self) -> Subscription:
        self._subscriptions += 1
        while True:
            try:
                return await self._bus.subscribe(self._queue, prefetch=self._prefetch)
            except Exception as error:  # noqa: BLE001 - any error is retried
                delay = self._backoff.failed()
                self._streak.failed(
                    error,
                    "A queue cannot be consumed yet; retrying.",
                    self._clock.monotonic(),
                    action="consumer.subscribe_failed",
                    pause=delay,
                )
                await self._pause(delay)

    def _set_heavy_aside(self, subscription: Subscription, batch: list[Delivery]) -> list[Delivery]:
        """Return the other messages. A suspected one stays, as its try is recorded while it is handled."""
        is_heavy = self._is_heavy
        if is_heavy is None or not (heavy := [one for one in batch if is_heavy(one) and not is_suspect(one)]):
            return batch
        self._heavy.extend((subscription, one) for one in heavy)
        if self._heavy_work is None or self._heavy_work.done():
            self._heavy_work = asyncio.create_task(self._handle_heavy(), name=f"{self.name} heavy")
        aside = {one.tag for one in heavy}
        return [one for one in batch if one.tag not in aside]

    async def _handle_heavy(self) -> None:
        while self._heavy and not self._is_stopping:
            subscription, delivery = self._heavy[0]
            is_lost = subscription is not self._subscription or delivery.epoch != subscription.epoch
            if not is_lost and not await self._handle_with_retries(subscription, [delivery]):
                if self._is_stopping:
                    return
                await subscription.reject([delivery], requeue=True)
            self._heavy.popleft()  # a lost one comes again

    async def _handle_in_chunks(self, subscription: Subscription, batch: list[Delivery]) -> bool:
        if not batch:
            return True
        for chunk in split_into_chunks(batch, self._max_batch_size) if self._max_batch_size else [batch]:
            if not await self._handle_with_retries(subscription, chunk):
                return False
        return True

    async def _handle_with_retries(self, subscription: Subscription, batch: list[Delivery]) -> bool:
        """Return False if the batch is to go back to the queue: at a stop, or after enough retries."""
        self._consumed.add(len(batch), self._destination)
        self._batch_size.record(len(batch), self._destination)
        began, tries = self._clock.monotonic(), 0
        while True:
            tries += 1
            started = self._clock.monotonic()
            try:
                await self._handle(subscription, batch)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                self._measure(started, type(error).__name__)
                self._last_error = f"{type(error).__name__}: {error}"
                self._streak.failed(
                    error,
                    "Messages could not be handled; the same ones are retried after a pause.",
                    self._clock.monotonic(),
                    action="consumer.handling_failed",
                    messages=len(batch),
                )
            else:
                self._measure(started, "")
                self._record_success()
                return True
            if self._is_stopping:
                return False
            pause = self._backoff.failed()
            if self._probe is not None:
                left = began + self._retry_window - self._clock.monotonic()
                if left <= 0 and tries > 1:
                    return False
                pause = min(pause, max(left, _LAST_PAUSE))
            await self._pause(pause)

    @property
    def _retry_window(self) -> float:
        """Seconds for which a batch is retried."""
        first = self._health_registry.release_timeout if self._health_registry else RELEASE_TIMEOUT
        return float(first * _WINDOW_FACTOR ** min(self._give_back_count, _MAX_WINDOW_DOUBLINGS))

    async def _give_back(self, subscription: Subscription) -> None:
        """Return messages to the queue, and wait until they can be handled here."""
        assert self._probe is not None, "nothing is returned without a probe"
        self.is_paused = True
        self._give_back_count += 1
        try:
            log.warning(
                "Messages that cannot be handled were returned; consuming resumes when the probe succeeds.",
                action="consumer.released",
                consumer=self.name,
                queue=self._queue,
                last_error=self._last_error,
            )
            self._subscription = None
            await subscription.close()
            await self._pause(self._backoff.failed())
            while not await self._probe_succeeds(self._probe):
                await self._pause(self._backoff.failed())
            self._subscription = await self._subscribe()
            self._last_error = None  # the queue may stay empty: the service is ready until the next failure
        finally:
            self.is_paused = False

    async def _probe_succeeds(self, probe: Probe) -> bool:
        try:
            await probe()
        except Exception as error:  # noqa: BLE001 - after any error the probe is repeated
            self._last_error = f"{type(error).__name__}: {error}"
            return False
        return True

    def _measure(self, started: float, error_type: str) -> None:
        if self._process_duration is not None:
            seconds = self._clock.monotonic() - started
            self._process_duration.record(seconds, self._destination, "", error_type)

    def _record_success(self) -> None:
        self._streak.recovered(
            "Messages can be handled again.", self._clock.monotonic(), action="consumer.recovered"
        )
        self._last_error = None
        self._give_back_count = 0
        self._backoff.succeeded()

    async def _pause(self, seconds: float) -> None:
        self._pausing = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self._pausing = False
