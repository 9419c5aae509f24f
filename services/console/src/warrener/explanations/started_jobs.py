"""Why a job runs on, and how it ended: its agent, its timeout, its dead letter. Pure."""

from collections import Counter
from datetime import timedelta

from warrener.explanations import facts
from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause
from warrener.explanations.explanation import Explanation, Walk
from warrener.explanations.suggestions import redrive_job, show_agent, show_dead_letter, show_job
from warrener.render.times import ago, span
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterState
from warrener_store.jobs.rows import JobRow
from warrener_store.jobs.unique import replaced_by

_AGENT_TIMEOUT = timedelta(seconds=8)  # silence after which a supervisor takes an agent for lost, by default


# -- running -------------------------------------------------------------------------------------------------


def explain_running(walk: Walk, row: JobRow) -> Explanation:
    """Explain a job that an agent has claimed."""
    began, show = row.started_at or row.updated_at, show_agent(row.agent_id or "")
    walk.passed("claim", f"attempt {row.attempt} is held by {row.agent_id}, begun {ago(began, walk.now)}")
    if row.cancel_reason:
        sentence = f"Agent {row.agent_id} is to stop attempt {row.attempt}, and has not reported its end"
        reason, then = row.cancel_reason, "It reports the end; if it falls silent, the attempt counts as lost"
        return walk.end(
            Cause.CANCEL_REQUESTED, sentence, show, detail=reason, since=row.updated_at, next=then
        )
    if found := (
        around.check_broker(walk)
        or around.check_supervisor(walk, "records how the job ended", began)
        or _owner_silent(walk, row)
    ):
        return found
    end = began + row.timeout
    failure = "it is retried" if row.policy.max_attempts - row.failures > 1 else "the job is dead"
    if end <= walk.now:
        sentence = f"Attempt {row.attempt} runs past its timeout of {span(row.timeout)}"
        return walk.end(Cause.TIMED_OUT, sentence, show, since=end, next=f"Its agent stops it, and {failure}")
    progress = f", {row.progress:.0%} done" if row.progress is not None else ""
    sentence = f"Attempt {row.attempt} runs on agent {row.agent_id}{progress}"
    then = f"If it fails, {failure}; its timeout passes"
    return walk.end(Cause.RUNNING, sentence, show, since=began, until=end, next=then)


def _owner_silent(walk: Walk, row: JobRow) -> Explanation | None:
    """End the walk if the agent that runs it is silent."""
    owner = next((agent for agent in walk.system.agents if agent.agent_id == row.agent_id), None)
    if owner is None:
        walk.unknown("heartbeats", f"none of {row.agent_id} is stored yet")
        return None
    seen, is_gone = owner.last_seen_at, facts.consumes_nothing(walk.system, owner)
    if not walk.system.is_silent(owner) and not is_gone:
        walk.passed("heartbeats", f"its agent was seen {ago(seen, walk.now)}")
        if around.is_permission(owner.trouble or ""):
            walk.note(f"the broker refuses its agent: {owner.trouble}")
        return None
    how = "consumes no queue any longer: it has just ended or been cut off" if is_gone else "is silent"
    sentence = f"Agent {row.agent_id} on {owner.host}, which runs attempt {row.attempt}, {how}"
    loss, limit, until = row.losses + 1, row.policy.max_lost_attempts, max(seen + _AGENT_TIMEOUT, walk.now)
    then = f"After {loss} losses, a supervisor ends the job"
    if loss <= limit:
        then = f"Loss {loss} of at most {limit} is not charged: a supervisor retries the job elsewhere"
    return walk.end(
        Cause.AGENT_LOST, sentence, show_agent(owner.agent_id), since=seen, until=until, next=then
    )


# -- over ----------------------------------------------------------------------------------------------------


def explain_ended(walk: Walk, job: facts.JobFacts) -> Explanation:
    """Explain how a job ended, and what was done about its dead letter."""
    row, reason = job.row, ""
    walk.passed("attempts", f"{row.attempt}, {row.failures} failed, {row.losses} lost")
    skew = row.accepted_at - row.requested_at
    match row.state:
        case JobState.DEAD:
            return _dead(walk, job)
        case JobState.SUCCEEDED:
            took = span((row.finished_at or row.updated_at) - row.requested_at)
            cause, sentence = Cause.SUCCEEDED, f"Succeeded {took} after its request"
        case JobState.CANCELLED:
            cause, reason = Cause.CANCELLED, row.cancel_reason or ""
            sentence = f"Cancelled{'' if reason else ' without a reason'}"
        case _ if not row.attempt and row.deadline_at is not None and row.deadline_at <= row.accepted_at:
            late = f", {span(skew)} after its request" if skew > facts.MAX_SKEW else ""
            sentence = f"Expired without an attempt: its deadline had passed when it was accepted{late}"
            cause = Cause.EXPIRED
        case _:
            cause, sentence = Cause.EXPIRED, "Expired: its deadline passed before it could succeed"
    new = replaced_by(reason)
    remedies = () if new is None else (show_job(new),)
    return walk.end(cause, sentence, *remedies, detail=reason, since=row.finished_at)


def _dead(walk: Walk, job: facts.JobFacts) -> Explanation:
    row, dead_letter = job.row, job.dead_letter
    sentence, detail = _cause_of_death(job)
    if dead_letter is None or dead_letter.state.unresolved:
        if dead_letter is not None and dead_letter.note:
            walk.note(dead_letter.note)
        cause, remedies = Cause.DEAD_LETTER, [redrive_job(row.job_id)]
        then = "A redrive requests it again"
        if facts.ended_agents(row):
            fingerprint = dead_letter.fingerprint if dead_letter is not None else None
            remedies = [show_dead_letter(row.job_id, fingerprint)]
            then = "Find what ends its processes first; a redrive requests it again"
    elif dead_letter.state is DeadLetterState.DROPPED:
        cause, remedies, then = Cause.DROPPED, [], ""
        note = f": {dead_letter.note}" if dead_letter.note else " without a reason"
        sentence += f"; its dead letter was dropped{note}"
    else:
        cause, new = Cause.REDRIVEN, dead_letter.redriven_as
        remedies = [show_job(new)] if new else []
        sentence += f"; redriven{f' as job {new}' if new else ''}"
        then = _after_redrive(dead_letter.state, job.redriven_as)
    return walk.end(cause, sentence, *remedies, detail=detail, since=row.finished_at, next=then)


def _cause_of_death(job: facts.JobFacts) -> tuple[str, str]:
    """Why the job is dead, and the error behind it; no word of the one is repeated in the other."""
    row, error = job.row, job.row.error
    if error is not None and facts.deaths(row) >= row.policy.quarantine_threshold:
        texts = Counter(crash.partition(": ")[2] for crash in error.crashes)
        each = (f"{text} ({count} times)" if count > 1 else text for text, count in texts.items())
        ended = facts.counted(facts.deaths(row), "attempt")
        return f"Quarantined after {ended} that ended with their process", "; ".join(each)
    limit = row.policy.max_attempts
    tried = facts.attempts_text(row.state, row.tries, row.failures, row.losses, limit, noun="attempt")
    sentence = f"Dead after {tried}"
    is_used_up = row.failures >= limit or row.losses > row.policy.max_lost_attempts
    if job.dead_letter is not None and not is_used_up:
        sentence += f": {job.dead_letter.reason}"
    if error is None:
        return sentence, ""
    name, message = facts.class_name(error.type), facts.first_line(error.message)
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
