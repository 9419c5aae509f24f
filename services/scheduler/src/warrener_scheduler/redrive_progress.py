"""How a redrive goes on: canary, then the others at a rate, and when it stops by itself. Pure.

What it goes by are counts of its letters by state, as the store has them: they are exact whoever was killed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warrener_contracts.events import JobRedriveRequestedData
from warrener_contracts.states import JobState
from warrener_store.dead_letters.rows import (
    CampaignRow,
    CampaignState,
    DeadLetterState,
    DeadLetterTransition,
    RedriveOutcome,
)

PAGE_SIZE = 500
"""Letters that are taken, checked or asked for in one step."""

Counts = Mapping[str, int]

_REQUESTED_STATES = ("asked", "succeeded", "returned", "died", "ended")
_MAX_WAIT_SECONDS = 366 * 86_400
"""Seconds between two jobs at most: the wire takes any rate above none, and no calendar goes on for ever."""
_MIN_POLL_INTERVAL, _MAX_POLL_INTERVAL = timedelta(seconds=1), timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class RedrivePlan:
    """What to do now: ask for some, or stop, or go on to another state; and when to look again."""

    state: CampaignState
    request_count: int = 0
    why: str = ""  # to be noted, if anything
    wait: timedelta | None = None  # None: nothing is left to do


def plan_next_step(
    row: CampaignRow, options: JobRedriveRequestedData, counts: Counts, *, exhausted: bool, now: datetime
) -> RedrivePlan:
    """The next step of a redrive. `exhausted`: no letter is left to be asked for."""
    if row.state is CampaignState.STOPPED:
        return RedrivePlan(row.state, wait=_poll_interval(row, now) if counts.get("asked") else None)
    if why := _stop_reason(row, options, counts):
        return RedrivePlan(CampaignState.STOPPED, why=why, wait=timedelta(0))
    if exhausted and not counts.get("asked"):
        return RedrivePlan(CampaignState.DONE, why=_summarize(counts))
    if row.state is CampaignState.CANARY:
        return _plan_canary(row, options, counts, exhausted=exhausted, now=now)
    if exhausted:
        return RedrivePlan(row.state, wait=_poll_interval(row, now))
    some = min(PAGE_SIZE, max(1, round(options.rate)))
    return RedrivePlan(
        row.state, request_count=some, wait=timedelta(seconds=min(some / options.rate, _MAX_WAIT_SECONDS))
    )


def _plan_canary(
    row: CampaignRow, options: JobRedriveRequestedData, counts: Counts, *, exhausted: bool, now: datetime
) -> RedrivePlan:
    requested = total_requested(counts) - total_requested(row.since)
    if requested < options.canary and not exhausted:
        return RedrivePlan(
            row.state, request_count=min(options.canary - requested, PAGE_SIZE), wait=_MIN_POLL_INTERVAL
        )
    if counts.get("asked"):
        return RedrivePlan(row.state, wait=_poll_interval(row, now))
    return RedrivePlan(CampaignState.ROLLING, why=f"the canary of {requested} has passed", wait=timedelta(0))


def _stop_reason(row: CampaignRow, options: JobRedriveRequestedData, counts: Counts) -> str:
    """Why it must not go on, if so. Of the canary each death counts, of the rest those of old."""

    def count_since_start(state: str) -> int:
        return counts.get(state, 0) - row.since.get(state, 0)

    requested = total_requested(counts) - total_requested(row.since)
    if count_since_start("returned") > options.tolerate:
        return (
            f"the same failure is back: {count_since_start('returned')} of {requested} jobs that were "
            "asked for again died "
            "of what they had died of before"
        )
    if row.state is not CampaignState.CANARY:
        return ""
    if count_since_start("died") + count_since_start("returned") > options.tolerate:
        return (
            f"the canary fails otherwise: {count_since_start('died')} of {requested} died of "
            "another cause than before"
        )
    return ""


def total_requested(counts: Counts) -> int:
    """How many were asked for again, whatever became of them."""
    return sum(counts.get(state, 0) for state in _REQUESTED_STATES)


def remaining_capacity(options: JobRedriveRequestedData, counts: Counts) -> int:
    """How many more letters may be taken now."""
    if options.limit is None:
        return PAGE_SIZE
    return max(0, min(PAGE_SIZE, options.limit - total_requested(counts) - counts.get("taken", 0)))


def resolve_outcome(heir: RedriveOutcome) -> DeadLetterTransition:
    """The letter whose heir is over. One that was cancelled or expired waits for somebody again."""
    match heir.state:
        case JobState.SUCCEEDED:
            state, note = DeadLetterState.SUCCEEDED, None
        case JobState.DEAD:
            # A letter of before causes had names may have died of anything: be careful.
            same = heir.dead_letter.fingerprint in ("", heir.fingerprint)
            state, note = (DeadLetterState.DIED_AGAIN if same else DeadLetterState.DIED), None
        case over:
            state, note = DeadLetterState.REOPENED, f"the job asked for in its place is {over}"
    return DeadLetterTransition(heir.dead_letter.state, replace(heir.dead_letter, state=state, note=note))


def apply_moves(counts: Counts, moves: Iterable[DeadLetterTransition], row: CampaignRow) -> dict[str, int]:
    """The counts once these moves are made."""
    made = dict(counts)
    for move in moves:
        held, dead_letter = move.from_state.value, move.dead_letter
        if not move.from_state.unresolved:
            made[held] = made.get(held, 0) - 1
        if dead_letter.campaign_id == row.campaign_id:
            made[dead_letter.state.value] = made.get(dead_letter.state.value, 0) + 1
    return {state: count for state, count in made.items() if count}


def _poll_interval(row: CampaignRow, now: datetime) -> timedelta:
    """A tenth of how long nothing has happened: a canary may take hours."""
    return min(max((now - row.updated_at) / 10, _MIN_POLL_INTERVAL), _MAX_POLL_INTERVAL)


def _summarize(counts: Counts) -> str:
    parts = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()) if count)
    return f"no letter is left: {parts or 'there was none'}"
