"""What people ask of dead letters, as campaigns. Pure."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from warrener_contracts.events import (
    DeadLetterSelection,
    Event,
    JobDropRequested,
    JobRedriveRequested,
    RedriveChangeRequested,
    RedriveChangeRequestedData,
)
from warrener_contracts.identity import job_id_of
from warrener_store.dead_letters.rows import (
    CampaignKind,
    CampaignRow,
    CampaignState,
    DeadLetterFilter,
    JournalEntry,
)

StartCommand = JobRedriveRequested | JobDropRequested
RedriveCommand = StartCommand | RedriveChangeRequested

MAX_JOURNAL_ENTRIES = 100


def new_campaign(event: StartCommand, now: datetime) -> CampaignRow:
    """The campaign that an event asks for; its id is that of the event, so that a repeat is the same."""
    data = event.data
    kind, state = CampaignKind.DROP, CampaignState.ROLLING
    if isinstance(event, JobRedriveRequested):
        kind = CampaignKind.DRY_RUN if event.data.dry_run else CampaignKind.REDRIVE
        state = _initial_state(kind, event.data.canary)
    first_entry = JournalEntry(at=event.time or now, by=data.by, what=_with_reason("asked for", data.reason))
    return CampaignRow(
        campaign_id=job_id_of(event.source, event.id),
        kind=kind,
        told=data.model_dump(mode="json"),
        asked_by=data.by,
        reason=data.reason,
        asked_at=event.time or now,
        state=state,
        began_at=now,
        journal=(first_entry,),
        wake_at=now,
        updated_at=now,
    )


def apply_change(row: CampaignRow, event: RedriveChangeRequested, now: datetime) -> CampaignRow | None:
    """The campaign as the event wants it; None where that changes nothing, as when it is heard again."""
    data = event.data
    entry = JournalEntry(
        at=event.time or now,
        by=data.by,
        what=_with_reason("stopped" if data.change == "stop" else "resumed", data.reason),
    )
    if entry in row.journal or row.state is CampaignState.DONE:
        return None
    if (row.state is CampaignState.STOPPED) == (data.change == "stop"):
        return None
    if data.change == "stop":
        why = _with_reason(f"stopped by {data.by}", data.reason)
        return with_journal_entry(_due_now(row, now, state=CampaignState.STOPPED, why=why), entry)
    state = _initial_state(row.kind, row.told.get("canary", 0))
    return with_journal_entry(
        _due_now(row, now, state=state, why="", since=dict(row.counts), began_at=now), entry
    )


def with_journal_entry(row: CampaignRow, entry: JournalEntry) -> CampaignRow:
    """The campaign with one more line in its journal, which keeps its first line and the last hundred."""
    journal = (*row.journal, entry)
    if len(journal) > MAX_JOURNAL_ENTRIES:
        journal = (journal[0], *journal[2 - MAX_JOURNAL_ENTRIES :])
    return replace(row, journal=journal)


def dead_letter_filter(row: CampaignRow, **more: Any) -> DeadLetterFilter:
    """The letters that a campaign is about: of those that nobody has dealt with, those that had died when it
    began. What dies of it is for the next one."""
    which = DeadLetterSelection.model_validate(row.told["which"])
    return DeadLetterFilter(
        job_ids=which.job_ids,
        fingerprint=which.fingerprint,
        job_type=which.job_type,
        died_after=which.died_after,
        died_before=min(which.died_before or row.began_at, row.began_at),
        oldest_first=True,
        **more,
    )


def target_campaign_id(event: Event[RedriveChangeRequestedData]) -> UUID:
    """The campaign that a change is about."""
    return event.data.campaign_id


def _initial_state(kind: CampaignKind, canary: int) -> CampaignState:
    return CampaignState.CANARY if kind is CampaignKind.REDRIVE and canary else CampaignState.ROLLING


def _due_now(row: CampaignRow, now: datetime, **changes: Any) -> CampaignRow:
    version = row.version + 1
    return replace(row, version=version, wake_at=now, updated_at=now, finished_at=None, **changes)


def _with_reason(what: str, reason: str) -> str:
    return f"{what}: {reason}" if reason else what
