"""Dead letters and what is done about them: a port of its own, kept by the same engines as the state store;
its suite is `tests/conformance/test_dead_letters.py`.

A campaign deals with many dead letters at once: it asks for their jobs again, or drops them. Its row and the
letters that it moves change together, under the campaign's version, so that any number of schedulers may
carry campaigns on, and one that is killed leaves no step half done.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeAlias
from uuid import UUID

from warrener_contracts.events import JsonObject
from warrener_contracts.state_machine import JobState
from warrener_store.rows import UNRESOLVED, DeadLetter, DeadLetterState

DeadLetterPosition: TypeAlias = tuple[datetime, UUID]
"""Where a dead letter stands among all: when its job died, then its id. Neither ever changes."""


class CampaignKind(StrEnum):
    """What a campaign does with its letters."""

    REDRIVE = "redrive"
    DRY_RUN = "dry_run"
    DROP = "drop"


class CampaignState(StrEnum):
    """How far a campaign is."""

    CANARY = "canary"  # the first few are asked for, and nothing else until all of them are over
    ROLLING = "rolling"  # the others follow
    STOPPED = "stopped"  # by a person or by itself: what was asked for goes on
    DONE = "done"  # no letter is left


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """Something that happened to a campaign."""

    at: datetime
    by: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRow:
    """One campaign. `wake_at` is when a scheduler must look at it; None: nothing is left to do."""

    # What was asked for; never changes.
    campaign_id: UUID
    kind: CampaignKind
    told: JsonObject  # the data of the event that asked for it
    asked_by: str
    reason: str
    asked_at: datetime

    # How far it is.
    version: int = 1
    state: CampaignState
    why: str = ""  # why it stopped
    counts: Mapping[str, int] = field(default_factory=dict[str, int])  # its letters by state
    began_at: datetime  # or was resumed
    since: Mapping[str, int] = field(default_factory=dict[str, int])  # the counts when its canary began
    journal: tuple[JournalEntry, ...] = ()
    after: DeadLetterPosition | None = None  # of a dry run: the last letter that was looked at
    wake_at: datetime | None
    updated_at: datetime
    finished_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """Which dead letters; what is None or empty: any."""

    states: tuple[DeadLetterState, ...] = UNRESOLVED
    job_ids: tuple[UUID, ...] = ()
    fingerprint: str | None = None
    job_type: str | None = None
    died_after: datetime | None = None
    died_before: datetime | None = None
    campaign_id: UUID | None = None
    not_by: UUID | None = None  # but not those that this campaign was the last to deal with
    after: DeadLetterPosition | None = None  # what follows this letter in the order of the list
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RedriveOutcome:
    """What has become of the job that was asked for in a letter's place."""

    dead_letter: DeadLetter
    state: JobState | None  # None: no scheduler has accepted it
    fingerprint: str | None  # of what it died of, if it did


@dataclass(frozen=True, slots=True)
class DeadLetterTransition:
    """A letter that leaves the state `from_state`, as it is then."""

    from_state: DeadLetterState
    dead_letter: DeadLetter


@dataclass(frozen=True, slots=True)
class SuccessfulRequest:
    """A job that has succeeded, by what was asked for."""

    job_id: UUID
    job_type: str
    request: str  # JobRow.fingerprint
    accepted_at: datetime


class DeadLetterStore(Protocol):
    """Where dead letters and campaigns are kept. Errors are those of the state store."""

    async def list_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetter]:
        """Dead letters, the last that died first (or the first, if asked so)."""
        ...

    async def count_dead_letters(self, which: DeadLetterFilter) -> dict[DeadLetterState, int]:
        """How many there are in each state; `limit` counts for nothing."""
        ...

    async def group_dead_letters(self, which: DeadLetterFilter) -> list[DeadLetterGroup]:
        """Dead letters by cause and job type, the cause of the last death first."""
        ...

    async def redriven_as(self, job_ids: Collection[UUID]) -> dict[UUID, DeadLetter]:
        """By job: the dead letter in whose place it was asked for, of those that were."""
        ...

    async def redrive_outcomes(
        self, campaign_id: UUID, requested_before: datetime, limit: int
    ) -> list[RedriveOutcome]:
        """What has become of letters that are asked for: those whose job is over, and those asked for by then
        of which no scheduler has heard. The first that died first."""
        ...

    async def succeeded_since(
        self, requests: Collection[str], job_types: Collection[str], since: datetime
    ) -> list[SuccessfulRequest]:
        """Jobs of these types, accepted after `since`, that have succeeded at one of these requests."""
        ...

    async def put_campaign(self, row: CampaignRow) -> bool:
        """Insert a campaign; False where there is one by this id: it stays as it is."""
        ...

    async def campaigns(self, ids: Collection[UUID] = (), limit: int = 50) -> list[CampaignRow]:
        """Campaigns, the last asked for first; of these ids, if any are given."""
        ...

    async def claim_campaigns(self, now: datetime, until: datetime, limit: int) -> list[CampaignRow]:
        """Campaigns with `wake_at <= now`, the longest due first, claimed by moving it to `until`.

        No two callers get the same; whoever dies with a claim loses it at `until`. A claim makes the version
        grow.
        """
        ...

    async def save_campaign(self, row: CampaignRow, moves: Sequence[DeadLetterTransition] = ()) -> bool:
        """Write how far a campaign is, and move its letters, together; whether it counted.

        Only where the store holds version `row.version - 1`. A letter moves only from the state in which it
        was found, and only where no other campaign has it; the others stay.
        """
        ...
