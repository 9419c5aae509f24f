"""The cases of the escalation: a port of its own, kept by the same engines as the state store; its suite is
`tests/conformance/test_escalations.py`.

A case is all that was raised under one fingerprint, until it is closed; raised again after that, it begins
anew. Every change is one conditional statement, so that any number of supervisors may raise and escalate.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from warrener_contracts.events import JsonObject

ALL_STEPS_DONE = 1_000_000
"""What `CaseEntry.done` is when nothing more is to be done about an entry."""

_FINGERPRINT = 200  # characters

MIXED_QUEUE = "queue.mixed"
"""The kind of the incident that jobs wait in a queue whose agents do not know their type."""
REFUSING_QUEUE = "queue.refusing"
"""The kind of the incident that a dispatch queue takes no messages, so that its jobs wait in the store. Its
sample says `since` when."""


def refusing_fingerprint(queue: str) -> str:
    """The fingerprint of the incident that this queue takes no messages."""
    return f"{REFUSING_QUEUE}:{queue}"[:_FINGERPRINT]


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedIncident:
    """Something that somebody should know, as whoever noticed it raises it."""

    kind: str  # "job.dead", "agent.lost": a ladder is chosen by it
    fingerprint: str  # of the trouble: whatever is raised under it is one case
    occurrence: str  # of this one time: raised again, it is not counted again
    subject: str  # the job, the agent, the schedule it is about
    job_type: str | None
    sample: JsonObject  # what alerts may name; small
    raised_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """One case. `wake_at` is when a supervisor must look at it; None: when it is raised again."""

    # What was raised; of the last time, where times differ.
    fingerprint: str
    kind: str
    subject: str
    job_type: str | None
    sample: JsonObject
    times: int
    first_seen_at: datetime
    last_seen_at: datetime

    # How far it has come.
    round: int = 1  # grows whenever a closed case is raised again
    step: int = 0  # the step of its ladder that comes next
    due_at: datetime | None = None  # of that step; None: it is reckoned from when the case was first seen
    tries: int = 0  # of this step, that failed
    delivered: tuple[str, ...] = ()  # sinks that have taken this step's alert
    trouble: str | None = None  # why the last try failed
    wake_at: datetime | None
    claimed_by: str | None = None
    claimed_until: datetime | None = None

    # What people have said.
    acknowledged_by: str | None = None
    acknowledged_at: datetime | None = None
    snoozed_until: datetime | None = None
    closed_at: datetime | None = None
    closed_why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseEntry:
    """One time that a case was raised; `done` counts the steps that are through with it."""

    occurrence: str
    subject: str
    raised_at: datetime
    done: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseChange:
    """What a person says about an open case. What is None stays as it is."""

    fingerprint: str
    at: datetime
    acknowledged_by: str | None = None
    snoozed_until: datetime | None = None
    closed_why: str | None = None


class Escalations(Protocol):
    """Where cases are kept. Errors are those of the state store."""

    async def raise_cases(self, raised: Sequence[RaisedIncident]) -> None:
        """Count these, each occurrence once; open or reopen their cases and wake them. One statement."""
        ...

    async def claim_cases(self, now: datetime, until: datetime, claim: str, limit: int) -> list[CaseRow]:
        """Cases with `wake_at <= now` that nobody holds, the longest due first; held by `claim` until then.

        No two callers get the same case; whoever dies with a claim loses it at `until`.
        """
        ...

    async def save_case(self, row: CaseRow) -> bool:
        """Write how far a claimed case has come, and let go of it; whether it counted.

        Only while `row.claimed_by` holds it and nobody has closed it. A case that was raised in the meantime
        stays awake, and open. Closing ends all its entries.
        """
        ...

    async def change_cases(self, changes: Sequence[CaseChange]) -> set[str]:
        """Note what people say, each about an open case; the fingerprints of those there were. Wakes them."""
        ...

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[CaseEntry]:
        """Entries of a case with `done < below`, the first raised first."""
        ...

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        """So many steps are through with these entries; what has come further stays there."""
        ...

    async def cases(self, *, closed: bool = False, limit: int = 50) -> list[CaseRow]:
        """Open cases, the last raised first; with `closed` the closed ones too."""
        ...

    async def cases_by_fingerprint(self, fingerprints: Collection[str]) -> dict[str, CaseRow]:
        """Those that exist of these."""
        ...
