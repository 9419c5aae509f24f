"""One of two supervisors and one of two schedulers are frozen (SIGSTOP): the heartbeats reach the other
supervisor all the same (G3), and what the frozen scheduler had received is done by the other one."""

import signal
from threading import Event
from time import monotonic

from tests.acceptance.run_notes import runs_in
from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import Warren, locked, until, with_heartbeat

from warrener_client import JobSpec, SyncClient
from warrener_contracts.state_machine import JobState

JOBS = 18
FROZEN = 36.0
"""Seconds: six heartbeats, of which a shared queue would have given the frozen one every other."""

SETTINGS = {
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "11",
    "WARRENER_AGENT_CLAIM_TTL": "10",
    "WARRENER_AGENT_HEARTBEAT": "6",
}
"""Of every two heartbeats one must arrive, or the lease is over; each may be late by some seconds."""


def test_g3_a_frozen_supervisor_swallows_no_heartbeats_and_a_frozen_scheduler_no_requests(
    warren: Warren,
) -> None:
    """With one queue for all supervisors, 18 exclusive jobs were started 29 times."""
    warren.environment = SETTINGS
    soon_missed = warren.start("scheduler", WARRENER_BROKER_URL=with_heartbeat(warren.broker_url, 3))
    frozen = [warren.start("supervisor"), soon_missed]
    warren.start_all("tests.acceptance.presence_handlers", agents=2, slots=2 * JOBS)
    with SyncClient(warren.broker_url) as client:
        jobs = list(client.request_many([JobSpec("exclusive")] * JOBS))
        until(lambda: len(runs_in(warren.folder)) == JOBS, "all jobs to run")
        with locked(warren.folder / "state.db"):
            for service in frozen:
                service.freeze()
        thawed_at = monotonic() + FROZEN
        for job in list(client.request_many([JobSpec("quick")] * JOBS, batch=1)):
            job.result(timeout=60)
        Event().wait(thawed_at - monotonic())
        for service in frozen:
            service.signal(signal.SIGCONT)
        (warren.folder / "go").touch()
        for job in jobs:
            job.result(timeout=60)
    rows = rows_of(warren, [job.job_id for job in jobs]).values()
    assert len(runs_in(warren.folder)) == JOBS, "each was started once"
    assert {(row.state, row.attempt, row.losses) for row in rows} == {(JobState.SUCCEEDED, 1, 0)}
