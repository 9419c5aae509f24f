"""A batch of new jobs, column by column: what each job says stands in its place, however alike they are."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warrener_store.records.codec import POSTGRES_CODEC, SQLITE_CODEC, ColumnCodec
from warrener_store.records.jobs import JOB_COLUMNS
from warrener_store.records.new_jobs import jobs_to_arrays, jobs_to_columns
from warrener_store.rows import JobRow
from warrener_store.testing import NOON, after, queued_job

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
MOMENTS = st.sampled_from([NOON, after(1), datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))])


def row_with(**fields: Any) -> JobRow:
    """A new job with these fields."""
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


@pytest.mark.parametrize("codec", [POSTGRES_CODEC, SQLITE_CODEC])
# A row has many fields: to draw some takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=5))
def test_beside_others_a_job_is_written_as_it_is_alone(codec: ColumnCodec, rows: list[JobRow]) -> None:
    together = jobs_to_columns(rows, codec)
    alone = [[column[0] for column in jobs_to_columns([row], codec)] for row in rows]
    assert [list(row) for row in zip(*together, strict=True)] == alone


def test_what_is_one_for_all_or_missing_in_all_is_handed_over_once_or_not_at_all() -> None:
    first = queued_job()
    arrays = dict(zip(JOB_COLUMNS, jobs_to_arrays([first, replace(first, job_id=uuid4())]), strict=True))
    assert arrays["job_type"] == ["flights.load"]
    assert arrays["wake_at"] == [first.wake_at]
    assert arrays["owner"] == []
    assert len(arrays["job_id"]) == len(arrays["arguments"]) == 2


@pytest.mark.parametrize(
    "moment", [NOON, NOON.replace(microsecond=0), NOON.astimezone(timezone(timedelta(hours=-3)))]
)
def test_a_moment_as_text_is_as_long_as_any_and_the_same_moment(moment: Any) -> None:
    text = SQLITE_CODEC.encode_moment(moment)
    assert len(text) == len("2026-11-20T12:00:00.123456Z")
    assert datetime.fromisoformat(text).astimezone(UTC) == moment
