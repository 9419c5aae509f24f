"""`warrener trace` draws a job from the rows of a real store."""

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from tests.store_access import on_store
from tests.store_rows import after, attempt_of, queued_job, succeeded
from typer.testing import Result

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.jobs.rows import AttemptOutcome, JobRow, Save

Run = Callable[..., Result]
DAMAGED = ErrorInfo(kind=ErrorKind.ERROR, type="flights.days.Damaged", message="7 columns")


@pytest.fixture
def done(store_url: str) -> JobRow:
    """A job that failed, waited a quarter of an hour and succeeded, with one child job."""
    job = queued_job(requested_at=after(-1))
    child_job = queued_job(job_type="mail.send", parent_id=job.job_id, requested_at=after(905))
    retrying = replace(
        job,
        version=2,
        state=JobState.RETRYING,
        attempt=2,
        failures=1,
        due_at=after(900),
        dispatched_at=after(900.5),
        error=DAMAGED,
        updated_at=after(3),
    )
    first = replace(
        attempt_of(replace(job, agent_id="a1", started_at=after(1)), AttemptOutcome.FAILED, error=DAMAGED),
        finished_at=after(3),
        verdict=f"retry at {after(900).isoformat()}",
    )
    second = attempt_of(replace(retrying, agent_id="a2", started_at=after(902)), AttemptOutcome.SUCCEEDED)
    over = succeeded(retrying).row
    last = Save(
        replace(over, finished_at=after(906)), replace(second, finished_at=after(905), verdict="done")
    )

    async def fill(store: Store) -> None:
        await store.insert_jobs([job, child_job])
        await store.save_jobs([Save(retrying, first)])
        await store.save_jobs([last])
        await store.save_jobs([succeeded(child_job)])

    on_store(store_url, fill)
    return job


def test_where_the_time_of_a_job_went(run: Run, store_url: str, done: JobRow) -> None:
    result = run("trace", str(done.job_id), "--store", store_url)
    assert result.exit_code == 0, result.output
    for words in (
        "● succeeded",
        "request",
        "failed on a1: Damaged: 7 columns",
        "retry delay",
        "⋯14 min 57 s",
        "attempt 2",
        "succeeded on a2",
        "mail.send",
    ):
        assert words in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 160


def test_the_same_for_machines_leaves_no_time_unexplained(run: Run, store_url: str, done: JobRow) -> None:
    end = str(done.job_id)[-8:]
    page = json.loads(run("trace", end, "--json", "--store", store_url).stdout)
    assert page["state"] == "succeeded"
    own = [bar for row in page["rows"] if not row["kind"].startswith("child") for bar in row["bars"]]
    assert sum(bar["seconds"] for bar in own) == pytest.approx(907)
    assert all(one["end"] == two["start"] for one, two in pairwise(own))
    assert [row["job_id"] is not None for row in page["rows"]].count(True) == 1


def test_watching_a_job_that_is_over_ends_at_once(run: Run, store_url: str, done: JobRow) -> None:
    lines = run("trace", str(done.job_id), "--watch", "--json", "--store", store_url).stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["succeeded"]
    result = run("trace", str(done.job_id), "--watch", "--store", store_url)
    assert (result.exit_code, "● succeeded" in result.stdout) == (0, True)
