"""Point 6 of supervision, on real processes and a real broker: what is cancelled stops, and never succeeds
later (G2).

That it holds at any moment, and for agents that were dead, is proved in virtual time, by
`tests/simulation/test_cancel_races.py` and `test_ended_jobs.py`."""

import os
from functools import partial
from uuid import UUID

import pytest
from tests.acceptance.store_queries import job_history, look, state_of
from tests.acceptance.warren import Warren, until
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_client import JobCancelled, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.jobs.rows import AttemptOutcome, JobFilter, JobRow

MODULE = "tests.acceptance.steered_handlers"
WHY = "the file is being delivered again"


def notes(warren: Warren, job_id: UUID) -> list[str]:
    return warren.lines(f"notes-{job_id}")


def in_state(warren: Warren, job_id: UUID, state: JobState) -> bool:
    return state_of(warren, job_id) is state


def ends_cancelled(job: SyncJob, why: str = WHY) -> None:
    with pytest.raises(JobCancelled) as cancelled:
        job.result(timeout=60)
    assert cancelled.value.reason is not None
    assert why in cancelled.value.reason


def test_6_what_waits_is_queued_or_is_to_be_tried_again_is_cancelled_at_once(running: Warren) -> None:
    with SyncClient(running.broker_url) as client:
        waiting = client.request("quick", {"number": 1}, delay="1h")
        queued = client.request("quick", {"number": 2}, queue="nobodys")
        retrying = client.request("fails", {})
        for job, state in (
            (waiting, JobState.WAITING),
            (queued, JobState.QUEUED),
            (retrying, JobState.RETRYING),
        ):
            until(partial(in_state, running, job.job_id, state), f"a job {state}")
            client.cancel(job.job_id, WHY)
            ends_cancelled(job)
            assert in_state(running, job.job_id, JobState.CANCELLED)


@pytest.mark.parametrize("where", ["coroutine", "thread", "process"])
def test_6_what_runs_is_stopped_and_its_neighbours_do_not_notice(running: Warren, where: str) -> None:
    with SyncClient(running.broker_url) as client:
        job = client.request(f"runs.{where}", {})
        until(lambda: notes(running, job.job_id), "the handler to run")
        until(lambda: in_state(running, job.job_id, JobState.RUNNING), "its agent to have said so")
        client.cancel(job.job_id, WHY)
        ends_cancelled(job)
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


def test_6_a_tree_is_cancelled_by_the_command_and_grows_no_more(running: Warren) -> None:
    with SyncClient(running.broker_url) as client:
        root = client.request("plants", {"depth": 2})
        root.result(timeout=60)
        until(lambda: _is_grown(running, root.job_id), "the tree to be whole, and its branches to run")
        where = ["--broker", running.broker_url, "--store", running.store_url]
        result = CliRunner().invoke(app, ["cancel", str(root.job_id), "--tree", "--reason", WHY, *where])
        assert result.exit_code == 0, result.output

        until(lambda: _all_over(running, root.job_id), "the whole tree to be over")
        members = tree(running, root.job_id)
        assert len(members) == 3 + 2 * 3
        ends = {row.job_id: (row.job_type, row.state) for row in members}
        assert ends.pop(root.job_id) == ("plants", JobState.SUCCEEDED), "what was over stays"
        assert set(ends.values()) == {
            ("plants", JobState.SUCCEEDED),
            ("quick", JobState.CANCELLED),
            ("runs.coroutine", JobState.CANCELLED),
        }
        late = client.request("quick", {"number": 4}, parent_id=root.job_id)
        ends_cancelled(late, f"with the tree of {root.job_id}: {WHY}")


def tree(warren: Warren, root: UUID) -> list[JobRow]:
    """The root and all its child jobs, level by level."""

    async def walk(store: Store) -> list[JobRow]:
        members = list((await store.jobs_by_id([root])).values())
        for member in members:  # grows while it is walked
            members += await store.list_jobs(JobFilter(parent_id=member.job_id))
        return members

    return look(warren, walk)


def _is_grown(warren: Warren, root: UUID) -> bool:
    """True if all of the tree is in the store, those that make it have succeeded, and three branches run."""
    members = tree(warren, root)
    makers = [row.state for row in members if row.job_type == "plants"]
    return len(members) == 3 + 2 * 3 and makers == [JobState.SUCCEEDED] * 3 and _runners(warren, root) == 3


def _runners(warren: Warren, root: UUID) -> int:
    return sum(
        row.job_type == "runs.coroutine" and bool(notes(warren, row.job_id)) for row in tree(warren, root)
    )


def _all_over(warren: Warren, root: UUID) -> bool:
    return all(row.state.terminal for row in tree(warren, root))
