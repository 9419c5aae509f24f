"""Decide how a schedule that waits for events goes on: which arrivals become ticks, and which wait. Pure.

Arrivals may make a tick together: the last of a burst, one end of each upstream. Each arrival gets a row in
the tick history in the end, except those of several upstreams that have made one tick together. Nominal times
are those of the events, but not before the schedule was put; if two would be equal, the later one is moved.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_contracts.events import TickStatus
from warrener_contracts.identity import event_job_id
from warrener_contracts.json_safety import sanitize_text
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_scheduler.decisions.ticks import TickBatch, TickCause
from warrener_store.encoding import decode
from warrener_store.schedules.rows import PORTION, Advance, ArrivalOutcome, ArrivalRow, DueSchedule

_RECHECK_INTERVAL = timedelta(seconds=1)
_LATE_TOLERANCE = timedelta(minutes=1)
"""Maximal delay between the end of an upstream and its event; a window is over only then."""


class Trigger(NamedTuple):
    """The arrival requests a job, due at that time."""

    row: ArrivalRow
    due_at: datetime
    reason: str


class Discarded(NamedTuple):
    """The arrival requests none, and why."""

    row: ArrivalRow
    status: TickStatus
    reason: str


class Merged(NamedTuple):
    """The arrival has become a tick together with a later one."""

    row: ArrivalRow


@dataclass(slots=True)
class ArrivalPlan:
    """The steps for arrivals, in order; arrivals without a step stay open until `recheck_at`."""

    steps: list[Trigger | Discarded | Merged] = field(default_factory=list[Trigger | Discarded | Merged])
    recheck_at: datetime | None = None
    deadline: datetime | None = None  # of a burst that is not over

    def discard(self, row: ArrivalRow, reason: str) -> None:
        """Discard an arrival that a later one replaces."""
        self.steps.append(Discarded(row, TickStatus.COALESCED, reason))


def decide_event_ticks(due: DueSchedule, now: datetime, zone_version: str, secret: str) -> Advance:
    """Decide about all arrivals, and when to look next; `secret` as in `decide_ticks`."""
    new = [row for row in due.arrivals if row.nominal_at is None]
    more = len(new) >= PORTION
    ticks = _EventTicks(due, now, secret)
    ticks.release([row for row in due.arrivals if row.nominal_at is not None])
    plan = _group_arrivals(due, new, now, more=more)
    for step in plan.steps:
        ticks.apply(step)
    looks = [now] if more else [] if plan.recheck_at is None else [plan.recheck_at]
    if ticks.batch.waiting:
        looks.append(now + _RECHECK_INTERVAL)  # the end of a job is not notified
    row = ticks.batch.updated_row(
        zone_version, ticks.last_nominal_at, plan.deadline, min(looks, default=None)
    )
    return Advance(row, tuple(ticks.batch.ticks), tuple(ticks.settled))


def _group_arrivals(due: DueSchedule, new: Sequence[ArrivalRow], now: datetime, *, more: bool) -> ArrivalPlan:
    rule = due.row.definition.rule
    if isinstance(rule, EventRule) and rule.debounce is not None:
        return _debounce_arrivals(rule, new, now, due.row.next_at, more=more)
    if isinstance(rule, AfterRule) and len(rule.upstreams) > 1:
        return _join_upstreams(rule, new, now)
    return ArrivalPlan([Trigger(row, row.occurred_at, _tick_reason(row)) for row in new])


class _EventTicks:
    """Collects the ticks and the outcomes of the arrivals, step by step."""

    def __init__(self, due: DueSchedule, now: datetime, secret: str) -> None:
        self.batch, self._secret = TickBatch(due, now, secret), secret
        self.settled: list[ArrivalOutcome] = []
        self.last_nominal_at = due.row.last_nominal_at
        self._name, self._put_at = due.row.name, due.row.put_at

    def release(self, waiting: Sequence[ArrivalRow]) -> None:
        """Fire the tick that waits the longest, if its time has come."""
        for row in waiting:
            if row.nominal_at is not None:
                self.batch.causes[row.nominal_at] = self._cause(row, row.occurred_at)
        self.batch.release_waiting()
        fired = {tick.nominal_at for tick in self.batch.ticks}
        self.settled += [
            ArrivalOutcome(self._name, row.event_id) for row in waiting if row.nominal_at in fired
        ]

    def apply(self, step: Trigger | Discarded | Merged) -> None:
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
            waits = nominal_at if batch.ticks[-1].status is TickStatus.WAITING else None
        self.settled.append(ArrivalOutcome(self._name, step.row.event_id, waits))

    def _nominal_time(self, row: ArrivalRow) -> datetime:
        """Return a time of its own for a tick, as near to that of the event as possible.

        It lies behind the tick before, and behind those of an earlier schedule of this name, whose ticks are
        still stored.
        """
        earliest = (
            self._put_at if self.last_nominal_at is None else self.last_nominal_at + timedelta.resolution
        )
        self.last_nominal_at = max(row.occurred_at, earliest)
        return self.last_nominal_at

    def _cause(self, row: ArrivalRow, due_at: datetime) -> TickCause:
        job_id = event_job_id(self._name, row.event_id, self._secret)
        return TickCause(job_id, due_at, decode(row.event or "{}"))


def _debounce_arrivals(
    rule: EventRule, rows: Sequence[ArrivalRow], now: datetime, deadline: datetime | None, *, more: bool
) -> ArrivalPlan:
    """Make one tick of arrivals close together, once they have stopped or the first has waited for too long.

    The last arrival of an unfinished burst stays open. `deadline`: the end of a burst that has begun. `more`:
    further arrivals are in the store, so the last burst is unfinished.
    """
    debounce = rule.debounce or timedelta(0)
    plan = ArrivalPlan()
    last: ArrivalRow | None = None
    end = latest = deadline or now
    for row in sorted(rows, key=lambda row: (row.received_at, row.occurred_at, row.event_id)):
        if last is not None and row.received_at < end:
            plan.discard(last, "a later event stands for it")
        elif last is not None:
            plan.steps.append(Trigger(last, end, _tick_reason(last)))
        if deadline is None or (last is not None and row.received_at >= end):
            latest = deadline = row.received_at + rule.effective_max_wait
        last, end = row, min(row.received_at + debounce, latest)
    if last is not None and end <= now and not more:
        plan.steps.append(Trigger(last, end, _tick_reason(last)))
    elif last is not None:
        plan.recheck_at, plan.deadline = end, latest
    return plan


def _tick_reason(row: ArrivalRow) -> str:
    """Return the reason of a tick that is an arrival's own."""
    if row.upstream:
        return f"after {row.upstream}"
    return f"event {sanitize_text(str(decode(row.event or '{}').get('id')), 200)}"


