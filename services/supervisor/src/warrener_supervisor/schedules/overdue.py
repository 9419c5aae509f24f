"""Which schedules do not tick, as far as this supervisor has seen it for a while."""

from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_store.schedules.watches import Watches
from warrener_supervisor.schedules.health import MANY, ScheduleIssue, merge_if_many, overdue_issues

_PATIENCE = timedelta(seconds=10)
"""So long a supervisor must have seen it: one that is started together with the schedulers, after a night in
which nobody ran, gives them time to begin."""
_PUT_OFF = timedelta(seconds=61)
"""A scheduler that cannot decide a schedule looks at it again after a minute."""
_BATCH_SIZE = 1000


class OverdueReport(NamedTuple):
    """What is to be told; and the cases of all that is overdue, told or not."""

    issues: list[ScheduleIssue]
    fingerprints: set[str]


class OverdueDetector:
    """Asks the store, and remembers since when it has seen what."""

    def __init__(self, watches: Watches) -> None:
        self._watches = watches
        self._seen: dict[str, datetime] = {}  # by occurrence
        self._were_many = False

    async def find_overdue(self, now: datetime, *, explained: bool) -> OverdueReport:
        """Those that have been overdue for long enough, or one in place of many.

        What is `explained` by another trouble is not told. When that is over, or most of many have ticked,
        the others are given as much time again: they are being caught up with.
        """
        rows = await self._watches.late_schedules(now, now + _PUT_OFF, _BATCH_SIZE)
        found = overdue_issues(rows, now)
        many = len(found) > MANY
        if explained or (self._were_many and not many):
            self._seen = {}
        self._were_many = many
        self._seen = {each.occurrence: self._seen.get(each.occurrence, now) for each in found}
        proven = [each for each in found if now - self._seen[each.occurrence] >= _PATIENCE]
        issues = merge_if_many(proven)
        return OverdueReport(issues, {each.fingerprint for each in (*found, *issues)})
