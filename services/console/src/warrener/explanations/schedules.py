"""Why a schedule starts no job: refused, paused, over, late, or its ticks were skipped or rejected. Pure."""

from itertools import takewhile

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk
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
    if row is None:
        return _absent(around.begin_walk(system, f"schedule {facts.name}", "not in the store", None), facts)
    over, late = is_over(row, system.now), overdue_since(row, system.now)
    state = "over" if over else "active"
    walk = around.begin_walk(system, f"schedule {facts.name}", "paused" if row.paused else state, row.put_at)
    walk.passed("schedule", f"runs {row.definition.job_type}, put {ago(row.put_at, system.now)}")
    if row.paused:
        skipped = list(takewhile(lambda tick: tick.status is TickStatus.SKIPPED, facts.ticks))
        return walk.end(
            Cause.SCHEDULE_PAUSED,
            "The schedule is paused, and its ticks are skipped",
            resume_schedule(row.name),
            detail=row.pause_reason or "",
            since=skipped[-1].decided_at if skipped else None,  # the first of the newest ones
            next="Its ticks request jobs again once it is resumed",
        )
    if over:
        limit, since = row.definition.choices.max_runs, row.last_fired_at or row.last_nominal_at
        is_used_up = limit is not None and row.runs >= limit
        why = (
            f"it has requested its {limit} jobs (max_runs)"
            if is_used_up
            else "no further time matches its rule"
        )
        sentence = f"The schedule is over: {why}"
        return walk.end(Cause.SCHEDULE_OVER, sentence, show_schedule(row.name), since=since)
    does = "decides the ticks of the schedule"
    if found := (
        around.check_store(walk)
        or around.check_broker(walk)
        or around.check_scheduler(walk, does, late or row.wake_at)
    ):
        return found
    if late is not None:
        sentence = "The next tick is overdue: no scheduler has decided it"
        then = "A scheduler decides it once it works again; the misfire policy says which ticks are caught up"
        return walk.end(Cause.SCHEDULER_LATE, sentence, DOCTOR, at="clock", since=late, next=then)
    return _last_tick(walk, facts, row) or _next_tick(walk, row)


def _absent(walk: Walk, facts: ScheduleFacts) -> Explanation:
    if (refused := facts.refused) is not None:
        remedy, sentence = run("warrener schedule put --help"), "The schedule was put and refused"
        why, since = refused.detail, refused.parked_at
        return walk.end(Cause.SCHEDULE_REFUSED, sentence, remedy, detail=why, since=since)
    remedy, sentence = run("warrener schedule list"), "The store has no schedule of this name"
    then = "Put it, or start an agent that declares it"
    return walk.end(Cause.NEVER_SEEN, sentence, remedy, at="schedule", next=then)


def _last_tick(walk: Walk, facts: ScheduleFacts, row: ScheduleRow) -> Explanation | None:
    if not facts.ticks:
        return None
    last, job, rejected = facts.ticks[0], facts.last_job, facts.rejected
    its_job = f" ({job.job_id} is {job.state.value})" if job is not None else ""
    look = show_job(job.job_id) if job is not None else show_schedule(row.name)
    if rejected is not None:
        sentence = "The request of the last tick was rejected"
        then, since = "The next ticks are rejected too until the cause is corrected", rejected.parked_at
        show = show_schedule(row.name)
        return walk.end(Cause.TICK_REJECTED, sentence, show, detail=rejected.detail, since=since, next=then)
    if last.status is TickStatus.WAITING:
        sentence = f"The last tick waits: {last.reason}{its_job}"
        then = "The tick requests its job when the earlier one ends"
        return walk.end(Cause.TICK_WAITS, sentence, look, since=last.decided_at, next=then)
    if last.status in _SETTLED:
        sentence = f"The last tick was {last.status.value}: {last.reason}{its_job}"
        then = "The next tick is due" if row.next_at else "The next tick comes with the next event"
        since, until = last.decided_at, row.next_at
        return walk.end(Cause.TICK_SKIPPED, sentence, look, since=since, until=until, next=then)
    walk.passed("last tick", f"{last.status.value} {ago(last.decided_at, walk.now)}{its_job}")
    return None


def _next_tick(walk: Walk, row: ScheduleRow) -> Explanation:
    job_type, show = row.definition.job_type, show_schedule(row.name)
    if isinstance(row.definition.rule, TriggerRule):
        sentence, since = "The schedule waits for an event of its rule", row.last_fired_at or row.put_at
        then = f"A tick requests {job_type} when the event arrives"
        return walk.end(Cause.EVENT_AWAITED, sentence, show, since=since, next=then)
    planned = "" if row.next_at else ", which is about to be planned"
    sentence, since = f"The schedule waits for its next tick{planned}", row.last_nominal_at or row.put_at
    then = f"The tick requests {job_type}"
    return walk.end(Cause.NEXT_TICK, sentence, show, since=since, until=row.next_at, next=then)
