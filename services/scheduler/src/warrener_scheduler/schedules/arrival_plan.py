"""Arrivals that make a tick together: the last of a burst, one end of each upstream. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_contracts.events import TickStatus
from warrener_contracts.json_safety import sanitize_text
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_store.encoding import decode
from warrener_store.schedules.rows import ArrivalRow

_LATE_TOLERANCE = timedelta(minutes=1)
"""So much later than it happened the end of an upstream may be heard: only then a window is known to be
over."""


class Trigger(NamedTuple):
    """It asks for a job, due at that time."""

    row: ArrivalRow
    due_at: datetime
    reason: str


class Discarded(NamedTuple):
    """It asks for none, and why."""

    row: ArrivalRow
    status: TickStatus
    reason: str


class Merged(NamedTuple):
    """It has become a tick together with a later one."""

    row: ArrivalRow


@dataclass(slots=True)
class ArrivalPlan:
    """What becomes of arrivals, in order; those that are not named stay open until `recheck_at`."""

    steps: list[Trigger | Discarded | Merged] = field(default_factory=list[Trigger | Discarded | Merged])
    recheck_at: datetime | None = None
    deadline: datetime | None = None  # of a burst that is not over

    def discard(self, row: ArrivalRow, reason: str) -> None:
        """A later one stands for it."""
        self.steps.append(Discarded(row, TickStatus.COALESCED, reason))


def debounce_arrivals(
    rule: EventRule, rows: Sequence[ArrivalRow], now: datetime, deadline: datetime | None, *, more: bool
) -> ArrivalPlan:
    """One tick for those that come close together, once they have stopped coming or the first has waited for
    too long. Of a burst that goes on, the last one stays open.

    `deadline`: by when a burst that has begun is over. `more`: not all are here, so the last is not over.
    """
    debounce = rule.debounce or timedelta(0)
    plan = ArrivalPlan()
    last: ArrivalRow | None = None
    end = latest = deadline or now
    for row in sorted(rows, key=lambda row: (row.heard_at, row.told_at, row.event_id)):
        if last is not None and row.heard_at < end:
            plan.discard(last, "a later event stands for it")
        elif last is not None:
            plan.steps.append(Trigger(last, end, tick_reason(last)))
        if deadline is None or (last is not None and row.heard_at >= end):
            latest = deadline = row.heard_at + rule.max_wait
        last, end = row, min(row.heard_at + debounce, latest)
    if last is not None and end <= now and not more:
        plan.steps.append(Trigger(last, end, tick_reason(last)))
    elif last is not None:
        plan.recheck_at, plan.deadline = end, latest
    return plan


def tick_reason(row: ArrivalRow) -> str:
    """What the ledger says of a tick that is an arrival's own."""
    if row.upstream:
        return f"after {row.upstream}"
    return f"event {sanitize_text(str(decode(row.event or '{}').get('id')), 200)}"


def join_upstreams(rule: AfterRule, rows: Sequence[ArrivalRow], now: datetime) -> ArrivalPlan:
    """One tick whenever each upstream has ended within the window. Of two ends of one upstream the later
    counts."""
    plan = ArrivalPlan()
    wanted = {upstream.name for upstream in rule.upstreams}
    within = rule.within or timedelta(0)
    pending: dict[str, ArrivalRow] = {}
    for row in rows:
        if row.upstream not in wanted:
            plan.steps.append(
                Discarded(row, TickStatus.SKIPPED, f"the rule does not name {row.upstream} now")
            )
            continue
        _discard_expired(plan, pending, wanted, row.told_at - within)
        if (earlier := pending.pop(row.upstream, None)) is not None:
            plan.discard(earlier, f"a later end of {row.upstream} stands for it")
        pending[row.upstream] = row
        if len(pending) == len(wanted):
            plan.steps += [Merged(one) for one in pending.values() if one is not row]
            plan.steps.append(Trigger(row, row.told_at, f"after {', '.join(sorted(wanted))}"))
            pending = {}
    over = {name: max(row.told_at + within, row.heard_at) + _LATE_TOLERANCE for name, row in pending.items()}
    for name in [name for name, end in over.items() if end <= now]:
        plan.steps.append(_discard_unmatched(pending.pop(name), wanted))
    plan.recheck_at = min((over[name] for name in pending), default=None)
    return plan


def _discard_expired(
    plan: ArrivalPlan, pending: dict[str, ArrivalRow], wanted: set[str], earliest: datetime
) -> None:
    for name in [name for name, row in pending.items() if row.told_at < earliest]:
        plan.steps.append(_discard_unmatched(pending.pop(name), wanted))


def _discard_unmatched(row: ArrivalRow, wanted: set[str]) -> Discarded:
    others = ", ".join(sorted(wanted - {row.upstream}))
    return Discarded(
        row, TickStatus.SKIPPED, f"after {row.upstream}, but not within the window after {others}"
    )
