"""A changed row is what dataclasses.replace would have made, and the row before stays as it was."""

from copy import copy
from dataclasses import fields, replace

from warrener_contracts.state_machine import JobState
from warrener_store.job_row import JobChanges, evolve
from warrener_store.records.jobs import STATE_FIELDS
from warrener_store.rows import JobRow
from warrener_store.testing import after, queued_job


def test_a_job_becomes_what_it_was_with_some_changes() -> None:
    row = queued_job(watchers=("me",))
    before = copy(row)
    now = evolve(row, version=2, state=JobState.RUNNING, owner="a1", lease_until=after(30))
    assert now == replace(row, version=2, state=JobState.RUNNING, owner="a1", lease_until=after(30))
    assert (row, names(now)) == (before, [field.name for field in fields(JobRow)])


def names(row: JobRow) -> list[str]:
    """The fields that it has, in order."""
    return list(vars(row))


def test_only_what_a_save_writes_can_change() -> None:
    assert tuple(JobChanges.__annotations__) == STATE_FIELDS
