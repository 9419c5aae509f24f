"""Decide which failed calls of a held workflow have their child jobs requested again. Pure.

A retry is stored in the place of the suspension that the failed turn lacks: the same calls with other child
jobs (`retry_of`). Their answers take the places of the failures, so the body comes past them as before.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from warrener_contracts import events
from warrener_contracts.identity import child_job_id, child_source
from warrener_contracts.journals import current_calls, is_retry, open_calls
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import ChildStatus, TurnRow


def retried_calls(
    job_id: UUID, names: Collection[str], turns: Sequence[TurnRow], jobs: Mapping[UUID, ChildStatus]
) -> tuple[events.Call, ...]:
    """Return the calls of these names as they are made again. `jobs`: the child jobs of all calls.

    A job type with several failures stands for those that the failed turn was given, or for the newest one:
    the body has come past the others, and would not repeat its journal with other answers.
    Raises ValueError for a name that no failed call has.
    """
    calls, chosen = current_calls(turns), dict[str, events.Call]()
    closed = {call_id for one in turns if one.suspension is not None for call_id in one.suspension.closed}
    refusals = {call_id: _refusal(call, jobs, closed) for call_id, call in calls.items()}
    last = max((one.attempt for one in turns if one.suspension is not None and not is_retry(one)), default=0)
    unpassed = {answer.call_id for one in turns if one.attempt > last for answer in one.answers}
    for name in names:
        named = [one for one in calls.values() if name in _names(one)]
        failed = [one for one in named if refusals[one.call_id] is None]
        if not failed:
            why = (
                refusals[named[0].call_id] if named else "no call of this id, child job or job type is there"
            )
            rest = [call_id for call_id, refusal in refusals.items() if refusal is None][:10]
            hint = f"those that can be are {', '.join(rest)}" if rest else "resume it without, or undo it"
            if named and named[0].kind is events.CallKind.MAP:
                hint = "deploy a body that maps its failed items again behind it, then resume; or undo it"
            raise ValueError(f"expected a failed call, got {name}: {why}; {hint}")
        for one in [one for one in failed if one.call_id in unpassed] or failed[-1:]:
            again = child_job_id(job_id, f"{one.call_id}~{one.job_id}")
            chosen[one.call_id] = one.model_copy(update={"job_id": again, "retry_of": one.job_id})
    return tuple(chosen.values())


def require_stored(names: Collection[str], turn: TurnRow) -> None:
    """Raise ValueError for a name of no call whose retry `turn` has stored: those are carried out."""
    stored = () if turn.suspension is None else turn.suspension.calls
    known = {name for call in stored for name in (*_names(call), str(call.retry_of))}
    if others := [name for name in names if name not in known]:
        raise ValueError(
            f"expected a call whose retry is stored already ({', '.join(one.call_id for one in stored)}), "
            f"got {', '.join(others)}; resume the workflow without naming others"
        )


def _names(call: events.Call) -> tuple[str, ...]:
    return call.call_id, call.name, str(call.job_id)


def _refusal(call: events.Call, jobs: Mapping[UUID, ChildStatus], closed: Collection[str]) -> str | None:
    """Explain why the child job of a call is not requested again; None if it is."""
    if call.job_id is None:
        return f"it is a {call.kind.value}, and has no child job"
    if call.call_id in closed:
        return "the workflow no longer waits for it"
    child = jobs.get(call.job_id)
    if child is None or not child.state.terminal:
        return f"its job {call.job_id} has not ended"
    if child.state is JobState.SUCCEEDED:
        return f"its job {call.job_id} has succeeded"
    if not child.attempt:
        return f"its job {call.job_id} never began, so the store may lack its arguments"
    return None


def retried_failures(turns: Sequence[TurnRow]) -> dict[UUID, events.Call]:
    """Return the calls that were requested again and wait for it, by the jobs that have failed."""
    return {call.retry_of: call for call in open_calls(turns) if call.retry_of is not None}


def retry_request(row: JobRow, call: events.Call, failed: JobRow, now: datetime) -> events.JobRequested:
    """Make the request of a child job in place of one that has failed, with its policy and without its delay
    and its deadline."""
    job_id = str(call.job_id)
    policy = PolicyOverrides(**{name: getattr(failed.policy, name) for name in PolicyOverrides.model_fields})
    return events.JobRequested(
        id=job_id,
        source=child_source(row.job_id, detached=call.detached),
        time=now,
        subject=job_id,
        traceparent=row.traceparent,
        tracestate=row.tracestate,
        baggage=failed.baggage,
        data=failed.redriven_data(failed.arguments, failed.queue, policy),
    )
