"""A batch of saves, column by column."""

from warrener_store.chains import chains
from warrener_store.records.jobs import BECOME
from warrener_store.records.saved_jobs import saves_out
from warrener_store.testing import after, running_job, succeeded


def test_what_is_one_for_all_or_missing_in_all_is_handed_over_once_or_not_at_all() -> None:
    rows = [running_job(dispatched_at=after(number)) for number in range(3)]
    columns = ("job_id", "held", *BECOME, "ran_from", "ran_until")
    told = dict(zip(columns, saves_out(chains([succeeded(row) for row in rows])), strict=True))
    assert told["held"] == [1]
    assert told["state"] == ["succeeded"]
    assert told["wake_at"] == told["result"] == []
    assert told["ran_until"] == [after(60)]
    assert len(told["job_id"]) == len(told["dispatched_at"]) == 3
