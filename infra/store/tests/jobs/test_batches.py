"""Batches of jobs: the answers to an insert, and the columns that the statements take."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store_rows import NOON, after, queued_job, running_job, succeeded

from warrener_store.jobs.batch_columns import jobs_to_arrays, jobs_to_columns, saves_to_arrays
from warrener_store.jobs.batches import (
    ExistingJobs,
    group_saves,
    match_existing,
    resolve_in_order,
    unique_rows,
)
from warrener_store.jobs.columns import JOB_COLUMNS
from warrener_store.jobs.rows import STATE_FIELDS, Inserted, JobRow
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC, ColumnCodec

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
MOMENTS = st.sampled_from([NOON, after(1), datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))])


def row_with(**fields: Any) -> JobRow:
    return replace(queued_job(), **fields)


ROWS = st.builds(
    row_with,
    source=ANY_TEXT,
    idempotency_key=st.none() | ANY_TEXT,
    parent_id=st.none() | st.uuids(),
    arguments=st.fixed_dictionaries({"n": st.sampled_from([1, True, 1.0, 0, False, None])}),
    requested_at=MOMENTS,
    due_at=st.none() | MOMENTS,
    watchers=st.lists(ANY_TEXT, max_size=2).map(tuple),
)


def test_rows_are_handed_over_in_the_order_of_their_ids() -> None:
    rows = [queued_job(idempotency_key=f"k{n}" if n else None) for n in range(5)]
    assert unique_rows([*rows, rows[0]]) == sorted(rows, key=lambda row: row.job_id)


def test_where_a_key_stands_twice_the_order_of_the_batch_is_preserved() -> None:
    rows = sorted(
        (queued_job(idempotency_key="k") for _ in range(4)), key=lambda row: row.job_id, reverse=True
    )
    assert unique_rows(rows) == rows


def test_what_nothing_stands_for_is_left_for_another_round() -> None:
    taken = queued_job(idempotency_key="k")
    blocked = queued_job(idempotency_key="k")
    free = replace(blocked, idempotency_key="free")
    assert match_existing({0: blocked, 1: free}, (), [taken]) == {0: Inserted(taken, new=False)}


def test_in_turn_each_row_sees_those_before_it() -> None:
    row, other = queued_job(idempotency_key="k"), queued_job(idempotency_key="k")
    assert resolve_in_order([row, other, row], ExistingJobs()) == [
        Inserted(row, new=True),
        Inserted(row, new=False),
        Inserted(row, new=False),
    ]


@pytest.mark.parametrize("codec", [POSTGRES_CODEC, SQLITE_CODEC])
# A row has many fields: to draw some takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=5))
def test_beside_others_a_job_is_written_as_it_is_alone(codec: ColumnCodec, rows: list[JobRow]) -> None:
    together = jobs_to_columns(rows, codec)
    alone = [[column[0] for column in jobs_to_columns([row], codec)] for row in rows]
    assert [list(row) for row in zip(*together, strict=True)] == alone


def test_equal_values_of_new_jobs_are_handed_over_once_and_missing_ones_not_at_all() -> None:
    first = queued_job()
    arrays = dict(zip(JOB_COLUMNS, jobs_to_arrays([first, replace(first, job_id=uuid4())]), strict=True))
    assert arrays["job_type"] == ["flights.load"]
    assert arrays["wake_at"] == [first.wake_at]
    assert arrays["agent_id"] == []
    assert len(arrays["job_id"]) == len(arrays["arguments"]) == 2


def test_equal_values_of_saved_jobs_are_handed_over_once_and_missing_ones_not_at_all() -> None:
    rows = [running_job(dispatched_at=after(number)) for number in range(3)]
    columns = ("job_id", "held", *STATE_FIELDS, "run_started_at", "run_finished_at")
    by_column = dict(
        zip(columns, saves_to_arrays(group_saves([succeeded(row) for row in rows])), strict=True)
    )
    assert by_column["held"] == [1]
    assert by_column["state"] == ["succeeded"]
    assert by_column["wake_at"] == by_column["result"] == []
    assert by_column["run_finished_at"] == [after(60)]
    assert len(by_column["job_id"]) == len(by_column["dispatched_at"]) == 3
