"""Arrivals that make a tick together: the last of a burst, one end of each upstream. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_contracts.events import TickStatus
from warrener_contracts.json_safety import sanitize_text
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_store.encoding import decode
from warrener_store.triggers.rows import ArrivalRow

_LATE = timedelta(minutes=1)
"""So much later than it happened the end of an upstream may be heard: only then a window is known to be
over."""


class Call(NamedTuple):
    """It asks for a job, due at that time."""

    row: ArrivalRow
    due_at: datetime
    reason: str


class Passed(NamedTuple):
    """It asks for none, and why."""

    row: ArrivalRow
    fate: TickStatus
    reason: str


class Joined(NamedTuple):
    """It has become a tick together with a later one."""

    row: ArrivalRow


@dataclass(slots=True)
class Gathered:
    """What becomes of arrivals, in order; those that are not named stay open until `look_at`."""

    steps: list[Call | Passed | Joined] = field(default_factory=list[Call | Passed | Joined])
    look_at: datetime | None = None
    deadline: datetime | None = None  # of a burst that is not over

    def pass_over(self, row: ArrivalRow, reason: str) -> None:
        """A later one stands for it."""
        self.steps.append(Passed(row, TickStatus.COALESCED, reason))


def bursts(
    rule: EventRule, rows: Sequence[ArrivalRow], now: datetime, deadline: datetime | None, *, more: bool
) -> Gathered:
    """One tick for those that come close together, once they have stopped coming or the first has waited for
    too long. Of a burst that goes on, the last one stays open.

    `deadline`: by when a burst that has begun is over. `more`: not all are here, so the last is not over.
    """
    debounce = rule.debounce or timedelta(0)
    gathered = Gathered()
    last: ArrivalRow | None = None
    end = latest = deadline or now
    for row in sorted(rows, key=lambda row: (row.heard_at, row.told_at, row.event_id)):
        if last is not None and row.heard_at < end:
            gathered.pass_over(last, "a later event stands for it")
        elif last is not None:
            gathered.steps.append(Call(last, end, why(last)))
        if deadline is None or (last is not None and row.heard_at >= end):
            latest = deadline = row.heard_at + rule.max_wait
        last, end = row, min(row.heard_at + debounce, latest)
    if last is not None and end <= now and not more:
        gathered.steps.append(Call(last, end, why(last)))
    elif last is not None:
        gathered.look_at, gathered.deadline = end, latest
    return gathered


def why(row: ArrivalRow) -> str:
    """What the ledger says of a tick that is an arrival's own."""
    if row.upstream:
        return f"after {row.upstream}"
    return f"event {sanitize_text(str(decode(row.event or '{}').get('id')), 200)}"


def complete(rule: AfterRule, rows: Sequence[ArrivalRow], now: datetime) -> Gathered:
    """One tick whenever each upstream has ended within the window. Of two ends of one upstream the later
    counts."""
    gathered = Gathered()
    wanted = {upstream.name for upstream in rule.upstreams}
    within = rule.within or timedelta(0)
    held: dict[str, ArrivalRow] = {}
    for row in rows:
        if row.upstream not in wanted:
            gathered.steps.append(Passed(row, TickStatus.SKIPPED, f"the rule does not name {row.upstream} now"))
            continue
        _expire(gathered, held, wanted, row.told_at - within)
        if (earlier := held.pop(row.upstream, None)) is not None:
            gathered.pass_over(earlier, f"a later end of {row.upstream} stands for it")
        held[row.upstream] = row
        if len(held) == len(wanted):
            gathered.steps += [Joined(one) for one in held.values() if one is not row]
            gathered.steps.append(Call(row, row.told_at, f"after {', '.join(sorted(wanted))}"))
            held = {}
    over = {name: max(row.told_at + within, row.heard_at) + _LATE for name, row in held.items()}
    for name in [name for name, end in over.items() if end <= now]:
        gathered.steps.append(_alone(held.pop(name), wanted))
    gathered.look_at = min((over[name] for name in held), default=None)
    return gathered


def _expire(gathered: Gathered, held: dict[str, ArrivalRow], wanted: set[str], earliest: datetime) -> None:
    for name in [name for name, row in held.items() if row.told_at < earliest]:
        gathered.steps.append(_alone(held.pop(name), wanted))


def _alone(row: ArrivalRow, wanted: set[str]) -> Passed:
    others = ", ".join(sorted(wanted - {row.upstream}))
    return Passed(row, TickStatus.SKIPPED, f"after {row.upstream}, but not within the window after {others}")
