"""Statements and the columns that they take, in both databases; texts and documents come back."""

from copy import copy
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone
from importlib.resources import files
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from infra.store.tests.raw_sql import run_sql
from tests.store_rows import (
    NOON,
    after,
    attempt_of,
    changed,
    died,
    parked_message,
    queued_job,
    running_job,
    succeeded,
)

from warrener_contracts.state_machine import JobState
from warrener_store import StateStore
from warrener_store.encoding import decode, encode, escape, unescape
from warrener_store.jobs import batches
from warrener_store.jobs.batch_columns import jobs_to_arrays, jobs_to_columns, saves_to_arrays
from warrener_store.jobs.columns import IDS, JOB_COLUMNS, MOMENTS, TEXTS
from warrener_store.jobs.rows import STATE_FIELDS, AttemptOutcome, Inserted, JobChanges, JobRow, Save, evolve
from warrener_store.mapping import POSTGRES_CODEC, SQLITE_CODEC, ColumnCodec, fields_of_type
from warrener_store.parked.store import PARKED
from warrener_store.statements import FOLDERS, positional, statement


def names_of(file: str) -> list[str]:
    """The names of the statements in all files of this name."""
    package = files("warrener_store")
    sources = (folder / file for folder in (package, *(package / name for name in FOLDERS.split())))
    lines = (line for source in sources if source.is_file() for line in source.read_text().splitlines())
    return [line.removeprefix("-- name: ") for line in lines if line.startswith("-- name: ")]


@pytest.mark.parametrize("dialect", ["postgres", "sqlite"])
def test_every_statement_is_complete(dialect: str) -> None:
    for name in (*names_of("statements.sql"), *names_of(f"{dialect}.sql")):
        text = statement(dialect, name)
        assert "{" not in text.replace('"rule":{"kind"', ""), text


def test_a_statement_for_both_databases_stands_in_no_file_of_one() -> None:
    shared = set(names_of("statements.sql"))
    assert not shared & {*names_of("postgres.sql"), *names_of("sqlite.sql")}


def test_an_array_of_postgresql_is_a_json_text_of_sqlite_and_a_batch_is_one_row() -> None:
    assert "parent_id = ANY($1::uuid[])" in statement("postgres", "children_of")
    assert "parent_id IN (SELECT value FROM json_each($1))" in statement("sqlite", "children_of")
    arrays = "FROM unnest($1::text[], $2::text[]) AS batch (exchange, key)"
    assert arrays in statement("postgres", "note_bound")
    assert "FROM (SELECT $1 AS exchange, $2 AS key) AS batch" in statement("sqlite", "note_bound")
    for name, times in (("running_owners", 2), ("running_of", 1), ("derived_sources", 2)):
        text = statement("sqlite", name)
        assert (text.count("INDEXED BY"), "/*" in text) == (times, False), name


def test_parameters_stand_in_the_order_of_their_use() -> None:
    prepared = positional("SELECT $2, ?1, $2")
    assert prepared.text == "SELECT ?, ?, ?"
    assert prepared.arrange(("a", "b")) == ("b", "a", "b")


ANY_TEXT = st.text(st.characters(exclude_categories=()))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(ANY_TEXT, ANY_TEXT)
def test_an_escaped_text_can_be_stored_comes_back_and_stays_different(one: str, other: str) -> None:
    stored = escape(one)
    assert "\x00" not in stored.encode().decode()
    assert unescape(stored) == one
    assert (stored == escape(other)) == (one == other)


@given(DOCUMENTS)
def test_a_document_can_be_stored_and_comes_back(document: Any) -> None:
    stored = encode(document)
    assert "\x00" not in stored.encode().decode()
    assert decode(stored) == document


def test_what_nests_too_deeply_for_the_fast_path_comes_back() -> None:
    document: Any = []
    for _ in range(400):
        document = [document]
    assert decode(encode(document)) == document


CODECS = pytest.mark.parametrize("codec", [POSTGRES_CODEC, SQLITE_CODEC])


@CODECS
def test_null_in_a_field_that_cannot_be_none_is_its_default(codec: ColumnCodec) -> None:
    values = PARKED.to_row(parked_message(headers={}), codec)
    assert values[PARKED.columns.index("headers")] is None
    assert PARKED.from_row(values, codec).headers == {}


@pytest.mark.parametrize(
    "moment", [NOON, NOON.replace(microsecond=0), NOON.astimezone(timezone(timedelta(hours=-3)))]
)
def test_a_moment_as_text_is_as_long_as_any_and_the_same_moment(moment: Any) -> None:
    text = SQLITE_CODEC.encode_moment(moment)
    assert len(text) == len("2026-11-20T12:00:00.123456Z")
    assert datetime.fromisoformat(text).astimezone(UTC) == moment


def test_a_job_becomes_what_it_was_with_some_changes() -> None:
    row = queued_job(watchers=("me",))
    before = copy(row)
    now = evolve(row, version=2, state=JobState.RUNNING, agent_id="a1", lease_until=after(30))
    assert now == replace(row, version=2, state=JobState.RUNNING, agent_id="a1", lease_until=after(30))
    assert (row, list(vars(now))) == (before, [field.name for field in fields(JobRow)])
    assert tuple(JobChanges.__annotations__) == STATE_FIELDS, "only what a save writes can change"


def test_every_column_of_a_job_is_converted_or_a_number() -> None:
    numbers = {*fields_of_type(JobRow, int), *fields_of_type(JobRow, float)}
    documents = {"arguments", "policy", "watchers", "result", "error"}
    enumerations = {"guarantee", "state", "ending"}
    assert {*JOB_COLUMNS} == numbers | documents | enumerations | {"idempotency_key", *TEXTS, *IDS, *MOMENTS}


