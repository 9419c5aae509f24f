"""Why a job does not go on, from its request to its end, in the order of the obstacles. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from warrener.explanations import delivery
from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import MAX_SKEW, JobFacts, class_name, deaths, ended_agents, first_line
from warrener.explanations.started_jobs import explain_ended, explain_running
from warrener.explanations.suggestions import DOCTOR, breaker, show_job
from warrener.render.times import ago, span
from warrener_contracts.circuit_breaker import BreakerState, paused_queue
from warrener_contracts.events import ErrorKind
from warrener_contracts.retryability import is_unknown_job_type
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DISPATCH, RETURN
from warrener_store.breakers.gate import BreakerRow
from warrener_store.jobs.rows import AttemptOutcome, JobRow

_UNPUBLISHED = timedelta(seconds=5)
"""Another service may be publishing a dispatch that is younger."""


def explain_job(facts: JobFacts) -> Explanation:
    """Explain the job's wait, or that it runs, or how it ended."""
    row = facts.row
    since = row.finished_at or row.started_at or row.dispatched_at or row.updated_at
    walk = Walk(f"job {row.job_id}", row.state.value, facts.system.now, since)
    around.note_troubles(walk, facts.system)
    _accepted(walk, facts)
    if row.state.terminal:
        return explain_ended(walk, facts)
    if (found := around.check_store(walk, facts.system)) is not None:
        return found
    match row.state:
        case JobState.WAITING:
            return _waiting(walk, facts)
        case JobState.RETRYING:
            return _retrying(walk, facts)
        case JobState.RUNNING:
            return explain_running(walk, facts)
        case _:
            return _queued(walk, facts)


def _accepted(walk: Walk, facts: JobFacts) -> None:
    row = facts.row
    walk.passed("request", f"accepted {ago(row.accepted_at, facts.system.now)}, from {row.source}")
    if facts.schedule is not None:
        walk.passed("schedule", f"requested by a tick of {facts.schedule}")
    if row.deadline_at is not None and not row.state.terminal:
        walk.note(f"it expires {ago(row.deadline_at, facts.system.now)}")
    if row.error is not None and row.error.crashes and not row.state.terminal:
        walk.note(
            f"its attempts end their processes: {deaths(row)} of {row.policy.quarantine_threshold} deaths"
            f" until it is quarantined, the last one: {first_line(row.error.crashes[-1])}; a cancel stops it"
        )


# -- before the first attempt --------------------------------------------------------------------------------


def _waiting(walk: Walk, facts: JobFacts) -> Explanation:
    row, system = facts.row, facts.system
    due = row.due_at or row.accepted_at
    return first(
        lambda: _deadline_before(walk, facts, due),
        lambda: _held(walk, facts),
        lambda: _due_later(walk, facts, due),
        lambda: around.check_broker(walk, system),
        lambda: around.check_scheduler(walk, system, "dispatches the job", due),
    ) or _not_dispatched(walk, facts, due)


def _deadline_before(walk: Walk, facts: JobFacts, due: datetime) -> Explanation | None:
    """End the walk if the deadline passes before the next attempt is due."""
    row = facts.row
    if row.deadline_at is None or row.deadline_at > due:
        return None
    first_one = row.state is JobState.WAITING
    when = ago(due, facts.system.now)
    return walk.end(
        "deadline",
        Cause.DEADLINE_BEFORE_START if first_one else Cause.DEADLINE_BEFORE_RETRY,
        f"Its deadline passes before {'the job' if first_one else f'attempt {row.attempt}'} is due, {when}",
        show_job(row.job_id),
        until=row.deadline_at,
        next="Request it again with a later deadline; this one expires",
    )


def _not_dispatched(walk: Walk, facts: JobFacts, due: datetime) -> Explanation:
    now = facts.system.now
    if now - due > around.LATE:
        return walk.end(
            "dispatch",
            Cause.SCHEDULER_LATE,
            "The job is due, and no scheduler has dispatched it",
            DOCTOR,
            since=due,
            next="A scheduler dispatches it once it works again: it may be frozen, or its store slow",
        )
    return walk.end(
        "dispatch",
        Cause.DISPATCHING,
        "The job is due",
        since=due,
        next="A scheduler dispatches it within a second",
    )


