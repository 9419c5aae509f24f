"""How a redrive goes on: canary, then the others at a rate, and when it stops by itself. Pure.

What it goes by are counts of its letters by state, as the store has them: they are exact whoever was killed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from warrener_contracts.events import JobRedriveRequestedData
from warrener_contracts.states import JobState
from warrener_store.dead_letters import CampaignRow, CampaignState, RedriveOutcome, DeadLetterTransition
from warrener_store.rows import DeadLetterState

PAGE = 500
"""Letters that are taken, checked or asked for in one step."""

Counts = Mapping[str, int]

_ASKED = ("asked", "succeeded", "returned", "died", "ended")
_SLOWEST = 366 * 86_400
"""Seconds between two jobs at most: the wire takes any rate above none, and no calendar goes on for ever."""
_MORE_OFTEN, _LESS_OFTEN = timedelta(seconds=1), timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Course:
    """What to do now: ask for some, or stop, or go on to another state; and when to look again."""

    state: CampaignState
    ask: int = 0
    why: str = ""  # to be noted, if anything
    wait: timedelta | None = None  # None: nothing is left to do


def course(
    row: CampaignRow, order: JobRedriveRequestedData, counts: Counts, *, exhausted: bool, now: datetime
) -> Course:
    """The next step of a redrive. `exhausted`: no letter is left to be asked for."""
    if row.state is CampaignState.STOPPED:
        return Course(row.state, wait=_patience(row, now) if counts.get("asked") else None)
    if why := _alarm(row, order, counts):
        return Course(CampaignState.STOPPED, why=why, wait=timedelta(0))
    if exhausted and not counts.get("asked"):
        return Course(CampaignState.DONE, why=_summary(counts))
    if row.state is CampaignState.CANARY:
        return _canary(row, order, counts, exhausted=exhausted, now=now)
    if exhausted:
        return Course(row.state, wait=_patience(row, now))
    some = min(PAGE, max(1, round(order.rate)))
    return Course(row.state, ask=some, wait=timedelta(seconds=min(some / order.rate, _SLOWEST)))


def _canary(
    row: CampaignRow, order: JobRedriveRequestedData, counts: Counts, *, exhausted: bool, now: datetime
) -> Course:
    asked = asked_ever(counts) - asked_ever(row.since)
    if asked < order.canary and not exhausted:
        return Course(row.state, ask=min(order.canary - asked, PAGE), wait=_MORE_OFTEN)
    if counts.get("asked"):
        return Course(row.state, wait=_patience(row, now))
    return Course(CampaignState.ROLLING, why=f"the canary of {asked} has passed", wait=timedelta(0))


def _alarm(row: CampaignRow, order: JobRedriveRequestedData, counts: Counts) -> str:
    """Why it must not go on, if so. Of the canary each death counts, of the rest those of old."""

    def fresh(state: str) -> int:
        return counts.get(state, 0) - row.since.get(state, 0)

    asked = asked_ever(counts) - asked_ever(row.since)
    if fresh("returned") > order.tolerate:
        return (
            f"the same failure is back: {fresh('returned')} of {asked} jobs that were asked for again died "
            "of what they had died of before"
        )
    if row.state is not CampaignState.CANARY:
        return ""
    if fresh("died") + fresh("returned") > order.tolerate:
        return f"the canary fails otherwise: {fresh('died')} of {asked} died of another cause than before"
    return ""


def asked_ever(counts: Counts) -> int:
    """How many were asked for again, whatever became of them."""
    return sum(counts.get(state, 0) for state in _ASKED)


def room(order: JobRedriveRequestedData, counts: Counts) -> int:
    """How many more letters may be taken now."""
    if order.limit is None:
        return PAGE
    return max(0, min(PAGE, order.limit - asked_ever(counts) - counts.get("taken", 0)))


def settled(heir: RedriveOutcome) -> DeadLetterTransition:
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


def after_moves(counts: Counts, moves: Iterable[DeadLetterTransition], row: CampaignRow) -> dict[str, int]:
    """The counts once these moves are made."""
    made = dict(counts)
    for move in moves:
        held, letter = move.from_state.value, move.dead_letter
        if not move.from_state.unresolved:
            made[held] = made.get(held, 0) - 1
        if letter.campaign_id == row.campaign_id:
            made[letter.state.value] = made.get(letter.state.value, 0) + 1
    return {state: letters for state, letters in made.items() if letters}


def _patience(row: CampaignRow, now: datetime) -> timedelta:
    """A tenth of how long nothing has happened: a canary may take hours."""
    return min(max((now - row.updated_at) / 10, _MORE_OFTEN), _LESS_OFTEN)


def _summary(counts: Counts) -> str:
    told = ", ".join(f"{letters} {state}" for state, letters in sorted(counts.items()) if letters)
    return f"no letter is left: {told or 'there was none'}"
