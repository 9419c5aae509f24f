"""Work that comes from a queue."""

import asyncio
from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import Backoff
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle.component import Managed, being_cancelled, cancel
from warrener_runtime.lifecycle.hearing import DEAF_AFTER, HearingWatch
from warrener_runtime.lifecycle.portions import portions
from warrener_runtime.lifecycle.supply import DOUBTFUL_AFTER, SupplyWatch
from warrener_runtime.lifecycle.vitals import NotReady, Vitals, vitals_here
from warrener_runtime.logs import get_logger

log = get_logger("consumer")

Handle = Callable[[Subscription, list[Delivery]], Awaitable[None]]


class Consumer(Managed):
    """Hands the batches of one queue to `handle`, which settles them (ack, reject) on the subscription.

    A batch whose handling fails is tried again in place, with a growing pause, until it succeeds or we are
    stopped, and the service is not ready meanwhile. It is never given back by reject: that counts towards the
    delivery limit, and an outage of the store would bury good work. So `handle` must be repeatable, and judge
    each message by itself: what it raises is taken for an outage. What is not settled when we stop goes back
    to the queue by itself. Started means that the queue is consumed. See HearingWatch for the deaf,
    SupplyWatch for those who seem to hear and get nothing.

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
    ) -> None:
        super().__init__(name)
        self._bus = bus
        self._queue = queue
        self._prefetch = prefetch
        self._handle = handle
        self._at_once = at_once
        self._clock = clock or SystemClock()
        self._ears = HearingWatch(
            name, lambda: self.live, clock=self._clock, deaf_after=deaf_after, give_up_after=give_up_after
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
            raise NotReady(f"messages of queue {self._queue} cannot be handled: {self._trouble}")

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
                    await self._in_portions(subscription, batch)
            except Exception:
                log.exception(
                    "Receiving from a queue broke off; it is begun again.",
                    action="consumer.broke_off",
                    consumer=self.name,
                    queue=self._queue,
                )
            self._subscription = None
            if not self._leaving:
                await self._pause(self._backoff.failed())

    async def _subscribe(self) -> Subscription:
        self._subscriptions += 1
        while True:
            try:
                return await self._bus.subscribe(self._queue, prefetch=self._prefetch)
            except Exception:
                delay = self._backoff.failed()
                log.exception(
                    "A queue cannot be consumed yet; trying again.",
                    action="consumer.subscribe_failed",
                    consumer=self.name,
                    queue=self._queue,
                    pause=delay,
                )
                await self._pause(delay)

    async def _in_portions(self, subscription: Subscription, batch: list[Delivery]) -> None:
        for portion in portions(batch, self._at_once) if self._at_once else [batch]:
            if not await self._until_handled(subscription, portion):
                return

    async def _until_handled(self, subscription: Subscription, batch: list[Delivery]) -> bool:
        """False: we leave, and it goes back to the queue."""
        while True:
            try:
                await self._handle(subscription, batch)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and being_cancelled():
                    raise
                log.exception(
                    "Messages could not be handled; the same ones are tried again after a pause.",
                    action="consumer.handling_failed",
                    consumer=self.name,
                    queue=self._queue,
                    messages=len(batch),
                    failures=self._backoff.failures + 1,
                )
                self._trouble = f"{type(error).__name__}: {error}"
            else:
                self._note_success()
                return True
            if self._leaving:
                return False
            await self._pause(self._backoff.failed())

    def _note_success(self) -> None:
        if self._trouble:
            log.info(
                "Messages can be handled again.",
                action="consumer.recovered",
                consumer=self.name,
                queue=self._queue,
                failures=self._backoff.failures,
            )
        self._trouble = None
        self._backoff.succeeded()

    async def _pause(self, seconds: float) -> None:
        self._pausing = True
        try:
            await self._clock.sleep(seconds)
        finally:
            self._pausing = False
