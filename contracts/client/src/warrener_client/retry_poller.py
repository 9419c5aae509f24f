"""Asks again for what is still awaited, where its answer may have been lost."""

from collections.abc import Sequence

from warrener_client.errors import ClientError
from warrener_client.pending_requests import PendingRequest
from warrener_client.publisher import RequestPublisher
from warrener_client.reply_router import ReplyRouter
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle import Consumer
from warrener_runtime.logs import get_logger

POLL_INTERVAL = 0.25  # seconds between looks at whether the reply queue was made anew
_CONFIRM_TIMEOUT = 10.0
_BATCH_SIZE = 500

_log = get_logger("client")


class RetryPoller:
    """A request is idempotent by its id, and its repeat is also the question what became of it: so asking
    again is all that is needed after the reply queue was lost, with everything in it."""

    def __init__(
        self,
        consumer: Consumer,
        reply_router: ReplyRouter,
        publisher: RequestPublisher,
        clock: Clock,
        interval: float,
    ) -> None:
        self._consumer, self._reply_router, self._publisher, self._clock = (
            consumer,
            reply_router,
            publisher,
            clock,
        )
        self._interval = interval
        self._epoch: tuple[int, int] | None = None
        self._next_round = clock.monotonic() + interval

    async def tick(self) -> None:
        """One look."""
        is_live = self._consumer.live
        if is_live and self._consumer.epoch != self._epoch:
            if self._epoch is not None:
                self._reply_router.mark_uncertain()
            self._epoch = self._consumer.epoch
        now = self._clock.monotonic()
        if is_live and (self._reply_router.has_uncertain or now >= self._next_round):
            self._next_round = now + self._interval / 4
            await self._resend(self._reply_router.due_for_resend(now - self._interval))

    async def _resend(self, pending: Sequence[PendingRequest]) -> None:
        for start in range(0, len(pending), _BATCH_SIZE):
            some = pending[start : start + _BATCH_SIZE]
            try:
                await self._publisher.send([each.message for each in some], _CONFIRM_TIMEOUT)
            except (ClientError, TimeoutError) as error:
                _log.warning(
                    "Jobs that are awaited could not be asked for again; it is tried again soon.",
                    action="client.ask_again_failed",
                    jobs=len(some),
                    error=str(error),
                )
                return
            self._reply_router.mark_resent(some, self._clock.monotonic())
