"""Decide how a redrive of dead letters goes on: its start, its commands, its next step and its end. Pure.

A redrive requests a canary, then the others at a rate, and stops by itself if jobs die again. It goes by the
counts of its dead letters by state, as the store has them: they are exact whichever scheduler was killed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from warrener_contracts.events import (
    DeadLetterSelection,
    JobDropRequested,
    JobRedriveRequested,
    JobRedriveRequestedData,
    RedriveChangeRequested,
)
from warrener_contracts.identity import job_id_of
from warrener_scheduler.messages import SOURCE
from warrener_store.dead_letters.rows import (
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    JournalEntry,
    RedriveKind,
    RedriveRow,
    RedriveState,
)

StartCommand = JobRedriveRequested | JobDropRequested
Counts = Mapping[str, int]
PAGE_SIZE = 500  # dead letters that one step claims, checks or requests
_MAX_JOURNAL_ENTRIES = 100
_REQUESTED_STATES = ("redriven", "succeeded", "died_again", "died", "reopened")
_MAX_WAIT_SECONDS = 366 * 86_400
"""Maximal time between two jobs: the wire accepts any rate above zero, and dates are limited."""
_MIN_POLL_INTERVAL, _MAX_POLL_INTERVAL = timedelta(seconds=1), timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """The next action: request some, stop, or change the state; and when to look again."""

    state: RedriveState
    request_count: int = 0
    why: str = ""  # for the journal
    wait: timedelta | None = None  # None: nothing is left to do


def new_redrive(event: StartCommand, now: datetime) -> RedriveRow:
    """Start a redrive; its id is derived from the event, so that a repeat starts the same one."""
    data = event.data
    kind, state = RedriveKind.DROP, RedriveState.ROLLING
    if isinstance(event, JobRedriveRequested):
        kind = RedriveKind.DRY_RUN if event.data.dry_run else RedriveKind.REDRIVE
        state = _initial_state(kind, event.data.canary)
    action = _with_reason("requested", data.reason)
    first_entry = JournalEntry(at=event.time or now, by=data.by, action=action)
    return RedriveRow(
        redrive_id=job_id_of(event.source, event.id),
        kind=kind,
        request=data.model_dump(mode="json", exclude={"reply_to"}),
        requested_by=data.by,
        reason=data.reason,
        requested_at=event.time or now,
        state=state,
        started_at=now,
        journal=(first_entry,),
        wake_at=now,
        updated_at=now,
    )


def apply_change(row: RedriveRow, event: RedriveChangeRequested, now: datetime) -> RedriveRow | None:
    """Stop or resume a redrive; None if the event was applied before.

    Raises ValueError if the redrive is over, or not in the state that the change is for.
    """
    data = event.data
    action = _with_reason("stopped" if data.change == "stop" else "resumed", data.reason)
    entry = JournalEntry(at=event.time or now, by=data.by, action=action)
    if entry in row.journal:
        return None
    is_stopped, wanted = row.state is RedriveState.STOPPED, data.change == "resume"
    if row.state is RedriveState.DONE or is_stopped is not wanted:
        expected = f"expected a redrive that is {'stopped' if wanted else 'under way'}"
        raise ValueError(f"{expected}, got one that is {row.state.value}")
    if data.change == "stop":
        why = _with_reason(f"stopped by {data.by}", data.reason)
        return _with_journal_entry(_due_now(row, now, state=RedriveState.STOPPED, stop_reason=why), entry)
    state = _initial_state(row.kind, row.request.get("canary", 0))
    begun = {"stop_reason": "", "counts_at_start": dict(row.counts), "started_at": now}
    return _with_journal_entry(_due_now(row, now, state=state, **begun), entry)


def dead_letter_filter(row: RedriveRow, **more: Any) -> DeadLetterFilter:
    """Select the dead letters of a redrive: the unresolved ones among those that had died when it began.

    Jobs that die of the redrive itself are for the next one.
    """
    which = DeadLetterSelection.model_validate(row.request["selection"])
    return DeadLetterFilter(
        job_ids=which.job_ids,
        fingerprint=which.fingerprint,
        job_type=which.job_type,
        died_after=which.died_after,
        died_before=min(which.died_before or row.started_at, row.started_at),
        oldest_first=True,
        **more,
    )


def plan_next_step(
    row: RedriveRow, options: JobRedriveRequestedData, counts: Counts, *, exhausted: bool, now: datetime
) -> RedrivePlan:
    """Plan the next step. `exhausted`: no dead letter is left to be requested."""
    if row.state is RedriveState.STOPPED:
        return RedrivePlan(row.state, wait=_poll_interval(row, now) if counts.get("redriven") else None)
    if why := _stop_reason(row, options, counts):
        return RedrivePlan(RedriveState.STOPPED, why=why, wait=timedelta(0))
    if exhausted and not counts.get("redriven"):
        return RedrivePlan(RedriveState.DONE, why=_summarize(counts))
    if row.state is RedriveState.CANARY:
        return _plan_canary(row, options, counts, exhausted=exhausted, now=now)
    if exhausted:
        return RedrivePlan(row.state, wait=_poll_interval(row, now))
    some = min(PAGE_SIZE, max(1, round(options.rate)))
    return RedrivePlan(
        row.state, request_count=some, wait=timedelta(seconds=min(some / options.rate, _MAX_WAIT_SECONDS))
    )


def apply_plan(
    row: RedriveRow, plan: RedrivePlan, moves: Sequence[DeadLetterTransition], before: Counts, now: datetime
) -> RedriveRow:
    """Return the redrive after a step with this plan and these moves. `before`: the counts before them."""
    state_changed = plan.state is not row.state
    changed = replace(
        row,
        version=row.version + 1,
        state=plan.state,
        stop_reason=plan.why if state_changed and plan.state is RedriveState.STOPPED else row.stop_reason,
        counts=apply_moves(before, moves, row),
        wake_at=None if plan.wait is None else now + plan.wait,
        updated_at=now if state_changed or moves else row.updated_at,
        finished_at=now if plan.wait is None else None,
    )
    if not state_changed:
        return changed
    what = f"{plan.state.value}: {plan.why}" if plan.why else plan.state.value
    return _with_journal_entry(changed, JournalEntry(at=now, by=SOURCE, action=what))


def plan_after_assessment(row: RedriveRow, judged: Sequence[DeadLetterTransition]) -> RedrivePlan:
    """Go on, unless the job type refuses all dead letters of the first page."""
    first = judged[0].dead_letter
    if row.state is RedriveState.CANARY and all(
        move.dead_letter.state is DeadLetterState.REJECTED for move in judged
    ):
        why = f"all of the first {len(judged)} were rejected; {first.job_id}: {first.note}"
        return RedrivePlan(RedriveState.STOPPED, why=why, wait=timedelta(0))
    return RedrivePlan(row.state, wait=timedelta(0))


def _total_requested(counts: Counts) -> int:
    """Return how many were requested again, whatever their state is now."""
    return sum(counts.get(state, 0) for state in _REQUESTED_STATES)


def remaining_capacity(options: JobRedriveRequestedData, counts: Counts) -> int:
    """Return how many more dead letters may be claimed now."""
    if options.limit is None:
        return PAGE_SIZE
    return max(0, min(PAGE_SIZE, options.limit - _total_requested(counts) - counts.get("claimed", 0)))


def apply_moves(counts: Counts, moves: Iterable[DeadLetterTransition], row: RedriveRow) -> dict[str, int]:
    """Return the counts after these moves."""
    moved = dict(counts)
    for move in moves:
        held, dead_letter = move.from_state.value, move.dead_letter
        if not move.from_state.unresolved:
            moved[held] = moved.get(held, 0) - 1
        if dead_letter.redrive_id == row.redrive_id:
            moved[dead_letter.state.value] = moved.get(dead_letter.state.value, 0) + 1
    return {state: count for state, count in moved.items() if count}


def _plan_canary(
    row: RedriveRow, options: JobRedriveRequestedData, counts: Counts, *, exhausted: bool, now: datetime
) -> RedrivePlan:
    requested = _total_requested(counts) - _total_requested(row.counts_at_start)
    if requested < options.canary and not exhausted:
        some = min(options.canary - requested, PAGE_SIZE)
        return RedrivePlan(row.state, request_count=some, wait=_MIN_POLL_INTERVAL)
    if counts.get("redriven"):
        return RedrivePlan(row.state, wait=_poll_interval(row, now))
    return RedrivePlan(RedriveState.ROLLING, why=f"the canary of {requested} has passed", wait=timedelta(0))


def _stop_reason(row: RedriveRow, options: JobRedriveRequestedData, counts: Counts) -> str:
    """Return why the redrive must stop, if so: any death of a canary counts, later only the old cause."""

    def count_since_start(state: str) -> int:
        return counts.get(state, 0) - row.counts_at_start.get(state, 0)

    requested = _total_requested(counts) - _total_requested(row.counts_at_start)
    if count_since_start("died_again") > options.max_failures:
        return (
            f"the same failure is back: {count_since_start('died_again')} of {requested} jobs that were "
            "requested again died of the same cause as before"
        )
    if row.state is not RedriveState.CANARY:
        return ""
    if count_since_start("died") + count_since_start("died_again") > options.max_failures:
        return (
            f"the canary fails otherwise: {count_since_start('died')} of {requested} died of "
            "another cause than before"
        )
    return ""


def _poll_interval(row: RedriveRow, now: datetime) -> timedelta:
    """Return a tenth of the time without a change: a canary may take hours."""
    return min(max((now - row.updated_at) / 10, _MIN_POLL_INTERVAL), _MAX_POLL_INTERVAL)


def _summarize(counts: Counts) -> str:
    parts = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count)
    return f"no dead letter is left: {parts or 'there was none'}"


def _initial_state(kind: RedriveKind, canary: int) -> RedriveState:
    return RedriveState.CANARY if kind is RedriveKind.REDRIVE and canary else RedriveState.ROLLING


def _due_now(row: RedriveRow, now: datetime, **changes: Any) -> RedriveRow:
    version = row.version + 1
    return replace(row, version=version, wake_at=now, updated_at=now, finished_at=None, **changes)


def _with_journal_entry(row: RedriveRow, entry: JournalEntry) -> RedriveRow:
    """Append to the journal, which holds its first entry and the last hundred."""
    journal = (*row.journal, entry)
    if len(journal) > _MAX_JOURNAL_ENTRIES:
        journal = (journal[0], *journal[2 - _MAX_JOURNAL_ENTRIES :])
    return replace(row, journal=journal)


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
