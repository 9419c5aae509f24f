"""Asks again for what is still awaited, where its answer may have been lost."""

from collections.abc import Sequence

from warrener_client.desk import Desk
from warrener_client.errors import ClientError
from warrener_client.pending import Pending
from warrener_client.post import Post
from warrener_runtime.clock import Clock
from warrener_runtime.lifecycle import Consumer
from warrener_runtime.logs import get_logger

GLANCE = 0.25  # seconds between looks at whether the reply queue was made anew
_PATIENCE = 10.0
_AT_ONCE = 500

_log = get_logger("client")


class Attendant:
    """A request is idempotent by its id, and its repeat is also the question what became of it: so asking
    again is all that is needed after the reply queue was lost, with everything in it."""

    def __init__(self, ear: Consumer, desk: Desk, post: Post, clock: Clock, interval: float) -> None:
        self._ear, self._desk, self._post, self._clock = ear, desk, post, clock
        self._interval = interval
        self._epoch: tuple[int, int] | None = None
        self._next_round = clock.monotonic() + interval

    async def glance(self) -> None:
        """One look."""
        hears = self._ear.live
        if hears and self._ear.epoch != self._epoch:
            if self._epoch is not None:
                self._desk.doubt()
            self._epoch = self._ear.epoch
        now = self._clock.monotonic()
        if hears and (self._desk.restless or now >= self._next_round):
            self._next_round = now + self._interval / 4
            await self._ask_again(self._desk.to_ask_again(now - self._interval))

    async def _ask_again(self, pending: Sequence[Pending]) -> None:
        for start in range(0, len(pending), _AT_ONCE):
            some = pending[start : start + _AT_ONCE]
            try:
                await self._post.send([each.letter for each in some], _PATIENCE)
            except (ClientError, TimeoutError) as error:
                _log.warning(
                    "Jobs that are awaited could not be asked for again; it is tried again soon.",
                    action="client.ask_again_failed",
                    jobs=len(some),
                    error=str(error),
                )
                return
            self._desk.asked(some, self._clock.monotonic())
