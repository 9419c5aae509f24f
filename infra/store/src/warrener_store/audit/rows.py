"""Records of actions as frozen values, and the filter of their list. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID


class AuditOutcome(StrEnum):
    """The end of an action."""

    REQUESTED = "requested"  # no end is known: it runs, or its process has died meanwhile
    ACCEPTED = "accepted"
    REFUSED = "refused"  # by the service that was to carry it out
    FORBIDDEN = "forbidden"  # by the role of the caller: it was not tried
    FAILED = "failed"  # it ended with an error, such as a broker that is away


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """One action that a principal has called. `subject` names what it is about, such as a job's id.

    `method` is the way by which the principal was known; `address` the network address of the caller.
    """

    record_id: UUID
    recorded_at: datetime
    actor: str
    role: str
    method: str
    address: str
    action: str
    subject: str
    reason: str
    outcome: AuditOutcome = AuditOutcome.REQUESTED
    sentence: str = ""
    completed_at: datetime | None = None

    @property
    def position(self) -> "AuditPosition":
        """Its place in the list."""
        return AuditPosition(self.recorded_at, self.record_id)


class AuditPosition(NamedTuple):
    """The place of a record in the list."""

    recorded_at: datetime
    record_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """The records to select; None selects any."""

    actor: str | None = None
    action: str | None = None
    subject: str | None = None


ALL_RECORDS = AuditFilter()
