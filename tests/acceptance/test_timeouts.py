"""Point 2 of supervision: what is timed out is stopped before it is called so.

A job that waits too long in its queue is proved in virtual time, by `tests/simulation/test_backlog.py`; one
that its agent stops in time by `services/agent/tests/executors/test_limits.py`, one whose agent is frozen by
`test_agent_frozen.py`.
"""

import os

import pytest
from tests.acceptance.event_tap import EventTap
from tests.acceptance.run_notes import Run, runs_in
from tests.acceptance.store_queries import find_job, job_history
from tests.acceptance.warren import Warren, until

from warrener_client import JobExpired, SyncClient, SyncJob
from warrener_contracts.events import AttemptTimedOut, ErrorKind, JobDeadlinePassed
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import STATUS
from warrener_store.jobs.rows import AttemptOutcome, JobRow

MODULE = "tests.acceptance.timeout_handlers:agent"

FORGETFUL = """
# The fault stands here and not in the product: in this agent nobody looks at the time.
from warrener_agent.run_table import Deadlines
Deadlines.watch = lambda self, run, over_at: None
from tests.acceptance.timeout_handlers import unwatched as agent
"""


def test_2_what_runs_too_long_is_silent_or_too_old_is_stopped_before_it_is_called_so(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    (warren.folder / "forgetful.py").write_text(FORGETFUL)
    warren.start("scheduler")
    warren.start("supervisor", WARRENER_SUPERVISOR_TIMEOUT_GRACE="1")
    agent = warren.start("agent", MODULE)
    warren.start("agent", "forgetful")
    warren.wait_ready()
    tap = EventTap(warren.broker_url, STATUS)
    with SyncClient(warren.broker_url) as client:
        spins, silent = client.request("spins"), client.request("falls_silent")
        running = client.request("waits", expires_after="15s")  # it begins before
        waiting = client.request("waits", delay="1h", expires_after="3s")
        with subtests.test("it ran too long, and its agent did not see it: the supervisor has it killed"):
            _ran_too_long(warren, tap, spins)
        with subtests.test("silent too long, in an agent that lives"):
            _was_silent(warren, silent)
        with subtests.test("too old in all, it expires, whether it runs or waits"):
            assert runs_of(warren, running)
            for job in (running, waiting):
                with pytest.raises(JobExpired):
                    job.result(timeout=60)
            both = {running.job_id, waiting.job_id}
            assert {event.data.job_id for event in tap.received(JobDeadlinePassed)} >= both
            assert agent.end() == 0, "nothing of it runs any more"


def _ran_too_long(warren: Warren, tap: EventTap, job: SyncJob) -> None:
    until(lambda: tap.received(AttemptTimedOut), "the watchdog to say that it runs too long")
    row = until(lambda: no_longer_running(warren, job), "it to be called timed out")
    first = runs_of(warren, job)[0]  # the second may run by now
    assert not alive(first.pid), "dead before it was called so"
    assert (row.failures, row.losses) == (1, 0)
    assert job.result(timeout=60) == 2
    _, attempts, _ = job_history(warren, job.job_id)
    assert attempts[0].outcome is AttemptOutcome.TIMED_OUT
    assert attempts[0].error is not None
    assert "has stopped it on request" in attempts[0].error.message


def _was_silent(warren: Warren, job: SyncJob) -> None:
    assert job.result(timeout=90) == 2
    assert (warren.folder / "fell-silent").exists(), "while it says that it lives it is not stopped"
    first, _ = runs_of(warren, job)
    assert not alive(first.pid), "it was killed"
    row, [silent, _], _ = job_history(warren, job.job_id)
    assert row.failures == 1
    assert silent.error is not None
    assert silent.error.kind is ErrorKind.TIMEOUT
    assert "heartbeat_timeout of 12 s" in silent.error.message
    assert silent.error.flight_record is not None
    assert "in falls_silent" in (silent.error.flight_record.stacks or "")


def runs_of(warren: Warren, job: SyncJob) -> list[Run]:
    return [run for run in runs_in(warren.folder) if run.job_id == job.job_id]


def no_longer_running(warren: Warren, job: SyncJob) -> JobRow | None:
    row, _ = find_job(warren, job.job_id)
    return row if row.state is not JobState.RUNNING and row.failures else None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
