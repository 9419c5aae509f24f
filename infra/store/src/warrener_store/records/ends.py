"""How attempts and jobs ended: attempt rows, dead letters, counts."""

from collections.abc import Sequence
from typing import Any

from warrener_contracts.states import JobState
from warrener_store.encoding import escape, unescape
from warrener_store.records.form import Form, text_in, text_out
from warrener_store.records.policies import error_in, error_out
from warrener_store.rows import AttemptEnd, AttemptRow, DeadLetter, LetterState, StateCount

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
DEAD_LETTER_COLUMNS = ("job_id", "job_type", "attempts", "reason", "error", "died_at", "fingerprint")
"""Those that are written when the job dies."""
LETTER_COLUMNS = (
    *DEAD_LETTER_COLUMNS,
    "state",
    "campaign_id",
    "redriven_as",
    "redrives",
    "asked_at",
    "note",
)


def attempt_out(row: AttemptRow, form: Form) -> tuple[Any, ...]:
    """The values of ATTEMPT_COLUMNS."""
    return (
        form.id_out(row.job_id),
        row.attempt,
        row.end.value,
        text_out(row.agent_id),
        form.moment_out(row.dispatched_at),
        form.moment_out(row.started_at),
        form.moment_out(row.finished_at),
        error_out(row.error),
        escape(row.verdict),
    )


def attempt_in(values: Sequence[Any], form: Form) -> AttemptRow:
    """The row whose ATTEMPT_COLUMNS have these values."""
    return AttemptRow(
        job_id=form.id_in(values[0]),
        attempt=values[1],
        end=AttemptEnd(values[2]),
        agent_id=text_in(values[3]),
        dispatched_at=form.moment_in(values[4]),
        started_at=form.moment_in(values[5]),
        finished_at=form.moment_in(values[6]),
        error=error_in(values[7]),
        verdict=unescape(values[8]),
    )


def dead_letter_out(row: DeadLetter, form: Form) -> tuple[Any, ...]:
    """The values of DEAD_LETTER_COLUMNS."""
    return (
        form.id_out(row.job_id),
        escape(row.job_type),
        row.attempts,
        escape(row.reason),
        error_out(row.error),
        form.moment_out(row.died_at),
        row.fingerprint,
    )


def dead_letter_in(values: Sequence[Any], form: Form) -> DeadLetter:
    """The row whose LETTER_COLUMNS have these values."""
    return DeadLetter(
        job_id=form.id_in(values[0]),
        job_type=unescape(values[1]),
        attempts=values[2],
        reason=unescape(values[3]),
        error=error_in(values[4]),
        died_at=form.moment_in(values[5]),
        fingerprint=values[6],
        state=LetterState(values[7]),
        campaign_id=form.id_in(values[8]),
        redriven_as=form.id_in(values[9]),
        redrives=values[10],
        asked_at=form.moment_in(values[11]),
        note=text_in(values[12]),
    )


def count_in(values: Sequence[Any]) -> StateCount:
    """The count of (job type, state, jobs)."""
    return StateCount(job_type=unescape(values[0]), state=JobState(values[1]), jobs=int(values[2]))
