"""How attempts and jobs ended: attempt rows, dead letters, counts."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.state_machine import JobState
from warrener_store.encoding import escape, unescape
from warrener_store.records.codec import ColumnCodec, decode_text, encode_text
from warrener_store.records.policies import decode_error, encode_error
from warrener_store.rows import AttemptEnd, AttemptRow, DeadLetter, DeadLetterState, StateCount

ATTEMPT_COLUMNS = (
    "job_id",
    "attempt",
    "ended_as",
    "agent_id",
    "dispatched_at",
    "started_at",
    "finished_at",
    "error",
    "verdict",
)
DEAD_LETTER_INSERT_COLUMNS = ("job_id", "job_type", "attempts", "reason", "error", "died_at", "fingerprint")
"""Those that are written when the job dies."""
DEAD_LETTER_COLUMNS = (
    *DEAD_LETTER_INSERT_COLUMNS,
    "state",
    "campaign_id",
    "redriven_as",
    "redrives",
    "asked_at",
    "note",
)


def attempt_to_row(row: AttemptRow, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of ATTEMPT_COLUMNS."""
    return (
        codec.encode_id(row.job_id),
        row.attempt,
        row.end.value,
        encode_text(row.agent_id),
        codec.encode_moment(row.dispatched_at),
        codec.encode_moment(row.started_at),
        codec.encode_moment(row.finished_at),
        encode_error(row.error),
        escape(row.verdict),
    )


def attempt_from_row(values: Sequence[Any], codec: ColumnCodec) -> AttemptRow:
    """The row whose ATTEMPT_COLUMNS have these values."""
    return AttemptRow(
        job_id=codec.decode_id(values[0]),
        attempt=values[1],
        end=AttemptEnd(values[2]),
        agent_id=decode_text(values[3]),
        dispatched_at=codec.decode_moment(values[4]),
        started_at=codec.decode_moment(values[5]),
        finished_at=codec.decode_moment(values[6]),
        error=decode_error(values[7]),
        verdict=unescape(values[8]),
    )


def dead_letter_to_row(row: DeadLetter, codec: ColumnCodec) -> tuple[Any, ...]:
    """The values of DEAD_LETTER_INSERT_COLUMNS."""
    return (
        codec.encode_id(row.job_id),
        escape(row.job_type),
        row.attempts,
        escape(row.reason),
        encode_error(row.error),
        codec.encode_moment(row.died_at),
        row.fingerprint,
    )


def dead_letter_from_row(values: Sequence[Any], codec: ColumnCodec) -> DeadLetter:
    """The row whose DEAD_LETTER_COLUMNS have these values."""
    return DeadLetter(
        job_id=codec.decode_id(values[0]),
        job_type=unescape(values[1]),
        attempts=values[2],
        reason=unescape(values[3]),
        error=decode_error(values[4]),
        died_at=codec.decode_moment(values[5]),
        fingerprint=values[6],
        state=DeadLetterState(values[7]),
        campaign_id=codec.decode_id(values[8]),
        redriven_as=codec.decode_id(values[9]),
        redrives=values[10],
        asked_at=codec.decode_moment(values[11]),
        note=decode_text(values[12]),
    )


def count_from_row(values: Sequence[Any]) -> StateCount:
    """The count of (job type, state, jobs)."""
    return StateCount(job_type=unescape(values[0]), state=JobState(values[1]), jobs=int(values[2]))
