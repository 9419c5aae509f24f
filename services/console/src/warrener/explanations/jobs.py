"""Why a job does not go on, from its request to its end, in the order of the obstacles. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from warrener.explanations import delivery
from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import UNIQUE, Explanation, Walk
from warrener.explanations.facts import (
    MAX_SKEW,
    JobFacts,
    LimitFacts,
    class_name,
    counted,
    deaths,
    ended_agents,
    first_line,
)
from warrener.explanations.started_jobs import explain_ended, explain_running
from warrener.explanations.suggestions import DOCTOR, breaker, show_job
from warrener.explanations.workflows import (
    end_changed_code,
    explain_held,
    explain_suspended,
    explain_undos,
    note_signals,
)
from warrener.render.times import ago, span
from warrener_contracts.circuit_breaker import BreakerState, paused_queue
from warrener_contracts.events import ErrorKind
from warrener_contracts.retryability import CODE_CHANGED, is_unknown_job_type
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH, RETURN
from warrener_contracts.unique import OnRepeat
from warrener_store.breakers.gate import BreakerRow
from warrener_store.jobs.rows import AttemptOutcome, JobRow
from warrener_store.jobs.rules import chosen_by_rule
from warrener_store.jobs.unique import is_held

_MAX_CHOICES = 3  # of retry rules that are noted, the last ones
_MAX_HOLDERS = 3  # of a limit's slots that are named
_UNPUBLISHED = timedelta(seconds=5)  # another service may be publishing a dispatch that is younger


def explain_job(facts: JobFacts, parked_child: Explanation | None = None) -> Explanation:
    """Explain the job's wait, or that it runs, or how it ended. `parked_child` is about that of the facts."""
    row, system, now = facts.row, facts.system, facts.system.now
    since = row.finished_at or row.started_at or row.dispatched_at or row.updated_at
    walk = around.begin_walk(system, f"job {row.job_id}", row.state.value, since)
    walk.passed("request", f"accepted {ago(row.accepted_at, now)}, from {row.source}")
    if facts.schedule is not None:
        walk.passed("schedule", f"requested by a tick of {facts.schedule}")
    _note_unique(walk, facts)
    note_signals(walk, facts)
    if row.state.terminal:
        return explain_undos(facts, explain_ended(walk, facts))
    if facts.parent is not None and facts.parent_call is not None:
        at = f", at {facts.parent_call.line}" if facts.parent_call.line else ""
        walk.note(f"workflow {facts.parent.job_type} (job {facts.parent.job_id}) waits for it{at}")
    if row.deadline_at is not None:
        walk.note(f"it expires {ago(row.deadline_at, now)}")
    if row.error is not None and row.error.crashes:
        walk.note(
            f"its attempts end their processes: {deaths(row)} of {row.policy.quarantine_threshold} deaths"
            f" until it is quarantined, the last one: {first_line(row.error.crashes[-1])}; a cancel stops it"
        )
    for chosen in [text for one in facts.attempts if (text := chosen_by_rule(one.verdict))][-_MAX_CHOICES:]:
        walk.note(chosen)
    if (found := around.check_store(walk)) is not None:
        return found
    return _explain_live(walk, facts, parked_child)


def _explain_live(walk: Walk, facts: JobFacts, parked_child: Explanation | None) -> Explanation:
    row = facts.row
    match row.state:
        case JobState.WAITING:
            return _waiting(walk, facts)
        case JobState.RETRYING:
            return _retrying(walk, facts)
        case JobState.RUNNING:
            return explain_running(walk, row)
        case JobState.SUSPENDED if row.is_held:
            return explain_held(walk, facts)
        case JobState.SUSPENDED:
            awaited = None if facts.awaited is None else explain_job(facts.awaited)
            return explain_suspended(walk, facts, parked_child or awaited)
        case _:
            return _queued(walk, facts) if row.dispatched_at is not None else _unpublished(walk, facts)


_REPEATS = {
    OnRepeat.REJECT: "is rejected",
    OnRepeat.FIRST: "is answered as this job",
    OnRepeat.REPLACE: "replaces this job while it waits, and is rejected afterwards",
}


