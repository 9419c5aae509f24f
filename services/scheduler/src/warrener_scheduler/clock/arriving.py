"""How a schedule that waits for events goes on: which arrivals become ticks, and which wait. Pure.

Each arrival has its row in the ledger in the end, but for those of several upstreams that have become one
tick together. Nominal times are those of the events, but not before the schedule was put; where two would be
one, the later of them is moved.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from warrener_contracts.events import TickStatus
from warrener_contracts.identity import event_job_id
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_scheduler.calendar.instant import INSTANT
from warrener_scheduler.clock.gathering import Call, Gathered, Joined, Passed, bursts, complete, why
from warrener_scheduler.clock.outcome import Cause, Outcome
from warrener_store.encoding import decode
from warrener_store.schedules.rows import Advance, DueSchedule
from warrener_store.triggers.port import PORTION
from warrener_store.triggers.rows import ArrivalRow, ArrivalOutcome

_LOOK_AGAIN = timedelta(seconds=1)


def arrive(due: DueSchedule, now: datetime, zone_version: str) -> Advance:
    """Decide about all that has arrived, and when to look next."""
    new = [row for row in due.arrivals if row.nominal_at is None]
    more = len(new) >= PORTION
    ticks = _Ticks(due, now)
    ticks.release([row for row in due.arrivals if row.nominal_at is not None])
    gathered = _gathered(due, new, now, more=more)
    for step in gathered.steps:
        ticks.take(step)
    looks = [now] if more else [] if gathered.look_at is None else [gathered.look_at]
    if ticks.outcome.waiting:
        looks.append(now + _LOOK_AGAIN)  # nobody tells us of the end of a job
    row = ticks.outcome.row(zone_version, ticks.last_at, gathered.deadline, min(looks, default=None))
    return Advance(row, tuple(ticks.outcome.ticks), tuple(ticks.settled))


def _gathered(due: DueSchedule, new: Sequence[ArrivalRow], now: datetime, *, more: bool) -> Gathered:
    rule = due.row.asked.rule
    if isinstance(rule, EventRule) and rule.debounce is not None:
        return bursts(rule, new, now, due.row.next_at, more=more)
    if isinstance(rule, AfterRule) and len(rule.upstreams) > 1:
        return complete(rule, new, now)
    return Gathered([Call(row, row.told_at, why(row)) for row in new])


class _Ticks:
    """Grows step by step; what stands in the ledger and what has become of the arrivals."""

    def __init__(self, due: DueSchedule, now: datetime) -> None:
        self.outcome = Outcome(due, now)
        self.settled: list[ArrivalOutcome] = []
        self.last_at = due.row.last_at
        self._name, self._put_at = due.row.name, due.row.put_at

    def release(self, waiting: Sequence[ArrivalRow]) -> None:
        """The tick that waits the longest is fired where its time has come."""
        for row in waiting:
            if row.nominal_at is not None:
                self.outcome.causes[row.nominal_at] = self._cause(row, row.told_at)
        self.outcome.release_waiting()
        fired = {tick.nominal_at for tick in self.outcome.ticks}
        self.settled += [ArrivalOutcome(self._name, row.event_id) for row in waiting if row.nominal_at in fired]

    def take(self, step: Call | Passed | Joined) -> None:
        """One more."""
        outcome, waits = self.outcome, None
        if not isinstance(step, Joined) and not outcome.used_up:
            nominal_at = self._nominal(step.row)
            if isinstance(step, Call):
                outcome.causes[nominal_at] = self._cause(step.row, step.due_at)
            if isinstance(step, Passed):
                outcome.leave(nominal_at, step.fate, step.reason)
            elif outcome.paused:
                outcome.skip_paused(nominal_at)
            else:
                outcome.run(nominal_at, TickStatus.FIRED, step.reason)
            waits = nominal_at if outcome.ticks[-1].fate is TickStatus.WAITING else None
        self.settled.append(ArrivalOutcome(self._name, step.row.event_id, waits))

    def _nominal(self, row: ArrivalRow) -> datetime:
        """A time of its own, as near to that of the event as may be: behind the tick before it, and behind
        those of an earlier schedule of this name, whose ledger is still there."""
        self.last_at = max(row.told_at, self._put_at if self.last_at is None else self.last_at + INSTANT)
        return self.last_at

    def _cause(self, row: ArrivalRow, due_at: datetime) -> Cause:
        return Cause(event_job_id(self._name, row.event_id), due_at, decode(row.event or "{}"))
