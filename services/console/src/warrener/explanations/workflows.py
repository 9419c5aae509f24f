"""Why a workflow does not go on: the calls and the timer that it waits for, and what it undoes. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from warrener.explanations import surroundings as around
from warrener.explanations.causes import Cause, StepStatus
from warrener.explanations.explanation import Explanation, Step, Suggestion, Walk
from warrener.explanations.facts import MAX_COUNTED_BATCHES, JobFacts, class_name, counted, first_line
from warrener.explanations.suggestions import (
    DOCTOR,
    end_hold,
    redrive_job,
    run,
    send_signal,
    show_job,
    show_journal,
)
from warrener.render.times import ago
from warrener_contracts.identity import undo_job_id
from warrener_contracts.journals import (
    all_calls,
    answers_by_call,
    current_calls,
    next_timer,
    open_calls,
    open_retries,
    unawaited_signals,
)
from warrener_contracts.state_machine import JobState

if TYPE_CHECKING:
    from warrener_contracts.events import Call

_MAX_SIGNALS = 5  # that an explanation names


def explain_suspended(walk: Walk, facts: JobFacts, awaited: Explanation | None) -> Explanation:
    """Explain a workflow that is suspended; `awaited` is about the job that it waits for."""
    row = facts.row
    _pass_turns(walk, facts)
    if found := (
        around.check_broker(walk) or around.check_supervisor(walk, "makes its next turn", row.updated_at)
    ):
        return found
    if row.ending is not None:
        return _undoing(walk, facts, awaited)
    calls, timer = open_calls(facts.turns), next_timer(facts.turns)
    children = [
        facts.jobs[call.job_id] for call in calls if call.job_id is not None and call.job_id in facts.jobs
    ]
    due = [child.finished_at for child in children if child.finished_at is not None]
    if not (calls or timer) or (row.wake_at is not None and row.wake_at <= walk.now):
        due.append(row.wake_at or row.updated_at)
    if due:
        return _due(walk, "The next turn of the workflow", min(due))
    if not calls:
        at, line = timer or (None, "")
        sentence = f"The workflow sleeps{f', at {line}' if line else ''}"
        return walk.end(
            Cause.TIMER_AWAITED, sentence, since=row.updated_at, until=at, next="Its next turn begins"
        )
    return _awaiting(walk, facts, calls, timer[0] if timer else None, awaited)


def _pass_turns(walk: Walk, facts: JobFacts) -> None:
    """Note the turns, which are the attempts of a workflow."""
    since = f", its generation since turn {facts.row.generation}" if facts.row.generation else ""
    walk.passed("turns", f"{counted(facts.row.attempt, 'turn')} so far{since}")


def _awaiting(
    walk: Walk, facts: JobFacts, calls: "Sequence[Call]", until: datetime | None, awaited: Explanation | None
) -> Explanation:
    """End the walk: the workflow waits for these calls, and no longer than `until`."""
    row, call = facts.row, _awaited_call(facts, calls)
    batches = batches_of(call, calls)
    others = len(calls) - max(len(batches), 1)
    more = f", and for {counted(others, 'more call')}" if others else ""
    latest = ", at the latest" if until else ""
    is_signal = call.kind.value == "signal"
    name = f"signal {call.name}" if is_signal else call.name
    if call.size is not None:
        size = sum(one.size or 0 for one in batches_of(call, current_calls(facts.turns).values()))
        bound = "at most " if len(batches) > MAX_COUNTED_BATCHES else ""
        name = f"{bound}{facts.members_left:,} of {counted(size, 'job')} of {call.name}"
    sentence = f"The workflow waits for {name}{_at(call)}{more}"
    if is_signal:
        send = send_signal(row.job_id, call.name)
        then = f"Its next turn begins with `{send.command}`{latest}"
        return walk.end(Cause.SIGNAL_AWAITED, sentence, send, since=row.updated_at, until=until, next=then)
    if (retry := open_retries(facts.turns).get(call.call_id)) is not None:
        sentence = f"The workflow waits for step {call.name}{_at(call)}{more}, which has failed"
        return walk.end(
            Cause.TIMER_AWAITED,
            sentence,
            detail=f"try {retry.tries}: {first_line(retry.error)}",
            since=row.updated_at,
            until=retry.retry_at,
            next="It is tried again",
        )
    end = "end of the job" if call.size is None else "last end of them"
    then = f"Its next turn begins with the {end}{latest}"
    return _end_awaiting(walk, Cause.CALL_AWAITED, sentence, facts, awaited, until=until, then=then)


def batches_of(call: "Call", calls: "Iterable[Call]") -> "list[Call]":
    """The batches of the map that this call is a batch of; of another call none."""
    map_id = call.call_id.rpartition("/")[0]
    return [one for one in calls if one.size and call.size and one.call_id.rpartition("/")[0] == map_id]


def _awaited_call(facts: JobFacts, calls: "Sequence[Call]") -> "Call":
    """The call to name: one whose request is parked, for it needs somebody; else the first, and of those for
    jobs the one whose job is explained."""
    if facts.parked_child is not None:
        return next((one for one in calls if str(one.job_id) == facts.parked_child.text), calls[0])
    if facts.awaited is not None and calls[0].kind.value == "job":
        return next((one for one in calls if one.job_id == facts.awaited.row.job_id), calls[0])
    return calls[0]


def explain_held(walk: Walk, facts: JobFacts) -> Explanation:
    """Explain a workflow that has failed, and that only an operator carries on."""
    row, calls = facts.row, current_calls(facts.turns)
    answers = answers_by_call(facts.turns).values()
    ended = [(calls.get(one.call_id or ""), one.state) for one in answers]
    failed = [call for call, state in ended if call is not None and state not in {None, JobState.SUCCEEDED}]
    _pass_turns(walk, facts)
    return walk.end(
        Cause.HELD,
        f"The workflow has failed, and is held: {row.ending_reason}",
        *end_hold(row.job_id, failed[-1] if failed else None),
        detail=f"{row.error.type}: {first_line(row.error.message)}" if row.error is not None else "",
        since=row.updated_at,
    )


def _undoing(walk: Walk, facts: JobFacts, awaited: Explanation | None) -> Explanation:
    """Explain a workflow whose end is decided: its child jobs end first, then each undo in its turn."""
    row, calls = facts.row, all_calls(facts.turns)
    end = row.ending.value if row.ending is not None else ""
    walk.passed("end", f"{end}{f', {row.ending_reason}' if row.ending_reason else ''}")
    children = (facts.jobs.get(call.job_id) for call in calls if call.job_id and not call.detached)
    if alive := [child for child in children if child is not None and not child.state.terminal]:
        sentence = f"The workflow ends as {end}, and waits for {counted(len(alive), 'child job')}"
        then = f"The undo of its calls begins, then it is {end}"
        return _end_awaiting(walk, Cause.UNDOING, sentence, facts, awaited, then=then)
    left = [call for call in reversed(calls) if _has_to_be_undone(facts, call)]
    if not left:
        return _due(walk, "The end of the workflow", row.wake_at or row.updated_at)
    call = left[0]
    undo = call.undo.job_type if call.undo is not None else ""
    sentence = f"The workflow ends as {end}, and waits for {undo}, the undo of {call.name}{_at(call)}"
    more = f"After this and {counted(len(left) - 1, 'more undo')}" if len(left) > 1 else "After this"
    then = f"{more} it is {end}"
    return _end_awaiting(walk, Cause.UNDOING, sentence, facts, awaited, then=then)


def _has_to_be_undone(facts: JobFacts, call: "Call") -> bool:
    """True if the undo of a call has not ended; a child job that never had an attempt needs none."""
    if call.undo is None:
        return False
    child = call.job_id and facts.jobs.get(call.job_id)
    undo = facts.jobs.get(undo_job_id(facts.row.job_id, call.undo_key))
    return not (child and child.attempt == 0) and (undo is None or not undo.state.terminal)


def _end_awaiting(
    walk: Walk,
    cause: Cause,
    sentence: str,
    facts: JobFacts,
    awaited: Explanation | None,
    *,
    then: str,
    until: datetime | None = None,
) -> Explanation:
    """End the walk: another job has to end first, and blocks the workflow if it is blocked itself."""
    detail, suggestions, job = "its request is not accepted yet", list[Suggestion](), facts.awaited
    if facts.parked_child is not None and awaited is not None:
        job_id, job = facts.parked_child.text, None
        detail = f"job {job_id}: {awaited.line}"
        suggestions = [run(f"warrener explain {job_id}"), *awaited.suggestions]
    elif job is not None and awaited is not None:
        detail = f"job {job.row.job_id} is {awaited.state}: {awaited.line}"
        suggestions = [show_job(job.row.job_id), *awaited.suggestions]
    return walk.end(
        cause,
        sentence,
        *suggestions,
        detail=detail,
        since=job.row.requested_at if job is not None else None,
        until=until,
        next=then,
        by_itself=awaited is None or not awaited.needs_action,
    )


def explain_undos(facts: JobFacts, found: Explanation) -> Explanation:
    """Add to the explanation of a workflow that is over what was undone. If some of it could not be, that is
    the cause, whatever the end: somebody has to undo it."""
    calls, job_id = reversed(all_calls(facts.turns)), facts.row.job_id
    undos = ((call, facts.jobs.get(undo_job_id(job_id, call.undo_key))) for call in calls)
    ended = [(call, undo) for call, undo in undos if undo is not None and undo.state.terminal]
    undone = [call.name for call, undo in ended if undo.state is JobState.SUCCEEDED]
    left = [each for each in ended if each[1].state is not JobState.SUCCEEDED]
    failed = [(call, undo) for call, undo in left if undo.job_id not in facts.settled]
    *steps, last = found.steps
    if undone:
        steps.append(Step("undo", StepStatus.PASSED, f"undone: {', '.join(undone)}"))
    if not failed:
        return replace(found, steps=(*steps, last))
    (call, undo), error = failed[0], failed[0][1].error
    why = undo.cancel_reason or "its deadline has passed"
    if error is not None:
        why = f"{class_name(error.type)}: {first_line(error.message)}"
    more = f", and {counted(len(failed) - 1, 'more undo')} failed" if len(failed) > 1 else ""
    dos = [(redrive_job if one.state is JobState.DEAD else show_job)(one.job_id) for _, one in failed]
    return replace(
        found,
        cause=Cause.UNDO_FAILED,
        needs_action=True,
        sentence=f"{found.sentence}; {call.name}{_at(call)} could not be undone{more}",
        detail=f"{undo.job_type}, job {undo.job_id}, is {undo.state.value}: {why}",
        next=Cause.UNDO_FAILED.next,
        suggestions=(*dos, *found.suggestions),
        steps=(*steps, Step(Cause.UNDO_FAILED.step, StepStatus.BLOCKED, "")),
        notes=(*found.notes, found.detail) if found.detail else found.notes,
    )


def note_signals(walk: Walk, facts: JobFacts) -> None:
    """Note the signals that the workflow has received and does not await."""
    for signal in unawaited_signals(facts.turns, facts.signals)[-_MAX_SIGNALS:]:
        walk.note(f"signal {signal.name}, received {ago(signal.received_at, walk.now)}, is not awaited")


def _due(walk: Walk, what: str, due: datetime) -> Explanation:
    if walk.now - due <= around.LATE:
        then = "A supervisor makes it within a second"
        return walk.end(Cause.DISPATCHING, f"{what} is due", since=due, next=then)
    sentence = f"{what} is due, and no supervisor has made it"
    then = "A supervisor makes it once it works again: it may be frozen, or its store slow"
    return walk.end(Cause.SUPERVISOR_STALLED, sentence, DOCTOR, at="turn", since=due, next=then)


def end_changed_code(walk: Walk, facts: JobFacts, since: datetime, until: datetime) -> Explanation:
    """End the walk: the code calls something else than its journal has, or does what no workflow can do."""
    row, error = facts.row, facts.row.error
    return walk.end(
        Cause.CODE_CHANGED,
        f"The code of {row.job_type} cannot go on with this workflow",
        show_journal(row.job_id),
        detail=error.message if error is not None else "",
        since=since,
        until=until,
        next="Another release goes on where it stopped; uncharged, it is tried again",
    )


def _at(call: "Call") -> str:
    how = "awaited" if call.kind.value == "signal" else "called"
    return f", {how} at {call.line}" if call.line else ""
