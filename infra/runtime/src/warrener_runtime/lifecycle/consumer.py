"""Work that comes from a queue."""

import asyncio
from collections.abc import Awaitable, Callable

from warrener_runtime.backoff import Backoff
from warrener_runtime.bus.port import Bus, Delivery, Subscription
from warrener_runtime.clock import Clock, SystemClock
from warrener_runtime.lifecycle.component import Managed, being_cancelled, cancel
from warrener_runtime.lifecycle.hearing import Hearing, HearingTest
from warrener_runtime.lifecycle.vitals import Deaf, NotReady, vitals_here
from warrener_runtime.logs import get_logger

log = get_logger("consumer")

Handle = Callable[[Subscription, list[Delivery]], Awaitable[None]]

DEAF_AFTER = 15.0
GIVE_UP_AFTER = 120.0


class Consumer(Managed):
    """Hands the batches of one queue to `handle`, which settles them (ack, reject) on the subscription.

    A batch whose handling fails is tried again in place, with a growing pause, until it succeeds or we are stopped:
    it is never given back by reject, as that counts towards the delivery limit and an outage of the store would
    bury good work. What is not settled when we stop goes back to the queue by itself.

    Never deaf without notice: a subscription that is not live for `deaf_after` seconds makes the service not ready,
    and after `give_up_after` ends the process, so that its supervisor starts a fresh one.
    """

    def __init__(
        self,
        name: str,
        bus: Bus,
        queue: str,
        prefetch: int,
        handle: Handle,
        *,
        clock: Clock | None = None,
        deaf_after: float = DEAF_AFTER,
        give_up_after: float = GIVE_UP_AFTER,
    ) -> None:
        super().__init__(name)
        self._bus = bus
        self._queue = queue
        self._prefetch = prefetch
        self._handle = handle
        self._clock = clock or SystemClock()
        self._ears = HearingTest(deaf_after, give_up_after)
        self._hearing = Hearing.WELL
        self._listen_every = min(1.0, deaf_after / 4)
        self._backoff = Backoff()
        self._trouble: str | None = None
        self._leaving = False
        self._pausing = False
        self._subscription: Subscription | None = None
        self._work: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def live(self) -> bool:
        """Whether the broker delivers to us now."""
        return self._subscription is not None and self._subscription.live

    async def check(self) -> None:
        """Raise NotReady if nothing is heard, or what is heard cannot be handled."""
        if self._hearing is not Hearing.WELL or (self._subscription is None and self.started):
            raise NotReady(f"nothing is heard from queue {self._queue}")
        if self._trouble:
            raise NotReady(f"messages of queue {self._queue} cannot be handled: {self._trouble}")

    async def _on_start(self) -> None:
        self._leaving = False
        self._hearing = Hearing.WELL
        self._subscription = await self._subscribe()
        self._work = asyncio.create_task(self._run(), name=self.name)
        self._watch = asyncio.create_task(self._listen(), name=f"{self.name} hearing")
        if vitals := vitals_here.get():
            vitals.watch(self.name, self.check)

    async def _on_drain(self) -> None:
        self._leaving = True
        if self._subscription is not None:
            await self._subscription.stop()
        if self._work is not None:
            if self._pausing:  # a batch that waits to be tried again goes back by itself
                self._work.cancel()
            await asyncio.wait({self._work})

    async def _on_stop(self) -> None:
        self._leaving = True
        if vitals := vitals_here.get():
            vitals.forget(self.name)
        await cancel(self._watch)
        await cancel(self._work)
        subscription, self._subscription = self._subscription, None
        self._work = self._watch = None
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
                    await self._until_handled(subscription, batch)
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

    async def _until_handled(self, subscription: Subscription, batch: list[Delivery]) -> None:
        while True:
            try:
                await self._handle(subscription, batch)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and being_cancelled():
                    raise
                delay = self._note_failure(error, batch)
            else:
                self._note_success()
                return
            if self._leaving:
                return
            await self._pause(delay)

    def _note_failure(self, error: BaseException, batch: list[Delivery]) -> float:
        delay = self._backoff.failed()
        self._trouble = f"{type(error).__name__}: {error}"
        log.exception(
            "Messages could not be handled; the same ones are tried again after a pause.",
            action="consumer.handling_failed",
            consumer=self.name,
            queue=self._queue,
            messages=len(batch),
            failures=self._backoff.failures,
            pause=delay,
        )
        return delay

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

    async def _listen(self) -> None:
        while True:
            hearing = self._ears.observe(live=self.live, now=self._clock.monotonic())
            if hearing is not self._hearing:
                self._hearing = hearing
                self._say(hearing)
            await self._clock.sleep(self._listen_every)

    def _say(self, hearing: Hearing) -> None:
        if hearing is Hearing.WELL:
            log.info(
                "The queue is heard again.",
                action="consumer.hears",
                consumer=self.name,
                queue=self._queue,
            )
            return
        log.error(
            "Nothing is heard from a queue; the service is not ready.",
            action="consumer.deaf",
            consumer=self.name,
            queue=self._queue,
            hearing=hearing.value,
        )
        if hearing is Hearing.LOST and (vitals := vitals_here.get()):
            vitals.give_up(Deaf(f"{self.name} has heard nothing from queue {self._queue} for too long"))
