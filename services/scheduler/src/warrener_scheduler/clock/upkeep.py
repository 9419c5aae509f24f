"""upkeep: old ticks are forgotten, in portions, a few schedules at a time. Any scheduler may do it."""

from datetime import datetime, timedelta

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.schedules.upkeep import TickUpkeep

_log = get_logger("upkeep")

_SCHEDULES = 100
_TICKS = 50  # of each schedule in one transaction
_PORTIONS = 100  # in one look; the rest is left to the next one


class Upkeep:
    """The verb that goes through the ledger by the names of its schedules, and begins anew at the end."""

    def __init__(self, ledger: TickUpkeep, clock: Clock, *, keep: timedelta, newest: int) -> None:
        self._ledger, self._clock = ledger, clock
        self._keep, self._newest = keep, newest
        self._after = ""
        self.complete = False
        """True if the last look has come to the end of the ledger."""

    @property
    def before(self) -> datetime:
        """What is older is forgotten."""
        return self._clock.now() - self._keep

    async def look(self) -> int:
        """Forget what is old of the next few schedules; how many ticks."""
        names = await self._ledger.ticked_schedules(self._after, _SCHEDULES)
        before = self.before
        gone = forgotten = 0
        for _ in range(_PORTIONS if names else 0):
            gone = await self._ledger.forget_ticks(names, before, self._newest, _TICKS)
            forgotten += gone
            if gone < _TICKS:  # then none of them has more
                break
        self.complete = gone < _TICKS and len(names) < _SCHEDULES
        if gone < _TICKS:
            self._after = names[-1] if len(names) == _SCHEDULES else ""
        if forgotten:
            _log.info("Old ticks were forgotten.", action="upkeep.forgotten", ticks=forgotten)
        return forgotten