def _due_later(walk: Walk, facts: JobFacts, due: datetime) -> Explanation | None:
    row, now = facts.row, facts.system.now
    if due <= now:
        walk.passed("time", f"due {ago(due, now)}")
        return None
    ahead = row.requested_at - row.accepted_at
    if ahead > MAX_SKEW:
        return walk.end(
            "time",
            Cause.CLOCK_SKEW,
            f"The job waits for its time by the clock of {row.source}, which is {span(ahead)} ahead",
            DOCTOR,
            since=row.accepted_at,
            until=due,
            next="Let NTP set that clock; a scheduler dispatches the job",
        )
    return walk.end(
        "time",
        Cause.DELAYED,
        "The job waits for the time that its request gives",
        since=row.accepted_at,
        until=due,
        next="A scheduler dispatches it",
    )


def _held(walk: Walk, facts: JobFacts) -> Explanation | None:
    """End the walk if a circuit breaker holds the job back."""
    row, system = facts.row, facts.system
    blocking = system.breakers.find_blocking(row.job_type, row.policy, row.queue)
    if blocking is None:
        walk.passed("breakers", "none that it depends on is open")
        return None
    return held(walk, blocking, "the job")


def held(walk: Walk, by: BreakerRow, whom: str) -> Explanation:
    """End the walk: a circuit breaker holds jobs back, or their queue is paused."""
    if queue := paused_queue(by.name):
        return walk.end(
            "breakers",
            Cause.BREAKER_OPEN,
            f"Queue {queue} is paused and holds {whom} back",
            *breaker(by.name, is_manual=by.until is None),
            detail=by.reason,
            since=by.since,
            until=by.until and max(by.until, walk.now),
            next="Its jobs go on" if by.until else "It stays paused until somebody resumes it",
            by_itself=by.until is not None,
        )
    is_open = by.state is BreakerState.OPEN
    probes = f"{by.probes_succeeded} of {by.policy.half_open_calls}"
    by_itself = by.until is not None or not is_open
    if not is_open:
        what_next = f"It closes when all probes have succeeded, {probes} so far"
    else:
        what_next = "It admits a probe" if by_itself else "It stays open until somebody closes it"
    return walk.end(
        "breakers",
        Cause.BREAKER_OPEN,
        f"Breaker {by.name} is {'open' if is_open else 'half open'} and holds {whom} back",
        *breaker(by.name, is_manual=not by_itself),
        detail=by.reason if is_open else "",
        since=by.since,
        until=by.until and max(by.until, walk.now) if is_open else None,
        next=what_next,
        by_itself=by_itself,
    )


# -- on its way to an agent ----------------------------------------------------------------------------------


def _queued(walk: Walk, facts: JobFacts) -> Explanation:
    row, system = facts.row, facts.system
    if row.dispatched_at is None:
        return _unpublished(walk, facts)
    since = row.dispatched_at
    walk.passed("dispatch", f"attempt {row.attempt} published {ago(since, system.now)}")
    if since + row.policy.start_timeout <= system.now:
        walk.note(f"it waits longer than its start_timeout of {span(row.policy.start_timeout)}")
    if (found := _on_its_way(walk, facts, since)) is not None:
        return _without_victims(found, facts)
    return delivery.in_turn(walk, system, row.queue, row.attempt, since)


def _unpublished(walk: Walk, facts: JobFacts) -> Explanation:
    """Explain a dispatch that the broker does not have."""
    row, system = facts.row, facts.system
    since = facts.refusing_since or row.updated_at
    return first(
        lambda: around.check_broker(walk, system),
        lambda: delivery.check_queue_exists(walk, system, row.queue, since),
        lambda: delivery.check_binding(walk, system, row.queue, DISPATCH, since),
        lambda: around.check_supervisor(walk, system, "publishes the job", since),
        lambda: _just_refused(walk, facts),
    ) or delivery.refusing(walk, row.queue, since, f"attempt {row.attempt}")


def _just_refused(walk: Walk, facts: JobFacts) -> Explanation | None:
    row = facts.row
    if facts.refusing_since is not None or facts.system.now - row.updated_at > _UNPUBLISHED:
        return None
    return walk.end(
        "dispatch",
        Cause.DISPATCHING,
        f"Queue {row.queue} has not accepted attempt {row.attempt} yet",
        since=row.updated_at,
        next="A supervisor publishes it again within seconds",
    )


