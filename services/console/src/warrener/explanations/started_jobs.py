"""Why a job runs on, and how it ended: its agent, its timeout, its dead letter. Pure."""

from datetime import timedelta

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import MAX_SKEW, JobFacts, consumes_nothing, first_line
from warrener.render.times import ago, span
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterState
from warrener_store.jobs.rows import JobRow

_AGENT_TIMEOUT = timedelta(seconds=8)
"""Silence after which a supervisor takes an agent for lost, by default."""
_NO_REASON = "no reason was given"


# -- running -------------------------------------------------------------------------------------------------


def explain_running(walk: Walk, facts: JobFacts) -> Explanation:
    """Explain a job that an agent has claimed."""
    row, system = facts.row, facts.system
    began = row.started_at or row.updated_at
    walk.passed("claim", f"attempt {row.attempt} is held by {row.agent_id}, begun {ago(began, system.now)}")
    if row.cancel_reason:
        return walk.end(
            "cancel",
            Cause.CANCEL_REQUESTED,
            f"its cancellation was requested ({row.cancel_reason}), and its agent has not reported its end",
            since=row.updated_at,
            next=f"{row.agent_id} stops the handler and reports it; if it falls silent, it counts as lost",
            command=f"warrener explain {row.agent_id}",
        )
    found = first(
        lambda: around.check_broker(walk, system),
        lambda: around.check_supervisor(walk, system, "records how it ended", began),
        lambda: _owner_silent(walk, facts),
    )
    if found is not None:
        return found
    end = began + row.policy.timeout
    if end <= system.now:
        return walk.end(
            "timeout",
            Cause.TIMED_OUT,
            f"it runs past its timeout of {span(row.policy.timeout)}",
            since=end,
            next=f"its agent stops it; {_after_failure(row)}",
            command=f"warrener job {row.job_id}",
        )
    progress = f", {row.progress:.0%} done" if row.progress is not None else ""
    return walk.end(
        "attempt",
        Cause.RUNNING,
        f"attempt {row.attempt} runs on {row.agent_id}{progress}",
        since=began,
        until=end,
        next=f"it may run {span(end - system.now)} longer; if it fails: {_after_failure(row)}",
    )


def _owner_silent(walk: Walk, facts: JobFacts) -> Explanation | None:
    """End the walk if the agent that runs it is silent."""
    row, system = facts.row, facts.system
    owner = next((agent for agent in system.agents if agent.agent_id == row.agent_id), None)
    if owner is None:
        walk.unknown("heartbeats", f"none of {row.agent_id} is stored yet")
        return None
    seen = owner.last_seen_at
    is_gone = consumes_nothing(system, owner)
    if not system.is_silent(owner) and not is_gone:
        walk.passed("heartbeats", f"its agent was seen {ago(seen, system.now)}")
        if around.is_permission(owner.trouble or ""):
            walk.note(f"the broker refuses its agent: {owner.trouble}")
        return None
    gone = ", and consumes no queue any longer: it has just ended or been cut off" if is_gone else ""
    return walk.end(
        "heartbeats",
        Cause.AGENT_LOST,
        f"its agent {row.agent_id} on {owner.host} was seen {ago(seen, system.now)}{gone}",
        since=seen,
        until=max(seen + _AGENT_TIMEOUT, system.now),
        next=f"a supervisor retries it on another agent; {row.policy.max_lost_attempts} losses are uncharged",
        command=f"warrener explain {row.agent_id}",
    )


def _after_failure(row: JobRow) -> str:
    return "then retried" if row.policy.max_attempts - row.failures > 1 else "then it is dead"


# -- over ----------------------------------------------------------------------------------------------------


def explain_ended(walk: Walk, facts: JobFacts) -> Explanation:
    """Explain how a job ended, and what was done about its dead letter."""
    row = facts.row
    walk.passed("attempts", f"{row.attempt}, {row.failures} failed, {row.losses} lost")
    if row.state is JobState.DEAD:
        return _dead(walk, facts)
    if row.state is JobState.SUCCEEDED:
        took = span((row.finished_at or row.updated_at) - row.requested_at)
        return _over(walk, row, Cause.SUCCEEDED, f"it has succeeded, {took} after its request")
    if row.state is JobState.CANCELLED:
        return _over(walk, row, Cause.CANCELLED, f"it was cancelled: {row.cancel_reason or _NO_REASON}")
    skew = row.accepted_at - row.requested_at
    if not row.attempt and row.deadline_at is not None and row.deadline_at <= row.accepted_at:
        late = f"; its request arrived {span(skew)} after its own time" if skew > MAX_SKEW else ""
        return _over(
            walk, row, Cause.EXPIRED, f"its deadline had passed when it was accepted{late}: it got no attempt"
        )
    return _over(walk, row, Cause.EXPIRED, "its deadline passed before it could succeed")


def _over(walk: Walk, row: JobRow, cause: Cause, sentence: str) -> Explanation:
    again = "; request it again under a new id" if cause is Cause.EXPIRED else ""
    return walk.end(
        "end",
        cause,
        sentence,
        since=row.finished_at,
        next=f"nothing: it has ended{again}",
        command=f"warrener job {row.job_id}",
        over=True,
    )


def _dead(walk: Walk, facts: JobFacts) -> Explanation:
    row, dead_letter = facts.row, facts.dead_letter
    why = f": {row.error.type}: {first_line(row.error.message)}" if row.error is not None else ""
    if dead_letter is None or dead_letter.state.unresolved:
        note = f" ({dead_letter.note})" if dead_letter is not None and dead_letter.note else ""
        reason = f"it is dead, {dead_letter.reason}" if dead_letter is not None else "it is dead"
        return walk.end(
            "dead letter",
            Cause.DEAD_LETTER,
            f"{reason}{why}",
            since=row.finished_at,
            next=f"nothing: no further attempt is made; a redrive requests it again{note}",
            command=f"warrener dead-letters {'show' if facts.ended_agents else 'redrive'} {row.job_id}",
        )
    if dead_letter.state is DeadLetterState.DROPPED:
        return walk.end(
            "dead letter",
            Cause.DROPPED,
            f"it is dead{why}; its dead letter was dropped: {dead_letter.note or _NO_REASON}",
            since=row.finished_at,
            next="nothing: it was decided not to redrive it",
            command=f"warrener dead-letters show {row.job_id}",
            over=True,
        )
    new = facts.redriven_as
    as_what = f" as job {dead_letter.redriven_as}" if dead_letter.redriven_as else ""
    now = f", which is {new.state.value} now" if new is not None else ""
    follow = f"warrener explain {dead_letter.redriven_as}" if dead_letter.redriven_as else None
    return walk.end(
        "dead letter",
        Cause.REDRIVEN,
        f"it is dead{why}; it was redriven{as_what}{now}",
        since=row.finished_at,
        next=_after_redrive(dead_letter.state),
        command=follow or f"warrener dead-letters show {row.job_id}",
        over=True,
    )


def _after_redrive(state: DeadLetterState) -> str:
    match state:
        case DeadLetterState.CLAIMED:
            return "a redrive has claimed it, and requests it again in its turn"
        case DeadLetterState.REDRIVEN:
            return "its new job goes on in its place"
        case DeadLetterState.DIED_AGAIN | DeadLetterState.DIED:
            return "nothing: its new job has died too, and has a dead letter of its own"
        case DeadLetterState.ALREADY_SUCCEEDED:
            return "nothing: the same request has succeeded under another id"
        case _:
            return "nothing: its new job has succeeded"
