"""A consumer of one queue that outlives its channels."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterable

from warrener_runtime.backoff import Backoff
from warrener_runtime.bus.arrivals import Arrivals
from warrener_runtime.bus.port import Delivery, TopologyMismatch
from warrener_runtime.bus.rabbit.declarations import Declarations
from warrener_runtime.bus.rabbit.intake import Intake
from warrener_runtime.bus.rabbit.life import Life
from warrener_runtime.bus.rabbit.link import Link
from warrener_runtime.bus.rabbit.settling import plan_acks
from warrener_runtime.bus.rabbit.wire import LinkLost, Refused
from warrener_runtime.logs import get_logger

_log = get_logger(__name__)

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_LONG_ENOUGH = 2.0  # seconds; a consumer that lived this long was well


class RabbitSubscription:
    """Consumes again after whatever ended its consumer: channel, connection, broker, or the queue itself."""

    def __init__(self, queue: str, intake: Intake, link: Link, declarations: Declarations) -> None:
        self._queue = queue
        self._intake = intake
        self._link = link
        self._declarations = declarations
        self._arrivals = Arrivals()
        self._life = Life(0, self._arrivals)
        self._heard_before = 0  # in earlier lives
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._tried = asyncio.Event()
        self._stopped = False
        self._renewing = False
        self._runner = asyncio.get_running_loop().create_task(self._run(), name=f"consume {queue}")

    @property
    def live(self) -> bool:
        """Whether the broker delivers to it now, as far as can be known before the next heartbeat."""
        return self._link.up and (self._consuming or self._renewing) and not self._stopped

    @property
    def epoch(self) -> int:
        """Which of its lives it is in."""
        return self._life.epoch

    @property
    def heard(self) -> int:
        """How many deliveries have ever arrived."""
        return self._heard_before + self._life.heard

    @property
    def has_room(self) -> bool:
        """Whether the broker may deliver one more."""
        return len(self._life.unsettled) < self._intake.prefetch

    @property
    def empty_handed(self) -> bool:
        """Whether nothing that has arrived is unacknowledged."""
        return not self._life.unsettled

    @property
    def closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._runner.done()

    def renew(self) -> None:
        """Give up the channel, and consume by another one at once."""
        self._renewing = True
        self._life.gone()

    async def tried(self) -> None:
        """Wait until it consumes, or has failed to for the first time (it goes on trying)."""
        await self._tried.wait()

    # -- what its user does with it ------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[list[Delivery]]:
        return self

    async def __anext__(self) -> list[Delivery]:
        """All that has arrived since the last batch."""
        batch = await self._arrivals.batch()
        if not batch:
            raise StopAsyncIteration
        return batch

    async def ack(self, deliveries: Iterable[Delivery]) -> None:
        """Done with these, in one write; those of an earlier epoch are passed over."""
        life = self._life
        tags = life.take(deliveries)
        if tags and life.channel is not None:
            plan = plan_acks(life.unsettled, tags)
            life.settled(tags)
            with contextlib.suppress(LinkLost):  # then it is redelivered
                await life.channel.ack(plan)

    async def reject(self, deliveries: Iterable[Delivery], *, requeue: bool) -> None:
        """Give them back, or dead-letter them, in one write."""
        life = self._life
        tags = life.take(deliveries)
        if tags and life.channel is not None:
            life.settled(tags)
            with contextlib.suppress(LinkLost):
                await life.channel.reject(sorted(tags), requeue=requeue)

    async def stop(self) -> None:
        """Receive no more; what has arrived is still handed out, and may be settled until the bus closes."""
        if self._stopped:
            return
        self._stopped = True
        channel = self._life.channel
        if channel is None or self._life.over:
            self._runner.cancel()
        else:
            with contextlib.suppress(LinkLost):
                await channel.cancel()
        self._arrivals.end()

    async def close(self) -> None:
        """Stop at once, and let what is unsettled go back."""
        self._stopped = True
        self._arrivals.end()
        self._runner.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._runner

    # -- inside --------------------------------------------------------------------------------------------

    @property
    def _consuming(self) -> bool:
        life = self._life
        return not life.over

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopped:
            began = loop.time()
            reason = await self._live_once()
            self._tried.set()
            if self._stopped:
                return
            if self._renewing:
                continue
            if loop.time() - began > _LONG_ENOUGH:
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

    async def _live_once(self) -> str:
        """Consume until it is over; why it is."""
        life = Life(self._life.epoch + 1, self._arrivals)
        try:
            connection = await self._link.connected()
            await self._declarations.restore_queue(connection, self._queue)
            self._heard_before, self._life = self.heard, life
            consumer = await self._intake.open(connection, life)
        except (LinkLost, TopologyMismatch, Refused) as error:
            self._forget(life)
            return str(error)
        finally:
            self._renewing = False
        try:
            self._tried.set()
            await life.end()
            return "the broker closed the channel or cancelled the consumer"
        finally:
            self._forget(life)
            await consumer.close()

    def _forget(self, life: Life) -> None:
        """What it received comes again; tags of it are worth nothing."""
        life.gone()
        life.unsettled.clear()
        self._arrivals.forget()
