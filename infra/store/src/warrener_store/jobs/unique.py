"""Unique jobs: which of a batch become jobs, beside those that hold their keys. Pure.

`docs/decisions/0040-the-state-of-its-job-says-whether-a-unique-key-is-held.md` has the reasons.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_contracts.unique import OnRepeat, Unique, UniqueUntil, unique_key
from warrener_store.jobs.rows import Inserted, JobRow, evolve

if TYPE_CHECKING:
    from warrener_store.jobs.batches import ExistingJobs

_REPLACED = "replaced by job "


class UniqueKeyRow(NamedTuple):
    """The job that holds a key. `previous`: the holder before it; `replaced`: the one that waited and was
    cancelled for it; `since`: the acceptance of the first of those that were replaced one by another."""

    unique_key: str
    job_id: UUID
    previous: UUID | None
    replaced: UUID | None
    since: datetime


class Replacement(NamedTuple):
    """A stored job that waits and is to be cancelled for another one."""

    job_id: UUID
    reason: str


@dataclass(slots=True)
class KeyPlan:
    """The outcome of a batch for one key: all of it is written, or nothing.

    `holder` is the last job to be inserted, and the key's from then on; None: nothing is written.
    """

    key: str
    stored: UniqueKeyRow | None
    holder: JobRow | None = None
    replaced: UUID | None = None
    since: datetime | None = None
    replacement: Replacement | None = None
    places: dict[int, UUID] = field(default_factory=dict[int, UUID])
    inserts: dict[UUID, JobRow] = field(default_factory=dict[UUID, JobRow])
    repeats: dict[int, Inserted] = field(default_factory=dict[int, Inserted])

    @property
    def answers(self) -> dict[int, Inserted]:
        """The answers by place in the batch, once the plan is written."""
        new = {place: Inserted(self.inserts[job_id], new=True) for place, job_id in self.places.items()}
        return self.repeats | new

    @property
    def row(self) -> UniqueKeyRow | None:
        """The row to write."""
        if self.holder is None or self.since is None:
            return None
        previous = self.stored and self.stored.job_id
        return UniqueKeyRow(self.key, self.holder.job_id, previous, self.replaced, self.since)


def key_of(row: JobRow) -> str | None:
    """The unique key of a job; None for one of a type without."""
    unique = row.policy.unique
    return None if unique is None else unique_key(row.job_type, unique, row.arguments)


def plan_inserts(
    rows: Mapping[int, JobRow], existing: "ExistingJobs", held: Iterable[tuple[UniqueKeyRow, JobRow]]
) -> list[KeyPlan]:
    """Decide about a batch in its order; `held`: the keys of these jobs that are stored, with their jobs."""
    holders = {row.unique_key: (row, job) for row, job in held}
    plans: dict[str, KeyPlan] = {}
    current: dict[str, tuple[JobRow, datetime]] = {
        key: (job, row.since) for key, (row, job) in holders.items()
    }
    for place, row in rows.items():
        key, unique = key_of(row), row.policy.unique
        assert key is not None
        assert unique is not None
        plan = plans.setdefault(key, KeyPlan(key, holders[key][0] if key in holders else None))
        if (stands := existing.find_match(row)) is not None:
            plan.repeats[place] = Inserted(stands, new=False)
            continue
        new, since, replaced = row, row.accepted_at, None
        if (found := current.get(key)) is not None and is_held(found[0], unique, row.accepted_at):
            holder, first = found
            if unique.repeat is not OnRepeat.REPLACE or not is_replaceable(holder):
                plan.repeats[place] = Inserted(holder, new=False, repeat=unique.repeat)
                continue
            since, replaced = first, holder.job_id
            new = debounced(row, unique, first)
            reason = f"{_REPLACED}{row.job_id}"
            if holder.job_id in plan.inserts:
                plan.inserts[holder.job_id] = cancelled_for(holder, reason)
            else:
                plan.replacement = Replacement(holder.job_id, reason)
        plan.holder, plan.since, plan.replaced = new, since, replaced
        plan.places[place], plan.inserts[new.job_id] = new.job_id, new
        current[key] = new, since
        existing.add(new)
    return list(plans.values())


def is_replaceable(row: JobRow) -> bool:
    """True if a job waits for its first dispatch, and nobody has requested its end."""
    return row.state is JobState.WAITING and not row.attempt and not row.is_replaced


def is_held(holder: JobRow, unique: Unique, now: datetime) -> bool:
    """True if a job keeps others with its key from being inserted."""
    if is_replaceable(holder):
        return True
    if holder.state is JobState.WAITING or (holder.state.terminal and holder.state is not JobState.SUCCEEDED):
        return False
    if not holder.state.terminal and unique.until is UniqueUntil.FINISHED:
        return True
    return unique.window is not None and holder.accepted_at + unique.window > now


def debounced(row: JobRow, unique: Unique, first: datetime) -> JobRow:
    """The row of a repeat, put off no longer than the first request allows; a later time that the request
    itself gives stays."""
    wait = unique.debounce
    if wait is None or row.due_at is None or row.due_at > row.accepted_at + wait.wait:
        return row
    due_at = min(row.due_at, first + wait.longest)  # which may be over: it keeps its place in a line
    return evolve(row, due_at=due_at, wake_at=due_at)


def cancelled_for(row: JobRow, reason: str) -> JobRow:
    """A waiting job that another one replaces: it is never dispatched, and a scheduler has it cancelled."""
    return replace(row, cancel_reason=reason, wake_at=row.accepted_at)


def replaced_by(reason: str) -> UUID | None:
    """Return the job for which another was cancelled, from the reason of that; None for another reason."""
    try:
        return UUID(reason.removeprefix(_REPLACED)) if reason.startswith(_REPLACED) else None
    except ValueError:
        return None


def sorted_inserts(plans: Sequence[KeyPlan]) -> list[tuple[JobRow, UUID]]:
    """The rows to insert in the order of their ids, as in all batches, each with the job that must have got
    the key for it."""
    rows = [(row, plan.holder.job_id) for plan in plans if plan.holder for row in plan.inserts.values()]
    return sorted(rows, key=lambda pair: pair[0].job_id.int)
