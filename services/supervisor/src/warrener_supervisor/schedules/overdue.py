"""Which schedules do not tick, as far as this supervisor has seen it for a while."""

from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_store.schedules.watches import Watches
from warrener_supervisor.schedules.troubles import MANY, Trouble, gathered, overdue

_PATIENCE = timedelta(seconds=10)
"""So long a supervisor must have seen it: one that is started together with the schedulers, after a night in
which nobody ran, gives them time to begin."""
_PUT_OFF = timedelta(seconds=61)
"""A scheduler that cannot decide a schedule looks at it again after a minute."""
_AT_ONCE = 1000


class Late(NamedTuple):
    """What is to be told; and the cases of all that is overdue, told or not."""

    told: list[Trouble]
    fingerprints: set[str]


class Overdue:
    """Asks the store, and remembers since when it has seen what."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._seen: dict[str, datetime] = {}  # by occurrence
        self._were_many = False

    async def look(self, now: datetime, *, explained: bool) -> Late:
        """Those that have been overdue for long enough, or one in place of many.

        What is `explained` by another trouble is not told. When that is over, or most of many have ticked,
        the others are given as much time again: they are being caught up with.
        """
        rows = await self._watches.late_schedules(now, now + _PUT_OFF, _AT_ONCE)
        found = overdue(rows, now)
        many = len(found) > MANY
        if explained or (self._were_many and not many):
            self._seen = {}
        self._were_many = many
        self._seen = {each.occurrence: self._seen.get(each.occurrence, now) for each in found}
        proven = [each for each in found if now - self._seen[each.occurrence] >= _PATIENCE]
        told = gathered(proven)
        return Late(told, {each.fingerprint for each in (*found, *told)})
