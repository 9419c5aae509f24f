"""Rows of every kind are stored and come back as they were, in both databases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from tests.store_rows import (
    NOON,
    after,
    agent_row,
    attempt_of,
    breaker_row,
    job_type_row,
    parked_message,
    running_job,
)

from warrener_contracts.events import ErrorInfo, ErrorKind, TickStatus
from warrener_contracts.policy import Guarantee
from warrener_store.agents.store import AGENTS, JOB_TYPES
from warrener_store.breakers.store import BREAKERS
from warrener_store.dead_letters.columns import DEAD_LETTERS
from warrener_store.dead_letters.rows import DeadLetter, DeadLetterState
from warrener_store.jobs.columns import ATTEMPTS, CHECKPOINTS
from warrener_store.jobs.rows import AttemptOutcome
from warrener_store.jobs.views import CheckpointRow
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC, ColumnCodec, RowMapper
from warrener_store.parked.rows import ParkedMessage
from warrener_store.parked.store import PARKED
from warrener_store.schedules.columns import TICKS, WATCHES
from warrener_store.schedules.rows import TickRow, WatchRow

BOOM = ErrorInfo(kind=ErrorKind.ERROR, type="Boom", message="no")
STRANGE = "a\x00b\x1a \ud800"
CODECS = pytest.mark.parametrize("codec", [POSTGRES_CODEC, SQLITE_CODEC])

ROWS: list[tuple[RowMapper[Any], object]] = [
    (ATTEMPTS, attempt_of(running_job(), AttemptOutcome.FAILED, error=BOOM)),
    (CHECKPOINTS, CheckpointRow(job_id=uuid4(), attempt=1, number=2, state=None, saved_at=NOON)),
    (CHECKPOINTS, CheckpointRow(job_id=uuid4(), attempt=1, number=2, state={"a": [1.5]}, saved_at=NOON)),
    (
        DEAD_LETTERS,
        DeadLetter(
            job_id=uuid4(),
            job_type="flights.load",
            attempts=3,
            reason=STRANGE,
            error=None,
            died_at=NOON,
            state=DeadLetterState.REJECTED,
            redriven_as=uuid4(),
        ),
    ),
    (
        JOB_TYPES,
        job_type_row(arguments_schema={"type": "object"}, guarantee=Guarantee.EXCLUSIVE, description=STRANGE),
    ),
    (AGENTS, agent_row(queues=("default", STRANGE), draining=True, last_seen_at=after(1))),
    (BREAKERS, breaker_row()),
    (TICKS, TickRow(schedule="s", nominal_at=NOON, status=TickStatus.WAITING, due_at=NOON, decided_at=NOON)),
    (WATCHES, WatchRow(name="s", success_within=timedelta(hours=1), since=NOON, check_at=NOON)),
    (PARKED, parked_message(detail=STRANGE, headers={"a": "b"})),
]


@CODECS
@pytest.mark.parametrize(("mapper", "row"), ROWS)
def test_a_row_comes_back_as_it_was(mapper: RowMapper[Any], row: object, codec: ColumnCodec) -> None:
    values = mapper.to_row(row, codec)
    assert len(values) == len(mapper.columns)
    assert mapper.from_row((*values, "more"), codec) == row


@CODECS
def test_null_in_a_field_that_cannot_be_none_is_its_default(codec: ColumnCodec) -> None:
    (message,) = (row for _, row in ROWS if isinstance(row, ParkedMessage))
    values = PARKED.to_row(replace(message, headers={}), codec)
    assert values[PARKED.columns.index("headers")] is None
    assert PARKED.from_row(values, codec).headers == {}


@pytest.mark.parametrize(
    "moment", [NOON, NOON.replace(microsecond=0), NOON.astimezone(timezone(timedelta(hours=-3)))]
)
def test_a_moment_as_text_is_as_long_as_any_and_the_same_moment(moment: Any) -> None:
    text = SQLITE_CODEC.encode_moment(moment)
    assert len(text) == len("2026-11-20T12:00:00.123456Z")
    assert datetime.fromisoformat(text).astimezone(UTC) == moment