def _note_unique(walk: Walk, facts: JobFacts) -> None:
    """Note the job that it has replaced, and the answer to further requests. The key is not quoted: it
    consists of arguments."""
    row, found = facts.row, facts.unique_key
    unique = row.policy.unique
    if unique is None or found is None:
        return
    parts: list[str] = []
    if found.replaced is not None:
        parts.append(f"it has replaced job {found.replaced}; the first one came {ago(found.since, walk.now)}")
    if is_held(row, unique, walk.now):
        parts.append(f"a further request {_REPEATS[unique.repeat]}")
    if parts:
        walk.note(f"{UNIQUE}{'; '.join(parts)}")


# -- before the first attempt --------------------------------------------------------------------------------


def _waiting(walk: Walk, facts: JobFacts) -> Explanation:
    row = facts.row
    due = row.due_at or row.accepted_at
    return (
        _of_other(walk, row)
        or _deadline_before(walk, row, due)
        or _held(walk, row)
        or _due_later(walk, row, due)
        or _limited(walk, facts.limit)
        or around.check_broker(walk)
        or around.check_scheduler(walk, "dispatches the job", due)
        or _not_dispatched(walk, due)
    )


def _of_other(walk: Walk, row: JobRow) -> Explanation | None:
    """End the walk if another job has replaced this one, or stands for it."""
    if row.leader is not None:
        sentence = f"Job {row.leader} with the same unique key stands for it"
        return walk.end(Cause.STOOD_FOR, sentence, show_job(row.leader), since=row.accepted_at)
    if not row.is_replaced:
        return None
    sentence, then = "The job was replaced, and is not dispatched", "A supervisor cancels it within seconds"
    detail = row.cancel_reason or ""
    return walk.end(Cause.CANCEL_REQUESTED, sentence, detail=detail, since=row.updated_at, next=then)


def _deadline_before(walk: Walk, row: JobRow, due: datetime) -> Explanation | None:
    """End the walk if the deadline passes before the next attempt is due."""
    if row.deadline_at is None or row.deadline_at > due:
        return None
    first_one = row.state is JobState.WAITING
    cause = Cause.DEADLINE_BEFORE_START if first_one else Cause.DEADLINE_BEFORE_RETRY
    which = "the job" if first_one else f"attempt {row.attempt}"
    sentence = f"Its deadline passes before {which} is due, {ago(due, walk.now)}"
    then = "Request it again with a later deadline; this one expires"
    return walk.end(cause, sentence, show_job(row.job_id), until=row.deadline_at, next=then)


def _not_dispatched(walk: Walk, due: datetime) -> Explanation:
    if walk.now - due <= around.LATE:
        then = "A scheduler dispatches it within a second"
        return walk.end(Cause.DISPATCHING, "The job is due", since=due, next=then)
    sentence = "The job is due, and no scheduler has dispatched it"
    then = "A scheduler dispatches it once it works again: it may be frozen, or its store slow"
    return walk.end(Cause.SCHEDULER_LATE, sentence, DOCTOR, at="dispatch", since=due, next=then)


def _due_later(walk: Walk, row: JobRow, due: datetime) -> Explanation | None:
    if due <= walk.now:
        walk.passed("time", f"due {ago(due, walk.now)}")
        return None
    since, ahead = row.accepted_at, row.requested_at - row.accepted_at
    if ahead > MAX_SKEW:
        skewed = f"The job waits for its time by the clock of {row.source}, which is {span(ahead)} ahead"
        return walk.end(Cause.CLOCK_SKEW, skewed, DOCTOR, since=since, until=due)
    delayed = "The job waits for the time that its request gives"
    return walk.end(Cause.DELAYED, delayed, since=since, until=due)


def _held(walk: Walk, row: JobRow) -> Explanation | None:
    """End the walk if a circuit breaker holds the job back."""
    blocking = walk.system.breakers.find_blocking(row.job_type, row.policy, row.queue)
    if blocking is not None:
        return end_held(walk, blocking, "the job")
    walk.passed("breakers", "none that it depends on is open")
    return None