SHORT_TEXT = st.text(st.characters(exclude_categories=()), max_size=8)
MANY_MOMENTS = st.sampled_from([NOON, after(1), datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2)))])


ROWS = st.builds(
    queued_job,
    source=SHORT_TEXT,
    idempotency_key=st.none() | SHORT_TEXT,
    parent_id=st.none() | st.uuids(),
    arguments=st.fixed_dictionaries({"n": st.sampled_from([1, True, 1.0, 0, False, None])}),
    requested_at=MANY_MOMENTS,
    due_at=st.none() | MANY_MOMENTS,
    watchers=st.lists(SHORT_TEXT, max_size=2).map(tuple),
)


def test_rows_are_handed_over_in_the_order_of_their_ids() -> None:
    rows = [queued_job(idempotency_key=f"k{n}" if n else None) for n in range(5)]
    assert batches.unique_rows([*rows, rows[0]]) == sorted(rows, key=lambda row: row.job_id)
    rows = sorted((queued_job(idempotency_key="k") for _ in range(4)), key=lambda row: row.job_id)[::-1]
    assert batches.unique_rows(rows) == rows[:1], "of a key that stands twice the first is inserted"
    again = replace(rows[0], job_type="other", job_id=uuid4())
    in_turn = [*rows[:2], replace(again, job_id=rows[1].job_id), again]
    assert batches.unique_rows(in_turn) == rows[:1], "what repeats a row that is left out waits for its turn"


def test_each_row_of_a_batch_is_the_one_that_is_there_or_comes_before_it() -> None:
    taken, blocked = queued_job(idempotency_key="k"), queued_job(idempotency_key="k")
    free = replace(blocked, idempotency_key="free")
    assert batches.match_existing({0: blocked, 1: free}, (), [taken]) == {0: Inserted(taken, new=False)}
    repeats = [Inserted(taken, new=False)] * 2
    in_turn = batches.resolve_in_order([taken, blocked, taken], batches.ExistingJobs())
    assert in_turn == [Inserted(taken, new=True), *repeats]


@CODECS
# A row has many fields: to draw some takes a while where the machine is busy.
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(rows=st.lists(ROWS, min_size=1, max_size=5))
def test_beside_others_a_job_is_written_as_it_is_alone(codec: ColumnCodec, rows: list[JobRow]) -> None:
    together = jobs_to_columns(rows, codec)
    alone = [[column[0] for column in jobs_to_columns([row], codec)] for row in rows]
    assert [list(row) for row in zip(*together, strict=True)] == alone


def test_equal_values_are_handed_over_once_and_missing_ones_not_at_all() -> None:
    first = queued_job()
    arrays = dict(zip(JOB_COLUMNS, jobs_to_arrays([first, replace(first, job_id=uuid4())]), strict=True))
    assert (arrays["job_type"], arrays["wake_at"]) == (["flights.load"], [first.wake_at])
    assert arrays["agent_id"] == []
    assert len(arrays["job_id"]) == len(arrays["arguments"]) == 2
    rows = [running_job(dispatched_at=after(number)) for number in range(3)]
    columns = ("job_id", "held", *STATE_FIELDS, "run_started_at", "run_finished_at")
    saves = saves_to_arrays(batches.group_saves([succeeded(row) for row in rows]))
    by_column = dict(zip(columns, saves, strict=True))
    assert (by_column["held"], by_column["state"]) == ([1], ["succeeded"])
    assert by_column["wake_at"] == by_column["result"] == []
    assert by_column["run_finished_at"] == [after(60)]
    assert len(by_column["job_id"]) == len(by_column["dispatched_at"]) == 3


async def count_attempt_rows(url: str) -> int:
    ((rows,),) = await run_sql(url, "SELECT count(*) FROM warrener_attempts")
    return int(rows)


async def test_the_success_of_a_job_is_in_its_row_and_what_went_wrong_before_it_has_a_row(
    store: StateStore, url: str
) -> None:
    row, first = running_job(), running_job()
    await store.insert_jobs([row, first])
    save = succeeded(row, "loaded")
    await store.save_jobs([save])
    assert await store.attempts_of([row.job_id]) == [save.attempt]
    assert await count_attempt_rows(url) == 0
    failed = attempt_of(first, AttemptOutcome.FAILED)
    again = changed(first, attempt=2, failures=1)
    over = succeeded(again.row)
    await store.save_jobs([replace(again, attempt=failed), over])
    assert await store.attempts_of([first.job_id]) == [failed, over.attempt]
    assert await count_attempt_rows(url) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"verdict": "done: recorded by attempt 1"},
        {"agent_id": "a2"},
        {"dispatched_at": after(-1)},
        {"started_at": None, "agent_id": None},
    ],
)
async def test_an_attempt_that_holds_more_than_its_job_is_a_row(
    store: StateStore, url: str, more: dict[str, Any]
) -> None:
    row = running_job()
    await store.insert_jobs([row])
    plain = succeeded(row)
    assert plain.attempt is not None
    attempt = replace(plain.attempt, **more)
    await store.save_jobs([replace(plain, attempt=attempt)])
    assert await store.attempts_of([row.job_id]) == [attempt]
    assert await count_attempt_rows(url) == 1


async def test_a_job_that_dies_or_ends_without_an_attempt_keeps_none_in_its_row(store: StateStore) -> None:
    dead, without = running_job(), running_job()
    await store.insert_jobs([dead, without])
    end = died(dead)
    await store.save_jobs([end, Save(succeeded(without).row)])
    assert await store.attempts_of([dead.job_id]) == [end.attempt]
    assert await store.attempts_of([without.job_id]) == []
