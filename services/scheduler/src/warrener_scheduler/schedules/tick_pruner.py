"""upkeep: old ticks are deleted, in portions, a few schedules at a time. Any scheduler may do it."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.schedules.port import TickRetention
from warrener_store.schedules.rows import TickRow

_log = get_logger("upkeep")

Export = Callable[[Sequence[TickRow]], Awaitable[None]]

_SCHEDULE_LIMIT = 100
_TICK_LIMIT = 50  # of each schedule in one transaction
_MAX_BATCHES = 100  # in one look; the rest is left to the next one


class TickPruner:
    """The verb that goes through the ledger by the names of its schedules, and begins anew at the end."""

    def __init__(self, ledger: TickRetention, clock: Clock, *, keep: timedelta, newest: int) -> None:
        self._ledger, self._clock = ledger, clock
        self._keep, self._newest = keep, newest
        self._after = ""
        self.complete = False
        """True if the last look has come to the end of the ledger."""

    @property
    def before(self) -> datetime:
        """What is older is forgotten."""
        return self._clock.now() - self._keep

    async def run_once(self, export: Export | None = None) -> int:
        """Delete what is old of the next few schedules, after `export` has written it; how many ticks."""
        names = await self._ledger.ticked_schedules(self._after, _SCHEDULE_LIMIT)
        before = self.before
        found = deleted = 0
        for _ in range(_MAX_BATCHES if names else 0):
            ticks = await self._ledger.old_ticks(names, before, self._newest, _TICK_LIMIT)
            if ticks and export is not None:
                await export(ticks)
            deleted += await self._ledger.delete_ticks([tick.key for tick in ticks])
            found = len(ticks)
            if found < _TICK_LIMIT:  # then none of them has more
                break
        self.complete = found < _TICK_LIMIT and len(names) < _SCHEDULE_LIMIT
        if found < _TICK_LIMIT:
            self._after = names[-1] if len(names) == _SCHEDULE_LIMIT else ""
        if deleted:
            _log.info("Old ticks were deleted.", action="upkeep.forgotten", ticks=deleted)
        return deleted