def _without_victims(found: Explanation, facts: JobFacts) -> Explanation:
    """Offer no further agent for a job whose attempts have ended their agents."""
    ended = ended_agents(facts.row)
    if not ended or not any("warrener agent " in command for command in found.commands):
        return found
    lost = f"{ended} of its attempts were lost with their agents: another agent may end too"
    return replace(found, suggestions=(show_job(facts.row.job_id),), notes=(*found.notes, lost))


def _on_its_way(walk: Walk, facts: JobFacts, since: datetime | None) -> Explanation | None:
    """Check all that stands between a published dispatch and an agent's claim."""
    row, system = facts.row, facts.system
    return first(
        lambda: around.check_broker(walk, system),
        lambda: delivery.check_queue_exists(walk, system, row.queue, since),
        lambda: delivery.check_agents(walk, system, row.queue, row.job_type, since=since),
    )


# -- between two attempts ------------------------------------------------------------------------------------


def _retrying(walk: Walk, facts: JobFacts) -> Explanation:
    row, system = facts.row, facts.system
    due = (row.wake_at if _awaits_announcement(row) else row.due_at) or row.updated_at
    lost = "dispatches the retry, if a delay queue has lost it"
    walk.passed("attempts", f"{row.attempt - 1} so far, {row.failures} failed, {row.losses} lost")
    return first(
        lambda: _deadline_before(walk, facts, due),
        lambda: _held(walk, facts),
        lambda: _returned(walk, facts, due),
        lambda: _retry_later(walk, facts, due),
        lambda: around.check_broker(walk, system),
        lambda: None if system.now - due <= around.LATE else around.check_supervisor(walk, system, lost, due),
        lambda: delivery.check_binding(walk, system, row.queue, RETURN, due),
        lambda: _on_its_way(walk, facts, due),
    ) or delivery.in_turn(walk, system, row.queue, row.attempt, due)


def _returned(walk: Walk, facts: JobFacts, due: datetime) -> Explanation | None:
    """End the walk if an agent has returned the job because it does not know the type, and none here does."""
    row, system = facts.row, facts.system
    if row.error is None or not is_unknown_job_type(row.error) or _any_agent_knows(facts):
        return None
    until = max(due, system.now)
    return delivery.type_not_known(walk, system, row.queue, row.job_type, since=_ended_at(facts), until=until)


def _retry_later(walk: Walk, facts: JobFacts, due: datetime) -> Explanation | None:
    row, now = facts.row, facts.system.now
    if due <= now:
        walk.passed("time", f"due {ago(due, now)}")
        return None
    last = facts.attempts[-1] if facts.attempts else None
    if last is not None and last.outcome is AttemptOutcome.SNOOZED:
        return walk.end(
            "retry",
            Cause.SNOOZED,
            f"The handler of attempt {last.attempt} has put the job off",
            since=last.finished_at,
            until=due,
            next=_next_attempt(row),
        )
    return walk.end(
        "retry",
        Cause.RETRY_WAIT,
        f"Attempt {row.attempt - 1} {_failed(row)}",
        detail=first_line(row.error.message) if row.error is not None else "",
        since=_ended_at(facts),
        until=due,
        next=_next_attempt(row),
    )


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


def _next_attempt(row: JobRow) -> str:
    """`Attempt 3 of 5 begins`; with the failures where the number alone would mislead."""
    limit = row.policy.max_attempts
    if row.attempt - 1 > row.failures:  # some were not charged
        return f"With {row.failures} of at most {limit} failures so far, attempt {row.attempt} begins"
    return f"Attempt {row.attempt} of {limit} begins"


def _awaits_announcement(row: JobRow) -> bool:
    """True if an announcement of its type wakes a job that agents have given back, or its next try."""
    return row.dispatched_at is None and row.error is not None and is_unknown_job_type(row.error)


def _any_agent_knows(facts: JobFacts) -> bool:
    """True if a living agent of the job's queue says that it knows the type."""
    here = facts.system.alive_of(facts.row.queue)
    return any(agent.job_types is not None and facts.row.job_type in agent.job_types for agent in here)


def _ended_at(facts: JobFacts) -> datetime:
    return facts.attempts[-1].finished_at if facts.attempts else facts.row.updated_at
