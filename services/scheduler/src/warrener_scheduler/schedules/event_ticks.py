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
from warrener_scheduler.schedules.arrival_plan import (
    ArrivalPlan,
    Discarded,
    Merged,
    Trigger,
    debounce_arrivals,
    join_upstreams,
    tick_reason,
)
from warrener_scheduler.schedules.tick_batch import TickBatch, TickCause
from warrener_store.encoding import decode
from warrener_store.schedules.port import PORTION
from warrener_store.schedules.rows import Advance, ArrivalOutcome, ArrivalRow, DueSchedule

_RECHECK_INTERVAL = timedelta(seconds=1)


def decide_event_ticks(due: DueSchedule, now: datetime, zone_version: str) -> Advance:
    """Decide about all that has arrived, and when to look next."""
    new = [row for row in due.arrivals if row.nominal_at is None]
    more = len(new) >= PORTION
    ticks = _EventTicks(due, now)
    ticks.release([row for row in due.arrivals if row.nominal_at is not None])
    plan = _group_arrivals(due, new, now, more=more)
    for step in plan.steps:
        ticks.apply(step)
    looks = [now] if more else [] if plan.recheck_at is None else [plan.recheck_at]
    if ticks.batch.waiting:
        looks.append(now + _RECHECK_INTERVAL)  # nobody tells us of the end of a job
    row = ticks.batch.updated_row(zone_version, ticks.last_at, plan.deadline, min(looks, default=None))
    return Advance(row, tuple(ticks.batch.ticks), tuple(ticks.settled))


def _group_arrivals(due: DueSchedule, new: Sequence[ArrivalRow], now: datetime, *, more: bool) -> ArrivalPlan:
    rule = due.row.asked.rule
    if isinstance(rule, EventRule) and rule.debounce is not None:
        return debounce_arrivals(rule, new, now, due.row.next_at, more=more)
    if isinstance(rule, AfterRule) and len(rule.upstreams) > 1:
        return join_upstreams(rule, new, now)
    return ArrivalPlan([Trigger(row, row.told_at, tick_reason(row)) for row in new])


class _EventTicks:
    """Grows step by step; what stands in the ledger and what has become of the arrivals."""

    def __init__(self, due: DueSchedule, now: datetime) -> None:
        self.batch = TickBatch(due, now)
        self.settled: list[ArrivalOutcome] = []
        self.last_at = due.row.last_at
        self._name, self._put_at = due.row.name, due.row.put_at

    def release(self, waiting: Sequence[ArrivalRow]) -> None:
        """The tick that waits the longest is fired where its time has come."""
        for row in waiting:
            if row.nominal_at is not None:
                self.batch.causes[row.nominal_at] = self._cause(row, row.told_at)
        self.batch.release_waiting()
        fired = {tick.nominal_at for tick in self.batch.ticks}
        self.settled += [
            ArrivalOutcome(self._name, row.event_id) for row in waiting if row.nominal_at in fired
        ]

    def apply(self, step: Trigger | Discarded | Merged) -> None:
        """One more."""
        batch, waits = self.batch, None
        if not isinstance(step, Merged) and not batch.is_exhausted:
            nominal_at = self._nominal_time(step.row)
            if isinstance(step, Trigger):
                batch.causes[nominal_at] = self._cause(step.row, step.due_at)
            if isinstance(step, Discarded):
                batch.record(nominal_at, step.status, step.reason)
            elif batch.paused:
                batch.skip_paused(nominal_at)
            else:
                batch.run(nominal_at, TickStatus.FIRED, step.reason)
            waits = nominal_at if batch.ticks[-1].fate is TickStatus.WAITING else None
        self.settled.append(ArrivalOutcome(self._name, step.row.event_id, waits))

    def _nominal_time(self, row: ArrivalRow) -> datetime:
        """A time of its own, as near to that of the event as may be: behind the tick before it, and behind
        those of an earlier schedule of this name, whose ledger is still there."""
        self.last_at = max(row.told_at, self._put_at if self.last_at is None else self.last_at + INSTANT)
        return self.last_at

    def _cause(self, row: ArrivalRow, due_at: datetime) -> TickCause:
        return TickCause(event_job_id(self._name, row.event_id), due_at, decode(row.event or "{}"))
