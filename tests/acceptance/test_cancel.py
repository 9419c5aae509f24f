"""Point 6 of supervision, on real processes and a real broker: what is cancelled stops, and never succeeds
later (G2).

That it holds at any moment, and for agents that were dead, is proved in virtual time, by
`tests/simulation/test_cancel_races.py` and `test_ended_jobs.py`; of what waits, and of trees, by
`services/supervisor/tests/test_commands.py` and `tests/simulation/test_crash_anywhere.py`."""

import os
from uuid import UUID

import pytest
from tests.acceptance.store_queries import job_history, state_of
from tests.acceptance.warren import Warren, until

from warrener_client import JobCancelled, SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome

MODULE = "tests.acceptance.steered_handlers"
WHY = "the file is being delivered again"


def notes(warren: Warren, job_id: UUID) -> list[str]:
    return warren.lines(f"notes-{job_id}")


@pytest.mark.parametrize("where", ["coroutine", "thread", "process"])
def test_6_what_runs_is_stopped_and_its_neighbours_do_not_notice(running: Warren, where: str) -> None:
    with SyncClient(running.broker_url) as client:
        job = client.request(f"runs.{where}", {})
        until(lambda: notes(running, job.job_id), "the handler to run")
        until(lambda: state_of(running, job.job_id) is JobState.RUNNING, "its agent to have said so")
        client.cancel(job.job_id, WHY)
        with pytest.raises(JobCancelled, match=WHY):
            job.result(timeout=60)
        assert client.request("quick", {"number": 3}).result(timeout=60) == 3
    row, (attempt,), parked = job_history(running, job.job_id)
    assert (row.state, attempt.outcome) == (JobState.CANCELLED, AttemptOutcome.CANCELLED)
    assert WHY in attempt.verdict
    assert not parked
    if where == "process":
        with pytest.raises(ProcessLookupError):
            os.kill(int(notes(running, job.job_id)[0].split()[1]), 0)
    else:
        assert notes(running, job.job_id) == ["began", "tidied up"]
