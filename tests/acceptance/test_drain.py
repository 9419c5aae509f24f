"""Point 12 of supervision, on real processes and a real broker: an agent that is told to end finishes what
fits into its grace and gives the rest back uncharged; told again, it gives all back at once."""

import signal
from pathlib import Path

import pytest
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import job_history, rows_of
from tests.acceptance.warren import ServiceProcess, Warren, until

from warrener_client import SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome

MODULE = "tests.acceptance.drain_handlers"
LATE = ("ends.late", "ends.late.process")


def an_agent(warren: Warren, grace: float) -> ServiceProcess:
    """One more, ready."""
    agent = warren.start("agent", MODULE, WARRENER_SHUTDOWN_TIMEOUT=str(grace))
    until(agent.ready, "the agent to be ready")
    return agent


def until_running(warren: Warren, jobs: list[SyncJob]) -> None:
    """Until the store knows that all of them run."""
    ids = [job.job_id for job in jobs]
    until(
        lambda: [row.state for row in rows_of(warren, ids).values()] == [JobState.RUNNING] * len(ids),
        "all jobs to run",
    )


def given_back(warren: Warren, job: SyncJob) -> None:
    """It was begun twice, and charged for nothing."""
    assert job.result(timeout=60) == 2
    row, attempts, _ = job_history(warren, job.job_id)
    assert (row.failures, row.losses) == (0, 0)
    assert [one.outcome for one in attempts] == [AttemptOutcome.RELEASED, AttemptOutcome.SUCCEEDED]
    assert attempts[0].agent_id != attempts[1].agent_id


def test_12_a_draining_agent_finishes_what_fits_releases_the_rest_and_can_be_hurried(
    warren: Warren, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    gate = tmp_path / "gate"
    make_gate(gate)
    warren.start("scheduler")
    warren.start("supervisor")
    first = an_agent(warren, grace=20)  # the gate is opened in it, even if this process stands still a while
    with SyncClient(warren.broker_url) as client:
        soon = client.request("ends.soon", {"gate": str(gate)})
        late = [client.request(job_type) for job_type in LATE]
        until_running(warren, [soon, *late])
        second = an_agent(warren, grace=600)
        with subtests.test("SIGTERM"):
            first.signal(signal.SIGTERM)
            until(lambda: "service.draining" in first.log_text(), "the agent to drain")
            open_gate(gate)
            assert soon.result(timeout=60) == 1, "it was left to finish"
            for job in late:
                given_back(warren, job)
            assert first.process.wait(60) == 0
        with subtests.test("SIGTERM twice"):
            late = [client.request(job_type) for job_type in LATE]
            until_running(warren, late)
            an_agent(warren, grace=10)
            second.signal(signal.SIGTERM)
            until(lambda: "service.draining" in second.log_text(), "the agent to drain")
            second.signal(signal.SIGTERM)
            for job in late:
                given_back(warren, job)
            assert second.process.wait(60) == 0, "it does not wait for the ten minutes of its grace"
