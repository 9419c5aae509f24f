"""Campaigns and the letters that they move, as columns keep them."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from warrener_contracts.events import JsonObject
from warrener_store.dead_letters import CampaignKind, CampaignRow, CampaignState, JournalEntry, Move
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.records.form import TEXTUAL, Form, text_out

CAMPAIGN_COLUMNS = (
    "campaign_id",
    "kind",
    "told",
    "asked_by",
    "reason",
    "asked_at",
    "version",
    "state",
    "why",
    "counts",
    "began_at",
    "since",
    "journal",
    "after_died_at",
    "after_job_id",
    "wake_at",
    "updated_at",
    "finished_at",
)
ASKED_COLUMNS = CAMPAIGN_COLUMNS[1:6]
"""Those of what was asked for, behind the id."""


def campaign_out(row: CampaignRow, form: Form) -> tuple[Any, ...]:
    """The values of CAMPAIGN_COLUMNS."""
    asked = (row.kind.value, encode(row.told), escape(row.asked_by), escape(row.reason))
    return (form.id_out(row.campaign_id), *asked, form.moment_out(row.asked_at), *progress_out(row, form))


def progress_out(row: CampaignRow, form: Form) -> tuple[Any, ...]:
    """The values of the columns that a save writes: from the version on."""
    died_at, job_id = row.after or (None, None)
    return (
        row.version,
        row.state.value,
        escape(row.why),
        encode(dict(row.counts)),
        form.moment_out(row.began_at),
        encode(dict(row.since)),
        encode([_entry_out(entry) for entry in row.journal]),
        form.moment_out(died_at),
        form.id_out(job_id),
        form.moment_out(row.wake_at),
        form.moment_out(row.updated_at),
        form.moment_out(row.finished_at),
    )


def campaign_in(values: Sequence[Any], form: Form) -> CampaignRow:
    """The row whose CAMPAIGN_COLUMNS have these values."""
    died_at, job_id = form.moment_in(values[13]), form.id_in(values[14])
    return CampaignRow(
        campaign_id=form.id_in(values[0]),
        kind=CampaignKind(values[1]),
        told=decode(values[2]),
        asked_by=unescape(values[3]),
        reason=unescape(values[4]),
        asked_at=form.moment_in(values[5]),
        version=values[6],
        state=CampaignState(values[7]),
        why=unescape(values[8]),
        counts=decode(values[9]),
        began_at=form.moment_in(values[10]),
        since=decode(values[11]),
        journal=tuple(_entry_in(entry) for entry in decode(values[12])),
        after=None if died_at is None else (died_at, job_id),
        wake_at=form.moment_in(values[15]),
        updated_at=form.moment_in(values[16]),
        finished_at=form.moment_in(values[17]),
    )


MOVE_COLUMNS = 8


def move_out(move: Move, form: Form) -> tuple[Any, ...]:
    """The job, the state in which it is held, and what is written."""
    letter = move.letter
    return (
        form.id_out(letter.job_id),
        move.held.value,
        letter.state.value,
        form.id_out(letter.campaign_id),
        form.id_out(letter.redriven_as),
        letter.redrives,
        form.moment_out(letter.asked_at),
        text_out(letter.note),
    )


def in_order(moves: Sequence[Move]) -> list[Move]:
    """By job, so that two campaigns that want the same letters wait for each other, but never in a circle."""
    by_job: dict[UUID, Move] = {move.letter.job_id: move for move in moves}
    return [by_job[job_id] for job_id in sorted(by_job)]


def _entry_out(entry: JournalEntry) -> JsonObject:
    return {"at": TEXTUAL.moment_out(entry.at), "by": entry.by, "what": entry.what}


def _entry_in(entry: JsonObject) -> JournalEntry:
    return JournalEntry(at=TEXTUAL.moment_in(entry["at"]), by=entry["by"], what=entry["what"])
