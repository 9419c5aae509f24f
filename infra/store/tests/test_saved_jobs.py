"""A batch of saves, column by column."""

from warrener_store.records.jobs import STATE_FIELDS
from warrener_store.records.saved_jobs import saves_to_arrays
from warrener_store.save_batches import group_saves
from warrener_store.testing import after, running_job, succeeded


def test_what_is_one_for_all_or_missing_in_all_is_handed_over_once_or_not_at_all() -> None:
    rows = [running_job(dispatched_at=after(number)) for number in range(3)]
    columns = ("job_id", "held", *STATE_FIELDS, "ran_from", "ran_until")
    by_column = dict(
        zip(columns, saves_to_arrays(group_saves([succeeded(row) for row in rows])), strict=True)
    )
    assert by_column["held"] == [1]
    assert by_column["state"] == ["succeeded"]
    assert by_column["wake_at"] == by_column["result"] == []
    assert by_column["ran_until"] == [after(60)]
    assert len(by_column["job_id"]) == len(by_column["dispatched_at"]) == 3