def _join_upstreams(rule: AfterRule, rows: Sequence[ArrivalRow], now: datetime) -> ArrivalPlan:
    """Make one tick whenever each upstream has ended within the window; of two ends the later counts."""
    plan = ArrivalPlan()
    wanted = {upstream.name for upstream in rule.upstreams}
    within = rule.within or timedelta(0)
    pending: dict[str, ArrivalRow] = {}
    for row in rows:
        if row.upstream not in wanted:
            why = f"the rule does not name {row.upstream} now"
            plan.steps.append(Discarded(row, TickStatus.SKIPPED, why))
            continue
        for name in [name for name, one in pending.items() if one.occurred_at < row.occurred_at - within]:
            plan.steps.append(_discard_unmatched(pending.pop(name), wanted))
        if (earlier := pending.pop(row.upstream, None)) is not None:
            plan.discard(earlier, f"a later end of {row.upstream} stands for it")
        pending[row.upstream] = row
        if len(pending) == len(wanted):
            plan.steps += [Merged(one) for one in pending.values() if one is not row]
            plan.steps.append(Trigger(row, row.occurred_at, f"after {', '.join(sorted(wanted))}"))
            pending = {}
    ends = {name: max(row.occurred_at + within, row.received_at) for name, row in pending.items()}
    over = {name: end + _LATE_TOLERANCE for name, end in ends.items()}
    for name in [name for name, end in over.items() if end <= now]:
        plan.steps.append(_discard_unmatched(pending.pop(name), wanted))
    plan.recheck_at = min((over[name] for name in pending), default=None)
    return plan


def _discard_unmatched(row: ArrivalRow, wanted: set[str]) -> Discarded:
    others = ", ".join(sorted(wanted - {row.upstream}))
    why = f"after {row.upstream}, but not within the window after {others}"
    return Discarded(row, TickStatus.SKIPPED, why)
