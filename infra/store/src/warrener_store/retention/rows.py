"""Old rows, and the conditions under which they are deleted, as frozen values. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.audit.rows import AuditRecord
from warrener_store.dead_letters.rows import RedriveRow
from warrener_store.incidents.rows import IncidentRow, PolicyVersionRow
from warrener_store.parked.rows import ParkedMessage


@dataclass(frozen=True, slots=True)
class JobsBefore:
    """The jobs of one type and one terminal state that are old enough."""

    job_type: str
    state: JobState
    finished: datetime
    """They ended before this moment."""
    keyed: datetime
    """Those with an idempotency key were accepted before this moment, too."""


@dataclass(frozen=True, slots=True)
class OldJobs:
    """A page of old jobs: those that may be deleted, and the position of the next page; None: no next
    page."""

    job_ids: tuple[UUID, ...] = ()
    after: tuple[datetime, UUID] | None = None


class RetentionKind(StrEnum):
    """The kinds of rows besides jobs and ticks."""

    PARKED = "parked"  # messages that consumers could not process
    INCIDENTS = "incidents"  # closed ones
    ESCALATION_POLICIES = "escalation_policies"  # versions that no file and no incident has
    REDRIVES = "redrives"  # those that are over
    AGENTS = "agents"
    JOB_TYPES = "job_types"  # those without a job that is not over
    AUDIT_RECORDS = "audit_records"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One occurrence of an incident."""

    fingerprint: str
    occurrence: str
    subject: str
    raised_at: datetime

    @property
    def key(self) -> tuple[str, str]:
        """The primary key."""
        return self.fingerprint, self.occurrence


OldRow = ParkedMessage | IncidentRow | PolicyVersionRow | RedriveRow | AgentRow | JobTypeRow | AuditRecord


@dataclass(frozen=True, slots=True)
class OldRows:
    """A page of old rows by their keys: those that may be deleted, and the position of the next page."""

    rows: dict[str, OldRow]
    after: tuple[datetime, str] | None = None
