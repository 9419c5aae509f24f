"""The columns of dead letters, and of redrives and the dead letters that they move."""

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from warrener_contracts.events import JsonObject
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterTransition, JournalEntry, RedriveRow
from warrener_store.encoding import decode, encode
from warrener_store.mapping import SQLITE_CODEC, ColumnCodec, ColumnKind, RowMapper, qualify

DEAD_LETTERS = RowMapper(DeadLetter)
NEW_DEAD_LETTERS = RowMapper(
    DeadLetter, ("job_id", "job_type", "attempts", "reason", "error", "died_at", "fingerprint")
)
"""The columns that are written when the job dies."""


def _encode_journal(journal: Sequence[JournalEntry]) -> str:
    return encode([{**asdict(entry), "at": SQLITE_CODEC.encode_moment(entry.at)} for entry in journal])


def _decode_journal(text: str) -> tuple[JournalEntry, ...]:
    entries: list[JsonObject] = decode(text)
    return tuple(
        JournalEntry(at=SQLITE_CODEC.decode_moment(one["at"]), by=one["by"], action=one["action"])
        for one in entries
    )


_KINDS = {"journal": ColumnKind(_encode_journal, _decode_journal)}
REDRIVES = RowMapper(
    RedriveRow, [field.name for field in fields(RedriveRow) if field.name != "after"], kinds=_KINDS
)
"""All columns but the two of `after`, which follow them."""
PROGRESS = RowMapper(RedriveRow, REDRIVES.columns[REDRIVES.columns.index("version") :], kinds=_KINDS)
"""The columns that a save writes, and `after` behind them."""
REDRIVE_COLUMNS = (*REDRIVES.columns, "after_died_at", "after_job_id")
DEAD_LETTER = qualify("dead_letter", DEAD_LETTERS.columns)
WORDS = {"redrive": qualify("redrive", REDRIVE_COLUMNS), "dead_letter": DEAD_LETTER}


def redrive_to_row(
    row: RedriveRow, codec: ColumnCodec, mapper: RowMapper[RedriveRow] = REDRIVES
) -> tuple[Any, ...]:
    """The values of REDRIVE_COLUMNS, or of PROGRESS and `after`."""
    died_at, job_id = row.after or (None, None)
    return (*mapper.to_row(row, codec), codec.encode_moment(died_at), codec.encode_id(job_id))


def redrive_from_row(values: Sequence[Any], codec: ColumnCodec) -> RedriveRow:
    """The row whose REDRIVE_COLUMNS have these values; more values behind them are ignored."""
    row, place = REDRIVES.from_row(values, codec), len(REDRIVES.columns)
    died_at, job_id = codec.decode_moment(values[place]), codec.decode_id(values[place + 1])
    return row if died_at is None else replace(row, after=(died_at, job_id))


_MOVED = RowMapper(
    DeadLetter, ("job_id", "state", "redrive_id", "redriven_as", "redrives", "redriven_at", "note")
)
TRANSITION_WIDTH = 1 + len(_MOVED.columns)


def transitions_to_rows(moves: Sequence[DeadLetterTransition], codec: ColumnCodec) -> list[tuple[Any, ...]]:
    """For each job the state that its dead letter must have, the job, and the values that are written.

    One transition for each job, by job: locking in one order prevents deadlocks between redrives.
    """
    by_job = {move.dead_letter.job_id: move for move in moves}
    in_order = (move for _, move in sorted(by_job.items()))
    return [(move.from_state.value, *_MOVED.to_row(move.dead_letter, codec)) for move in in_order]
