"""The port of incidents. Suite: `tests/conformance/test_escalations.py`.

Every change is one conditional statement, so that any number of supervisors may raise and escalate."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from warrener_store.incidents.rows import (
    OPEN_INCIDENTS,
    IncidentChange,
    IncidentFilter,
    IncidentOccurrence,
    IncidentRow,
    PolicyVersionRow,
    RaisedIncident,
)


class Escalations(Protocol):
    """Incidents and their occurrences. Errors are those of the state store."""

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        """Count these, each occurrence once; open or reopen their incidents and wake them."""
        ...

    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        """Claim unclaimed incidents with `wake_at <= now`, the longest due first, for `claim` until then.

        No two callers get the same; the claim of a caller that dies ends at `until`.
        """
        ...

    async def save_incident(self, row: IncidentRow) -> bool:
        """Write the progress of a claimed incident and release the claim; True if the write applied.

        It applies while `row.claimed_by` has the claim and the incident is open. An incident that was raised
        in the meantime stays awake, and open. Closing settles all its occurrences; a greater `round` sets
        `steps_done` of those that are not settled back to 0.
        """
        ...

    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        """Apply operators' changes to open incidents and wake those; returns their fingerprints."""
        ...

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[IncidentOccurrence]:
        """Occurrences of an incident with `steps_done < below`, the first raised first."""
        ...

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        """Set `steps_done` of these occurrences; one with a greater value keeps it."""
        ...

    async def put_policies(self, versions: Sequence[PolicyVersionRow]) -> None:
        """Store these versions; one that is stored has been seen at both times, too."""
        ...

    async def policies(self) -> list[PolicyVersionRow]:
        """All stored versions of policies, the first seen first."""
        ...

    async def incidents(self, which: IncidentFilter = OPEN_INCIDENTS) -> list[IncidentRow]:
        """These incidents, the last raised first."""
        ...
