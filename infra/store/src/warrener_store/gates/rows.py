"""Slots, and the jobs that wait for them, as frozen values. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.encoding import decode, encode
from warrener_store.jobs.rows import JobRow

SLOT_RECHECK = timedelta(hours=12)
"""Time after which a job that waits for a slot is looked at again, though it got none. Others are put off for
less than MAX_HELD, and so are woken without a look at those (`release_held_jobs`)."""
SLOT_WITHOUT_JOB = timedelta(minutes=10)
"""Time for which a slot is held for a job that is not inserted: its request comes again long before."""
WAITING_STATES = (JobState.WAITING, JobState.RETRYING)
Gates = tuple[tuple[str, int], ...]
"""The names of gates that a job needs a slot of, and how many slots each has."""


class SlotClaim(NamedTuple):
    """A job that needs a slot of each of these gates for an attempt. `since`: when it began to wait.
    `declared_at`: when its job type was announced with these numbers; None: not known."""

    job_id: UUID
    attempt: int
    since: datetime
    gates: Gates
    declared_at: datetime | None = None


class Slot(NamedTuple):
    """A slot that a job has taken."""

    gate: str
    number: int
    job_id: UUID
    attempt: int  # for which it was taken last
    taken_at: datetime


class GateWaiter(NamedTuple):
    """A job that waits before a gate; `since` names the wait."""

    job_id: UUID
    gate: str
    since: datetime


MAX_COUNTED = 10_000
"""Rows of a line that are counted."""


class GateRow(NamedTuple):
    """A gate with its numbers. `slots`: as announced; `set_slots`: by hand, which counts. Of more than
    MAX_COUNTED `waiting` is one more; some may wait no longer."""

    gate: str
    slots: int
    set_slots: int | None
    held: int
    waiting: int


class GateRoom(NamedTuple):
    """The free slots of a gate, and whether jobs wait before it."""

    gate: str
    slots: int
    free: int
    has_line: bool


def encode_gates(gates: Sequence[tuple[str, int]]) -> str | None:
    """Write the gates of a job as its row stores them; None without any."""
    return encode(gates) if gates else None


@lru_cache(maxsize=1024)
def decode_gates(text: str) -> Gates:
    """Reverse `encode_gates`."""
    return tuple((str(name), int(slots)) for name, slots in decode(text))


def slot_claim(row: JobRow, now: datetime, declared_at: datetime | None = None) -> SlotClaim:
    """Return the claim of a job with gates for its next dispatch."""
    gates = tuple(dict(decode_gates(row.gates or "[]")).items())  # two limits of a pool may be one gate
    return SlotClaim(row.job_id, max(row.attempt, 1), row.due_at or now, gates, declared_at)


def blocking_gate(claim: SlotClaim, rooms: Mapping[str, GateRoom]) -> str:
    """Return the gate before which a job waits that got no slots: the first without a free one, else the
    first with a line."""
    names = [name for name, _ in claim.gates]
    full = [name for name in names if name in rooms and rooms[name].free <= 0]
    lines = [name for name in names if name in rooms and rooms[name].has_line]
    return next(iter((*full, *lines, *names)))


def takes_turns(row: JobRow) -> bool:
    """True if the job needs a slot for its next attempt. A workflow holds its slots from its first turn to
    its end."""
    return row.gates is not None and not row.suspensions


def still_waits(row: JobRow, waiter: GateWaiter, now: datetime) -> bool:
    """True if a job waits as its waiter says, or is due: an earlier wait may have left the waiter."""
    is_over = row.state not in WAITING_STATES or row.is_replaced
    is_over |= row.deadline_at is not None and row.deadline_at <= now
    is_due = row.due_at is not None and row.due_at <= now
    return not is_over and (is_due or row.due_at == waiter.since)
