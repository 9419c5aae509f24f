"""Point 6 of supervision, on real processes and a real broker: what is cancelled stops, and never succeeds
later (G2)."""

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.acceptance.store_queries import job_history, look, rows_of
from tests.acceptance.warren import Warren, until
from typer.testing import CliRunner

from warrener.command.app import app
from warrener_agent.ledger import Claim, open_ledger
from warrener_client import JobCancelled, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.jobs.rows import AttemptOutcome, JobFilter, JobRow

MODULE = "tests.acceptance.steered_handlers"
WHY = "the file is being delivered again"


@pytest.fixture(scope="module")
def running(shared_warren: Warren) -> Warren:
    """A warren that works."""
    shared_warren.start_all(MODULE, slots=20)
    return shared_warren


def notes(warren: Warren, job_id: UUID) -> list[str]:
    file = Path(warren.folder, f"notes-{job_id}")
    return file.read_text().splitlines() if file.exists() else []


def in_state(warren: Warren, job_id: UUID, state: JobState) -> bool:
    row = rows_of(warren, [job_id]).get(job_id)
    return row is not None and row.state is state


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


def test_6_a_cancel_that_comes_before_its_request_is_stored_for_it(running: Warren) -> None:
    job_id = uuid4()
    with SyncClient(running.broker_url) as client:
        client.cancel(job_id, WHY)
        until(lambda: in_state(running, job_id, JobState.CANCELLED), "the cancel to be kept")
        ends_cancelled(client.request("runs.coroutine", {}, id=job_id))
    assert not notes(running, job_id), "it never ran"
    assert not job_history(running, job_id)[2], "nothing was parked"


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


def test_6_a_tree_that_grows_without_end_is_caught_up_with(running: Warren) -> None:
    with SyncClient(running.broker_url) as client:
        root = client.request("grows", {})
        until(lambda: len(tree(running, root.job_id)) > 3, "the tree to grow")
        client.cancel(root.job_id, WHY, tree=True)
        deepest = until(lambda: _caught_up(running, root.job_id), "the whole tree to be over")[-1]
        late = client.request("quick", {"number": 6}, parent_id=deepest.job_id)
        ends_cancelled(late, f"with the tree of {root.job_id}: {WHY}")
        members = until(lambda: _caught_up(running, root.job_id), "the tree to stay over")
    # Which of them end as cancelled depends on how late the reports are when the tree is cancelled: an agent
    # may have finished a job, and requested its child job, while its report is still on its way.
    assert {row.state for row in members} <= {JobState.SUCCEEDED, JobState.CANCELLED}


def test_g2_jobs_that_are_cancelled_at_any_moment_have_one_end_that_stays(running: Warren) -> None:
    dice = random.Random(6)
    with SyncClient(running.broker_url) as client:
        jobs: list[SyncJob] = []
        for number in range(1000, 1080):
            jobs.append(client.request("quick", {"number": number}))
            if dice.random() < 0.7:
                client.cancel(dice.choice(jobs[-8:]).job_id, WHY)
        outcomes = [job.outcome(timeout=60) for job in jobs]
        assert client.request("quick", {"number": 5}).result(timeout=60) == 5  # all before it is judged
    rows = rows_of(running, [job.job_id for job in jobs])
    assert [rows[one.job_id].state for one in outcomes] == [one.state for one in outcomes]
    assert {one.state for one in outcomes} <= {JobState.SUCCEEDED, JobState.CANCELLED}
    assert {one.reason for one in outcomes if one.state is JobState.CANCELLED} <= {WHY}
    effects = asyncio.run(_effects(running.ledger_url))
    for number, one in enumerate(outcomes, 1000):
        most = effects.count(number)
        assert most == 1 if one.state is JobState.SUCCEEDED else most <= 1


def test_6_a_cancel_while_the_agent_is_dead_holds_for_the_agent_that_takes_over(warren: Warren) -> None:
    manners = {
        "WARRENER_AGENT_CLAIM_TTL": "2",
        "WARRENER_AGENT_HEARTBEAT": "1",
        "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "5",
    }
    warren.environment = manners
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("runs.coroutine", {})
        until(lambda: in_state(warren, job.job_id, JobState.RUNNING), "the job to run")
        warren.services[-1].kill()
        client.cancel(job.job_id, WHY)
        until(lambda: rows_of(warren, [job.job_id])[job.job_id].cancel_reason, "the cancel to be judged")
        warren.start("agent", MODULE)
        ends_cancelled(job)
        row, _, parked = job_history(warren, job.job_id)
    assert row.state is JobState.CANCELLED
    assert not parked


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


def _caught_up(warren: Warren, root: UUID) -> list[JobRow] | None:
    """The jobs of a tree that has stopped growing. Between the end of one job and its child job all seem to
    be over; then none is cancelled yet."""
    members = tree(warren, root)
    over = all(row.state.terminal for row in members)
    return members if over and JobState.CANCELLED in {row.state for row in members} else None


def _all_over(warren: Warren, root: UUID) -> bool:
    return all(row.state.terminal for row in tree(warren, root))


async def _effects(url: str) -> list[int]:
    ledger = open_ledger(url)
    await ledger.start()
    try:
        async with ledger.transaction(Claim(uuid4(), 1), agent_id="reader") as transaction:
            return [int(row["number"]) for row in await transaction.execute("SELECT number FROM effects")]
    finally:
        await ledger.close()
