"""Dead letters and redrives as frozen values. Pure.

A redrive redrives or drops many dead letters. Its row and the dead letters that it moves change together,
under the redrive's version, so any number of schedulers may continue redrives, and a crash leaves no step
half done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias
from uuid import UUID

from warrener_contracts.events import ErrorInfo, JsonObject
from warrener_contracts.state_machine import JobState


class DeadLetterState(StrEnum):
    """How far a dead letter has been dealt with."""

    OPEN = "open"  # nothing yet
    CLAIMED = "claimed"  # a redrive will redrive it
    REDRIVEN = "redriven"  # redriven; its new job is not over
    SUCCEEDED = "succeeded"  # its new job has succeeded
    DIED_AGAIN = "died_again"  # its new job has died of the same cause and has a dead letter of its own
    DIED = "died"  # its new job has died of another cause and has a dead letter of its own
    REOPENED = "reopened"  # its new job was cancelled, or its deadline passed
    REJECTED = "rejected"  # its arguments do not match the job type's schema
    ALREADY_SUCCEEDED = "already_succeeded"  # the same request has succeeded since under another id
    DROPPED = "dropped"  # it will not be redriven

    @property
    def unresolved(self) -> bool:
        """True if an operator still has to deal with it."""
        return self in UNRESOLVED


UNRESOLVED = (DeadLetterState.OPEN, DeadLetterState.REOPENED, DeadLetterState.REJECTED)
"""The states from which a redrive may claim, in the order of the index by cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A job whose attempts are used up, and how far it has been dealt with since."""

    job_id: UUID
    job_type: str
    attempts: int
    reason: str
    error: ErrorInfo | None
    died_at: datetime
    fingerprint: str = ""  # of the cause; empty: unknown

    state: DeadLetterState = DeadLetterState.OPEN
    redrive_id: UUID | None = None  # the last that claimed it
    redriven_as: UUID | None = None  # its new job
    redrives: int = 0
    redriven_at: datetime | None = None
    note: str | None = None  # why it was rejected, skipped or dropped


DeadLetterPosition: TypeAlias = tuple[datetime, UUID]
"""The position of a dead letter among all: when its job died, then its id. Neither ever changes."""


class RedriveKind(StrEnum):
    """The action of a redrive on its dead letters."""

    REDRIVE = "redrive"
    DRY_RUN = "dry_run"
    DROP = "drop"


class RedriveState(StrEnum):
    """How far a redrive is."""

    CANARY = "canary"  # the first few are redriven, and no others until these are over
    ROLLING = "rolling"  # the others follow
    STOPPED = "stopped"  # by a person or by itself: jobs that were redriven go on
    DONE = "done"  # no dead letter is left


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """An entry of a redrive's log."""

    at: datetime
    by: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveRow:
    """One redrive. `wake_at` is when a scheduler must continue it; None: nothing is left to do."""

    # The request; never changes.
    redrive_id: UUID
    kind: RedriveKind
    request: JsonObject  # the data of the event that requested it
    requested_by: str
    reason: str
    requested_at: datetime

    # How far it is.
    version: int = 1
    state: RedriveState
    stop_reason: str = ""
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # its dead letters by state
    started_at: datetime  # or was resumed
    counts_at_start: Mapping[str, int] = field(
        default_factory=dict[str, int]
    )  # the counts when its canary began
    journal: tuple[JournalEntry, ...] = ()
    after: DeadLetterPosition | None = None  # of a dry run: the last dead letter that was examined
    wake_at: datetime | None
    updated_at: datetime
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """The dead letters to select; None or empty selects any."""

    states: tuple[DeadLetterState, ...] = UNRESOLVED
    job_ids: tuple[UUID, ...] = ()
    redriven_as: tuple[UUID, ...] = ()  # those whose new job is one of these
    fingerprint: str | None = None
    job_type: str | None = None
    died_after: datetime | None = None
    died_before: datetime | None = None
    redrive_id: UUID | None = None
    not_by: UUID | None = None  # without those that this redrive was the last to claim
    after: DeadLetterPosition | None = None  # only dead letters behind this position in the list
    oldest_first: bool = False
    limit: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterGroup:
    """Dead letters of one cause."""

    fingerprint: str
    job_type: str
    dead_letters: int
    first_died_at: datetime
    last_died_at: datetime
    example: DeadLetter  # the last that died


MAX_COMPARED_CAUSES = 1000
"""The causes among which those of the last deaths are found."""
MAX_COUNTED_DEATHS = 10_000
"""The dead letters of one cause that are counted; a cause with more has this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnresolvedCause:
    """The unresolved dead letters of one cause. `deaths`: how many of them died in each hour."""

    fingerprint: str
    dead_letters: int
    first_died_at: datetime
    example: DeadLetter  # the last that died
    deaths: Mapping[datetime, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveOutcome:
    """The outcome of a redriven dead letter's new job."""

    dead_letter: DeadLetter
    state: JobState | None  # None: no scheduler has accepted it
    fingerprint: str | None  # of the cause of its death, if it died


@dataclass(frozen=True, slots=True)
class DeadLetterTransition:
    """A dead letter that leaves the state `from_state`, as it is afterwards."""

    from_state: DeadLetterState
    dead_letter: DeadLetter


@dataclass(frozen=True, slots=True)
class SuccessfulRequest:
    """A job that has succeeded, by its request."""

    job_id: UUID
    job_type: str
    request_hash: str
    accepted_at: datetime
