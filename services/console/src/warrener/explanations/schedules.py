"""Why a schedule starts no job: refused, paused, over, late, or its ticks were skipped or rejected. Pure."""

from datetime import datetime
from itertools import takewhile

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import ScheduleFacts
from warrener.explanations.suggestions import DOCTOR, resume_schedule, run, show_job, show_schedule
from warrener.render.times import ago
from warrener_contracts.events import TickStatus
from warrener_contracts.triggers import TriggerRule
from warrener_store.schedules.rows import ScheduleRow
from warrener_store.schedules.rules import is_over, overdue_since

_SETTLED = frozenset({TickStatus.SKIPPED, TickStatus.COALESCED})


def explain_schedule(facts: ScheduleFacts) -> Explanation:
    """Explain the next tick of a schedule, and the outcome of the last one."""
    row, system = facts.row, facts.system
    walk = Walk(f"schedule {facts.name}", _state(facts), system.now, row.put_at if row else None)
    around.note_troubles(walk, system)
    if row is None:
        return _refused(walk, facts)
    walk.passed("schedule", f"runs {row.definition.job_type}, put {ago(row.put_at, system.now)}")
    due = overdue_since(row, system.now) or row.wake_at
    return first(
        lambda: _paused(walk, facts, row),
        lambda: _over(walk, facts, row),
        lambda: around.check_store(walk, system),
        lambda: around.check_broker(walk, system),
        lambda: around.check_scheduler(walk, system, "decides the ticks of the schedule", due),
        lambda: _overdue(walk, facts, row),
        lambda: _last_tick(walk, facts, row),
    ) or _next_tick(walk, row)


def _paused(walk: Walk, facts: ScheduleFacts, row: ScheduleRow) -> Explanation | None:
    if not row.paused:
        return None
    return walk.end(
        "pause",
        Cause.SCHEDULE_PAUSED,
        "The schedule is paused, and its ticks are skipped",
        resume_schedule(row.name),
        detail=row.pause_reason or "",
        since=_skipped_since(facts),
        next="Its ticks request jobs again once it is resumed",
    )


def _overdue(walk: Walk, facts: ScheduleFacts, row: ScheduleRow) -> Explanation | None:
    late = overdue_since(row, facts.system.now)
    if late is None:
        return None
    return walk.end(
        "clock",
        Cause.SCHEDULER_LATE,
        "The next tick is overdue: no scheduler has decided it",
        DOCTOR,
        since=late,
        next="A scheduler decides it once it works again; the misfire policy says which ticks are caught up",
    )


def _state(facts: ScheduleFacts) -> str:
    if facts.row is None:
        return "not in the store"
    if facts.row.paused:
        return "paused"
    return "over" if is_over(facts.row, facts.system.now) else "active"


def _refused(walk: Walk, facts: ScheduleFacts) -> Explanation:
    if facts.refused is None:
        return walk.end(
            "schedule",
            Cause.NEVER_SEEN,
            "The store has no schedule of this name",
            run("warrener schedule list"),
            next="Put it, or start an agent that declares it",
        )
    return walk.end(
        "schedule",
        Cause.SCHEDULE_REFUSED,
        "The schedule was put and refused",
        run("warrener schedule put --help"),
        detail=facts.refused.detail,
        since=facts.refused.parked_at,
        next="Put it again, corrected",
    )


def _skipped_since(facts: ScheduleFacts) -> datetime | None:
    """When the first of the newest skipped ticks was decided."""
    skipped = list(takewhile(lambda tick: tick.status is TickStatus.SKIPPED, facts.ticks))
    return skipped[-1].decided_at if skipped else None


def _over(walk: Walk, facts: ScheduleFacts, row: ScheduleRow) -> Explanation | None:
    if not is_over(row, facts.system.now):
        return None
    limit = row.definition.choices.max_runs
    reached = limit is not None and row.runs >= limit
    why = f"it has requested its {limit} jobs (max_runs)" if reached else "no further time matches its rule"
    return walk.end(
        "rule",
        Cause.SCHEDULE_OVER,
        f"The schedule is over: {why}",
        show_schedule(row.name),
        since=row.last_fired_at or row.last_nominal_at,
        next="Put it again with other limits to go on",
        over=True,
    )


def _last_tick(walk: Walk, facts: ScheduleFacts, row: ScheduleRow) -> Explanation | None:
    if not facts.ticks:
        return None
    last, job = facts.ticks[0], facts.last_job
    its_job = f" ({job.job_id} is {job.state.value})" if job is not None else ""
    look = show_job(job.job_id) if job is not None else show_schedule(row.name)
    if facts.rejected is not None:
        return walk.end(
            "last tick",
            Cause.TICK_REJECTED,
            "The request of the last tick was rejected",
            show_schedule(row.name),
            detail=facts.rejected.detail,
            since=facts.rejected.parked_at,
            next="The next ticks are rejected too until the cause is corrected",
        )
    if last.status is TickStatus.WAITING:
        return walk.end(
            "last tick",
            Cause.TICK_WAITS,
            f"The last tick waits: {last.reason}{its_job}",
            look,
            since=last.decided_at,
            next="The tick requests its job when the earlier one ends",
        )
    if last.status in _SETTLED:
        return walk.end(
            "last tick",
            Cause.TICK_SKIPPED,
            f"The last tick was {last.status.value}: {last.reason}{its_job}",
            look,
            since=last.decided_at,
            until=row.next_at,
            next="The next tick is due" if row.next_at else "The next tick comes with the next event",
        )
    walk.passed("last tick", f"{last.status.value} {ago(last.decided_at, facts.system.now)}{its_job}")
    return None


def _next_tick(walk: Walk, row: ScheduleRow) -> Explanation:
    if isinstance(row.definition.rule, TriggerRule):
        return walk.end(
            "rule",
            Cause.EVENT_AWAITED,
            "The schedule waits for an event of its rule",
            show_schedule(row.name),
            since=row.last_fired_at or row.put_at,
            next=f"A tick requests {row.definition.job_type} when the event arrives",
        )
    due = row.next_at
    return walk.end(
        "rule",
        Cause.NEXT_TICK,
        f"The schedule waits for its next tick{'' if due else ', which is about to be planned'}",
        show_schedule(row.name),
        since=row.last_nominal_at or row.put_at,
        until=due,
        next=f"The tick requests {row.definition.job_type}",
    )
