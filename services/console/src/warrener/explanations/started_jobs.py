"""Why a job runs on, and how it ended: its agent, its timeout, its dead letter. Pure."""

from collections import Counter
from datetime import timedelta

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk, first
from warrener.explanations.facts import (
    MAX_SKEW,
    JobFacts,
    attempts_text,
    class_name,
    consumes_nothing,
    counted,
    deaths,
    ended_agents,
    first_line,
)
from warrener.explanations.suggestions import redrive_job, show_agent, show_dead_letter, show_job
from warrener.render.times import ago, span
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterState
from warrener_store.jobs.rows import JobRow

_AGENT_TIMEOUT = timedelta(seconds=8)
"""Silence after which a supervisor takes an agent for lost, by default."""


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
            f"Agent {row.agent_id} is to stop attempt {row.attempt}, and has not reported its end",
            show_agent(row.agent_id or ""),
            detail=row.cancel_reason,
            since=row.updated_at,
            next="It reports the end; if it falls silent, the attempt counts as lost",
        )
    found = first(
        lambda: around.check_broker(walk, system),
        lambda: around.check_supervisor(walk, system, "records how the job ended", began),
        lambda: _owner_silent(walk, facts),
    )
    if found is not None:
        return found
    end = began + row.policy.timeout
    if end <= system.now:
        return walk.end(
            "timeout",
            Cause.TIMED_OUT,
            f"Attempt {row.attempt} runs past its timeout of {span(row.policy.timeout)}",
            show_agent(row.agent_id or ""),
            since=end,
            next=f"Its agent stops it, and {_after_failure(row)}",
        )
    progress = f", {row.progress:.0%} done" if row.progress is not None else ""
    return walk.end(
        "attempt",
        Cause.RUNNING,
        f"Attempt {row.attempt} runs on agent {row.agent_id}{progress}",
        show_agent(row.agent_id or ""),
        since=began,
        until=end,
        next=f"If it fails, {_after_failure(row)}; its timeout passes",
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
    how = "consumes no queue any longer: it has just ended or been cut off" if is_gone else "is silent"
    loss, limit = row.losses + 1, row.policy.max_lost_attempts
    return walk.end(
        "heartbeats",
        Cause.AGENT_LOST,
        f"Agent {row.agent_id} on {owner.host}, which runs attempt {row.attempt}, {how}",
        show_agent(owner.agent_id),
        since=seen,
        until=max(seen + _AGENT_TIMEOUT, system.now),
        next=f"Loss {loss} of at most {limit} is not charged: a supervisor retries the job elsewhere"
        if loss <= limit
        else f"After {loss} losses, a supervisor ends the job",
    )


def _after_failure(row: JobRow) -> str:
    return "it is retried" if row.policy.max_attempts - row.failures > 1 else "the job is dead"


# -- over ----------------------------------------------------------------------------------------------------


def explain_ended(walk: Walk, facts: JobFacts) -> Explanation:
    """Explain how a job ended, and what was done about its dead letter."""
    row = facts.row
    walk.passed("attempts", f"{row.attempt}, {row.failures} failed, {row.losses} lost")
    if row.state is JobState.DEAD:
        return _dead(walk, facts)
    if row.state is JobState.SUCCEEDED:
        took = span((row.finished_at or row.updated_at) - row.requested_at)
        return _over(walk, row, Cause.SUCCEEDED, f"Succeeded {took} after its request")
    if row.state is JobState.CANCELLED:
        reason = row.cancel_reason or ""
        return _over(walk, row, Cause.CANCELLED, f"Cancelled{'' if reason else ' without a reason'}", reason)
    skew = row.accepted_at - row.requested_at
    if not row.attempt and row.deadline_at is not None and row.deadline_at <= row.accepted_at:
        late = f", {span(skew)} after its request" if skew > MAX_SKEW else ""
        sentence = f"Expired without an attempt: its deadline had passed when it was accepted{late}"
        return _over(walk, row, Cause.EXPIRED, sentence)
    return _over(walk, row, Cause.EXPIRED, "Expired: its deadline passed before it could succeed")


def _over(walk: Walk, row: JobRow, cause: Cause, sentence: str, detail: str = "") -> Explanation:
    again = "Request it again under a new id" if cause is Cause.EXPIRED else ""
    return walk.end("end", cause, sentence, detail=detail, since=row.finished_at, next=again, over=True)


def _dead(walk: Walk, facts: JobFacts) -> Explanation:
    row, dead_letter = facts.row, facts.dead_letter
    sentence, detail = _cause_of_death(facts)
    if dead_letter is None or dead_letter.state.unresolved:
        if dead_letter is not None and dead_letter.note:
            walk.note(dead_letter.note)
        is_safe = not ended_agents(row)
        look = show_dead_letter(row.job_id, dead_letter.fingerprint if dead_letter is not None else None)
        return walk.end(
            "dead letter",
            Cause.DEAD_LETTER,
            sentence,
            redrive_job(row.job_id) if is_safe else look,
            detail=detail,
            since=row.finished_at,
            next=f"{'A' if is_safe else 'Find what ends its processes first; a'} redrive requests it again",
        )
    if dead_letter.state is DeadLetterState.DROPPED:
        note = f": {dead_letter.note}" if dead_letter.note else " without a reason"
        return walk.end(
            "dead letter",
            Cause.DROPPED,
            f"{sentence}; its dead letter was dropped{note}",
            detail=detail,
            since=row.finished_at,
            next="",
            over=True,
        )
    new = dead_letter.redriven_as
    return walk.end(
        "dead letter",
        Cause.REDRIVEN,
        f"{sentence}; redriven{f' as job {new}' if new else ''}",
        *((show_job(new),) if new else ()),
        detail=detail,
        since=row.finished_at,
        next=_after_redrive(dead_letter.state, facts.redriven_as),
        over=True,
    )


def _cause_of_death(facts: JobFacts) -> tuple[str, str]:
    """Why the job is dead, and the error behind it; no word of the one is repeated in the other."""
    row, error = facts.row, facts.row.error
    if error is not None and deaths(row) >= row.policy.quarantine_threshold:
        texts = Counter(crash.partition(": ")[2] for crash in error.crashes)
        each = (f"{text} ({count} times)" if count > 1 else text for text, count in texts.items())
        sentence = f"Quarantined after {counted(deaths(row), 'attempt')} that ended with their process"
        return sentence, "; ".join(each)
    limit = row.policy.max_attempts
    tried = attempts_text(row.state, row.attempt, row.failures, row.losses, limit, noun="attempt")
    sentence = f"Dead after {tried}"
    is_used_up = row.failures >= limit or row.losses > row.policy.max_lost_attempts
    if facts.dead_letter is not None and not is_used_up:
        sentence += f": {facts.dead_letter.reason}"
    if error is None:
        return sentence, ""
    name, message = class_name(error.type), first_line(error.message)
    return sentence, message if name in sentence else f"{name}: {message}"


def _after_redrive(state: DeadLetterState, new: JobRow | None) -> str:
    match state:
        case DeadLetterState.CLAIMED:
            return "A redrive has claimed it, and requests it again in its turn"
        case DeadLetterState.REDRIVEN:
            return f"Its new job{f', {new.state.value} now,' if new is not None else ''} goes on in its place"
        case DeadLetterState.DIED_AGAIN | DeadLetterState.DIED:
            return "Its new job has died too, and has a dead letter of its own"
        case DeadLetterState.ALREADY_SUCCEEDED:
            return "The same request has succeeded under another id"
        case _:
            return "Its new job has succeeded"
