"""The columns of dead letters, and of redrives and the dead letters that they move."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from warrener_contracts.events import JsonObject
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterTransition,
    JournalEntry,
    RedriveKind,
    RedriveRow,
    RedriveState,
)
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.mapping import (
    SQLITE_CODEC,
    ColumnCodec,
    RowMapper,
    encode_text,
    qualify,
)

DEAD_LETTERS = RowMapper(DeadLetter)
NEW_DEAD_LETTERS = RowMapper(
    DeadLetter, ("job_id", "job_type", "attempts", "reason", "error", "died_at", "fingerprint")
)
"""The columns that are written when the job dies."""

REDRIVE_COLUMNS = (
    "redrive_id",
    "kind",
    "request",
    "requested_by",
    "reason",
    "requested_at",
    "version",
    "state",
    "stop_reason",
    "counts",
    "started_at",
    "counts_at_start",
    "journal",
    "after_died_at",
    "after_job_id",
    "wake_at",
    "updated_at",
    "finished_at",
)
WORDS = {"redrive": qualify("redrive", REDRIVE_COLUMNS)}
"""The meanings of words in braces of statements."""


def redrive_to_row(row: RedriveRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of REDRIVE_COLUMNS."""
    request_values = (row.kind.value, encode(row.request), escape(row.requested_by), escape(row.reason))
    return (
        codec.encode_id(row.redrive_id),
        *request_values,
        codec.encode_moment(row.requested_at),
        *progress_to_row(row, codec),
    )


def progress_to_row(row: RedriveRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of the columns that a save writes: from the version on."""
    died_at, job_id = row.after or (None, None)
    return (
        row.version,
        row.state.value,
        escape(row.stop_reason),
        encode(dict(row.counts)),
        codec.encode_moment(row.started_at),
        encode(dict(row.counts_at_start)),
        encode([_entry_to_json(entry) for entry in row.journal]),
        codec.encode_moment(died_at),
        codec.encode_id(job_id),
        codec.encode_moment(row.wake_at),
        codec.encode_moment(row.updated_at),
        codec.encode_moment(row.finished_at),
    )


def redrive_from_row(values: Sequence[Any], codec: ColumnCodec) -> RedriveRow:
    """The row whose REDRIVE_COLUMNS have these values."""
    died_at, job_id = codec.decode_moment(values[13]), codec.decode_id(values[14])
    return RedriveRow(
        redrive_id=codec.decode_id(values[0]),
        kind=RedriveKind(values[1]),
        request=decode(values[2]),
        requested_by=unescape(values[3]),
        reason=unescape(values[4]),
        requested_at=codec.decode_moment(values[5]),
        version=values[6],
        state=RedriveState(values[7]),
        stop_reason=unescape(values[8]),
        counts=decode(values[9]),
        started_at=codec.decode_moment(values[10]),
        counts_at_start=decode(values[11]),
        journal=tuple(_entry_from_json(entry) for entry in decode(values[12])),
        after=None if died_at is None else (died_at, job_id),
        wake_at=codec.decode_moment(values[15]),
        updated_at=codec.decode_moment(values[16]),
        finished_at=codec.decode_moment(values[17]),
    )


TRANSITION_WIDTH = 8


def transition_to_row(move: DeadLetterTransition, codec: ColumnCodec) -> tuple[Any, ...]:
    """The job, the state that the dead letter must have, and the values that are written."""
    dead_letter = move.dead_letter
    return (
        codec.encode_id(dead_letter.job_id),
        move.from_state.value,
        dead_letter.state.value,
        codec.encode_id(dead_letter.redrive_id),
        codec.encode_id(dead_letter.redriven_as),
        dead_letter.redrives,
        codec.encode_moment(dead_letter.redriven_at),
        encode_text(dead_letter.note),
    )


def sort_by_job(moves: Sequence[DeadLetterTransition]) -> list[DeadLetterTransition]:
    """One transition for each job, by job: locking in one order prevents deadlocks between redrives."""
    by_job: dict[UUID, DeadLetterTransition] = {move.dead_letter.job_id: move for move in moves}
    return [by_job[job_id] for job_id in sorted(by_job)]


def _entry_to_json(entry: JournalEntry) -> JsonObject:
    return {"at": SQLITE_CODEC.encode_moment(entry.at), "by": entry.by, "action": entry.action}


def _entry_from_json(entry: JsonObject) -> JournalEntry:
    return JournalEntry(at=SQLITE_CODEC.decode_moment(entry["at"]), by=entry["by"], action=entry["action"])
