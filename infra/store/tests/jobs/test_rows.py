"""`evolve` gives the row that dataclasses.replace would give, and the row before stays as it was."""

from copy import copy
from dataclasses import fields, replace

from tests.store_rows import after, queued_job

from warrener_contracts.state_machine import JobState
from warrener_store.jobs.columns import IDS, JOB_COLUMNS, MOMENTS, TEXTS
from warrener_store.jobs.rows import STATE_FIELDS, JobChanges, JobRow, evolve
from warrener_store.mapping import fields_of_type


def test_a_job_becomes_what_it_was_with_some_changes() -> None:
    row = queued_job(watchers=("me",))
    before = copy(row)
    now = evolve(row, version=2, state=JobState.RUNNING, agent_id="a1", lease_until=after(30))
    assert now == replace(row, version=2, state=JobState.RUNNING, agent_id="a1", lease_until=after(30))
    assert (row, names(now)) == (before, [field.name for field in fields(JobRow)])


def names(row: JobRow) -> list[str]:
    return list(vars(row))


def test_only_what_a_save_writes_can_change() -> None:
    assert tuple(JobChanges.__annotations__) == STATE_FIELDS


def test_every_column_of_a_job_is_converted_or_a_number() -> None:
    numbers = {*fields_of_type(JobRow, int), *fields_of_type(JobRow, float)}
    documents = {"arguments", "policy", "watchers", "result", "error"}
    enumerations = {"guarantee", "state"}
    assert {*JOB_COLUMNS} == numbers | documents | enumerations | {*TEXTS, *IDS, *MOMENTS}
