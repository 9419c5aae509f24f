"""Work that comes from a queue."""

import asyncio
from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import Backoff
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle.component import Managed, being_cancelled, cancel
from warrener_runtime.lifecycle.hearing import DEAF_AFTER, HearingWatch
from warrener_runtime.lifecycle.portions import portions
from warrener_runtime.lifecycle.streak import Streak
from warrener_runtime.lifecycle.supply import DOUBTFUL_AFTER, SupplyWatch
from warrener_runtime.lifecycle.vitals import NotReady, Vitals, vitals_here
from warrener_runtime.logs import get_logger

log = get_logger("consumer")

Handle = Callable[[Subscription, list[Delivery]], Awaitable[None]]
Probe = Callable[[], Awaitable[None]]

_LAST_PAUSE = 0.1
_LONGER, _LONGEST = 4, 5
GIVE_BACK_TIMEOUT = 5.0  # longer than a restart of a database takes that is waited for in place


class Consumer(Managed):
    """Hands the batches of one queue to `handle`, which settles them (ack, reject) on the subscription.

    A batch whose handling fails is tried again in place, with a growing pause, and the service is not ready
    meanwhile. Where there is a `probe` and that goes on for `give_back_timeout` seconds, the subscription is
    closed: all that is not settled goes back to the queue, where other replicas find it. Once `probe`
    succeeds, it is consumed again. Brokers count that as a delivery, so it takes four times as long the next
    time, until something succeeds. It is never given back by reject: that counts for each message and each
    try, and an outage of the store would bury good work. So `handle` must be repeatable, and judge each
    message by itself: what it raises is taken for an outage. What is not settled when we stop goes back too.
    Started means that the queue is consumed. See HearingWatch for the deaf, SupplyWatch for those who seem to
    hear and get nothing.

    `at_once`: `handle` gets at most so many messages, and not too many bytes (`portions`). With a prefetch of
    twice that, the next ones arrive while it works. None: all that has arrived.

    `own_queue`: nobody else declares it, so a long silence is no reason to consume anew (see `supply`).
    """

    def __init__(
        self,
        name: str,
        bus: Bus,
        queue: str,
        prefetch: int,
        handle: Handle,
        *,
        at_once: int | None = None,
        clock: Clock | None = None,
        deaf_after: float = DEAF_AFTER,
        give_up_after: float | None = None,
        own_queue: bool = False,
        give_back_timeout: float | None = None,
        probe: Probe | None = None,
    ) -> None:
        super().__init__(name)
        self._bus = bus
        self._queue = queue
        self._prefetch = prefetch
        self._handle = handle
        self._at_once = at_once
        self._clock = clock or SystemClock()
        self._give_back_timeout = give_back_timeout
        self._probe = probe
        self._gave_back = 0  # how often since the last success
        self.away = False
        """True while nothing is consumed by our own choice: what came could not be handled."""
        self._streak = Streak(log, consumer=name, queue=queue)
        self._ears = HearingWatch(
            name,
            lambda: self.live or self.away,
            clock=self._clock,
            deaf_after=deaf_after,
            give_up_after=give_up_after,
        )
        self._supply = SupplyWatch(
            name,
            bus,
            queue,
            lambda: self._subscription,
            self._clock,
            doubtful_after=None if own_queue else DOUBTFUL_AFTER,
        )
        self._vitals: Vitals | None = None
        self._backoff = Backoff()
        self._trouble: str | None = None
        self._leaving = False
        self._pausing = False
        self._subscription: Subscription | None = None
        self._subscriptions = 0  # how many were made
        self._work: asyncio.Task[None] | None = None

    @property
    def live(self) -> bool:
        """Whether the broker delivers to us now."""
        return self._subscription is not None and self._subscription.live and not self._supply.starves

    @property
    def epoch(self) -> tuple[int, int]:
        """Changes whenever what we consume by was lost, however quickly it came back."""
        return self._subscriptions, self._subscription.epoch if self._subscription is not None else 0

    async def check(self) -> None:
        """Raise NotReady if what is heard cannot be handled."""
        if self._trouble:
            meanwhile = "; they were given back" if self.away else ""
            raise NotReady(f"messages of queue {self._queue} cannot be handled: {self._trouble}{meanwhile}")

    async def _on_start(self) -> None:
        self._leaving = False
        self._vitals = vitals_here.get()
        self._subscription = await self._subscribe()
        self._work = asyncio.create_task(self._run(), name=self.name)
        await self._ears.start()
        await self._supply.start()
        if self._vitals:
            self._vitals.watch(self.name, self.check)

    async def _on_drain(self) -> None:
        self._leaving = True
        if self._subscription is not None:
            await self._subscription.stop()
        if self._work is not None:
            # A batch that waits to be tried again goes back by itself; without a subscription there is none.
            if self._pausing or self._subscription is None:
                self._work.cancel()
            await asyncio.wait({self._work})

    async def _on_stop(self) -> None:
        self._leaving = True
        if self._vitals:
            self._vitals.forget(self.name)
        await self._ears.stop()
        await self._supply.stop()
        await cancel(self._work)
        subscription, self._subscription = self._subscription, None
        self._work = None
        self._trouble = None
        if subscription is not None:
            await subscription.stop()

    async def _run(self) -> None:
        while not self._leaving:
            subscription = self._subscription
            if subscription is None:
                subscription = self._subscription = await self._subscribe()
            try:
                async for batch in subscription:
                    if not await self._in_portions(subscription, batch):
                        break
            except Exception as error:  # noqa: BLE001 - whatever it is, it is begun again
                self._streak.failed(
                    error,
                    "Receiving from a queue broke off; it is begun again.",
                    self._clock.monotonic(),
                    action="consumer.broke_off",
                )
            if self._trouble and self._probe is not None and not self._leaving:
                await self._give_back(subscription)
                continue
            self._subscription = None
            if not self._leaving:
                await self._pause(self._backoff.failed())

    async def _subscribe(self) -> Subscription:
        self._subscriptions += 1
        while True:
            try:
                return await self._bus.subscribe(self._queue, prefetch=self._prefetch)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is tried again
                delay = self._backoff.failed()
                self._streak.failed(
                    error,
                    "A queue cannot be consumed yet; trying again.",
                    self._clock.monotonic(),
                    action="consumer.subscribe_failed",
                    pause=delay,
                )
                await self._pause(delay)

    async def _in_portions(self, subscription: Subscription, batch: list[Delivery]) -> bool:
        for portion in portions(batch, self._at_once) if self._at_once else [batch]:
            if not await self._until_handled(subscription, portion):
                return False
        return True

    async def _until_handled(self, subscription: Subscription, batch: list[Delivery]) -> bool:
        """False: it goes back to the queue, as we leave or have tried for long enough."""
        began, tries = self._clock.monotonic(), 0
        while True:
            tries += 1
            try:
                await self._handle(subscription, batch)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and being_cancelled():
                    raise
                self._trouble = f"{type(error).__name__}: {error}"
                self._streak.failed(
                    error,
                    "Messages could not be handled; the same ones are tried again after a pause.",
                    self._clock.monotonic(),
                    action="consumer.handling_failed",
                    messages=len(batch),
                )
            else:
                self._note_success()
                return True
            if self._leaving:
                return False
            pause = self._backoff.failed()
            if self._probe is not None:
                left = began + self._patience - self._clock.monotonic()
                if left <= 0 and tries > 1:
                    return False
                pause = min(pause, max(left, _LAST_PAUSE))
            await self._pause(pause)

    @property
    def _patience(self) -> float:
        """Seconds for which a batch is tried."""
        first = self._give_back_timeout
        if first is None:
            first = self._vitals.give_back_timeout if self._vitals else GIVE_BACK_TIMEOUT
        return float(first * _LONGER ** min(self._gave_back, _LONGEST))

    async def _give_back(self, subscription: Subscription) -> None:
        """Let others have what came, and wait until it could be handled here."""
        assert self._probe is not None, "without one nothing is given back"
        self.away = True
        self._gave_back += 1
        try:
            log.warning(
                "What cannot be handled is given back; the queue is consumed again when that helps.",
                action="consumer.gave_back",
                consumer=self.name,
                queue=self._queue,
                trouble=self._trouble,
            )
            self._subscription = None
            await subscription.close()
            await self._pause(self._backoff.failed())
            while not await self._well(self._probe):
                await self._pause(self._backoff.failed())
            self._subscription = await self._subscribe()
            self._trouble = None  # until something cannot be handled: nothing else may ever come
        finally:
            self.away = False

    async def _well(self, probe: Probe) -> bool:
        try:
            await probe()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is asked again
            self._trouble = f"{type(error).__name__}: {error}"
            return False
        return True

    def _note_success(self) -> None:
        self._streak.over(
            "Messages can be handled again.", self._clock.monotonic(), action="consumer.recovered"
        )
        self._trouble = None
        self._gave_back = 0
        self._backoff.succeeded()

    async def _pause(self, seconds: float) -> None:
        self._pausing = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self._pausing = False