def _limited(walk: Walk, limit: LimitFacts | None) -> Explanation | None:
    """End the walk if the job waits for a slot."""
    if limit is None:
        return None
    gate, slots, free, _ = limit.room
    then = (
        f"Behind {counted(limit.before, 'other')} it gets the next one" if limit.before else "It comes next"
    )
    if free > 0:
        if found := around.check_supervisor(walk, "gives it a slot", limit.since):
            return found
        sentence = f"Limit {gate} has {free} of {counted(slots, 'slot')} free"
        return walk.end(Cause.LIMIT, sentence, since=limit.since, next=then)
    for workflow in limit.above:
        walk.note(f"workflow {workflow} above it has a slot until it ends, and waits for this job")
    named = [str(slot.job_id) for slot in limit.holders[:_MAX_HOLDERS]]
    more = slots - free - len(named)
    holders = f"by {', '.join(named)}" + (f" and {counted(more, 'other')}" if more > 0 else "")
    oldest = min((slot.taken_at for slot in limit.holders), default=walk.now)
    begun = f", {'the first ' if slots > 1 else ''}{ago(oldest, walk.now)}"
    taken = f"{counted(slots, 'slot')} of limit {gate} {'are' if slots > 1 else 'is'} taken"
    is_stuck = slots - free <= len(limit.above)
    if is_stuck:
        then = (
            "No slot is free before this job ends: cancel the workflow above, and give its call another type"
        )
    return walk.end(
        Cause.LIMIT,
        f"All {taken}" if slots > 1 else f"The {taken}",
        *(show_job(slot.job_id) for slot in limit.holders[:_MAX_HOLDERS]),
        detail=holders + begun,
        since=limit.since,
        next=then,
        needs_action=is_stuck,
    )


def end_held(walk: Walk, by: BreakerRow, whom: str) -> Explanation:
    """End the walk: a circuit breaker holds jobs back, or their queue is paused."""
    until = by.until and max(by.until, walk.now)
    if queue := paused_queue(by.name):
        return walk.end(
            Cause.BREAKER_OPEN,
            f"Queue {queue} is paused and holds {whom} back",
            *breaker(by.name, is_manual=until is None),
            detail=by.reason,
            since=by.since,
            until=until,
            next="Its jobs go on" if until else "It stays paused until somebody resumes it",
            by_itself=until is not None,
        )
    is_open = by.state is BreakerState.OPEN
    by_itself = by.until is not None or not is_open
    if is_open:
        then = "It admits a probe" if by_itself else "It stays open until somebody closes it"
    else:
        probes = f"{by.probes_succeeded} of {by.policy.half_open_calls}"
        then = f"It closes when all probes have succeeded, {probes} so far"
    return walk.end(
        Cause.BREAKER_OPEN,
        f"Breaker {by.name} is {'open' if is_open else 'half open'} and holds {whom} back",
        *breaker(by.name, is_manual=not by_itself),
        detail=by.reason if is_open else "",
        since=by.since,
        until=by.until and max(by.until, walk.now) if is_open else None,
        next=then,
        by_itself=by_itself,
    )


# -- on its way to an agent ----------------------------------------------------------------------------------


def _queued(walk: Walk, facts: JobFacts) -> Explanation:
    row, since = facts.row, facts.row.dispatched_at or facts.row.updated_at
    walk.passed("dispatch", f"attempt {row.attempt} published {ago(since, walk.now)}")
    if since + row.policy.start_timeout <= walk.now:
        walk.note(f"it waits longer than its start_timeout of {span(row.policy.start_timeout)}")
    if (found := _on_its_way(walk, row, since)) is None:
        return delivery.end_in_turn(walk, row.queue, row.attempt, since)
    ended = ended_agents(row)
    if not ended or not any("warrener agent " in command for command in found.commands):
        return found
    # No further agent is offered for a job whose attempts have ended their agents.
    lost = f"{ended} of its attempts were lost with their agents: another agent may end too"
    return replace(found, suggestions=(show_job(row.job_id),), notes=(*found.notes, lost))


def _unpublished(walk: Walk, facts: JobFacts) -> Explanation:
    """Explain a dispatch that the broker does not have."""
    row, since = facts.row, facts.refusing_since or facts.row.updated_at
    if found := (
        around.check_broker(walk)
        or delivery.check_queue_exists(walk, row.queue, since)
        or delivery.check_binding(walk, row.queue, DISPATCH, since)
        or around.check_supervisor(walk, "publishes the job", since)
    ):
        return found
    if facts.refusing_since is not None or walk.now - row.updated_at > _UNPUBLISHED:
        return delivery.end_refusing(walk, row.queue, since, f"attempt {row.attempt}")
    sentence = f"Queue {row.queue} has not accepted attempt {row.attempt} yet"
    then = "A supervisor publishes it again within seconds"
    return walk.end(Cause.DISPATCHING, sentence, since=row.updated_at, next=then)


def _on_its_way(walk: Walk, row: JobRow, since: datetime) -> Explanation | None:
    """Check all that stands between a published dispatch and an agent's claim."""
    return (
        around.check_broker(walk)
        or delivery.check_queue_exists(walk, row.queue, since)
        or delivery.check_agents(walk, row.queue, row.job_type, since=since)
    )


# -- between two attempts ------------------------------------------------------------------------------------


def _retrying(walk: Walk, facts: JobFacts) -> Explanation:
    row = facts.row
    is_unknown = row.error is not None and is_unknown_job_type(row.error)
    is_changed = row.error is not None and row.error.type == CODE_CHANGED
    # An announcement of its type wakes a job that agents have given back, or its next try.
    due = (
        row.wake_at if (is_unknown or is_changed) and row.dispatched_at is None else row.due_at
    ) or row.updated_at
    ended_at = facts.attempts[-1].finished_at if facts.attempts else row.updated_at

    walk.passed("attempts", f"{row.attempt - 1} so far, {row.failures} failed, {row.losses} lost")
    if found := _deadline_before(walk, row, due) or _held(walk, row):
        return found
    if is_changed:
        return end_changed_code(walk, facts, ended_at, max(due, walk.now))
    here = walk.system.alive_of(row.queue)
    if is_unknown and not any(row.job_type in (agent.job_types or ()) for agent in here):
        until = max(due, walk.now)
        return delivery.end_type_not_known(walk, row.queue, row.job_type, ended_at, until)
    later = _retry_later(walk, facts, due, ended_at) or _limited(walk, facts.limit)
    if found := later or around.check_broker(walk):
        return found
    lost = "dispatches the retry, if a delay queue has lost it"
    return (
        (around.check_supervisor(walk, lost, due) if walk.now - due > around.LATE else None)
        or delivery.check_binding(walk, row.queue, RETURN, due)
        or _on_its_way(walk, row, due)
        or delivery.end_in_turn(walk, row.queue, row.attempt, due)
    )


def _retry_later(walk: Walk, facts: JobFacts, due: datetime, ended_at: datetime) -> Explanation | None:
    row, allowed = facts.row, facts.row.policy.max_attempts
    if due <= walk.now:
        walk.passed("time", f"due {ago(due, walk.now)}")
        return None
    then = f"Attempt {row.attempt} of {allowed} begins"
    if row.attempt - 1 > row.failures:  # some were not charged, and the number alone would mislead
        then = f"With {row.failures} of at most {allowed} failures so far, attempt {row.attempt} begins"
    last = facts.attempts[-1] if facts.attempts else None
    if last is not None and last.outcome is AttemptOutcome.SNOOZED:
        snoozed = f"The handler of attempt {last.attempt} has put the job off"
        return walk.end(Cause.SNOOZED, snoozed, since=last.finished_at, until=due, next=then)
    failed = f"Attempt {row.attempt - 1} {_failed(row)}"
    detail = first_line(row.error.message) if row.error is not None else ""
    return walk.end(Cause.RETRY_WAIT, failed, detail=detail, since=ended_at, until=due, next=then)


def _failed(row: JobRow) -> str:
    """How the last attempt ended, by its error."""
    match row.error and row.error.kind:
        case ErrorKind.LOST:
            return "was lost with its agent"
        case ErrorKind.CRASH:
            return "ended its process"
        case ErrorKind.TIMEOUT:
            return "ran into its timeout"
        case _:
            return f"failed with {class_name(row.error.type)}" if row.error is not None else "is over"
