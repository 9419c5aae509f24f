"""Gathered jobs on real processes and a real broker."""

from collections import Counter

from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.gather_handlers import UP_TO
from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_contracts.state_machine import JobState

MODULE = "tests.acceptance.gather_handlers"
JOBS, HELD = 1_000, 40


def test_a_thousand_requests_run_a_hundred_at_a_time_and_each_gets_its_own_result(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        jobs = list(client.request_many([JobSpec("mail.send", {"number": number}) for number in range(JOBS)]))
        for number, job in enumerate(jobs):
            assert job.result(timeout=90) == f"{number} {job.job_id}"
    runs = [int(size) for size in warren.lines("runs")]
    retried = JOBS // 100
    assert sum(runs) == JOBS + retried
    first = [size for size in runs if size > retried]
    assert first.count(UP_TO) >= 0.95 * len(first), f"nearly all runs are full, got {runs}"
    assert len(runs) - len(first) <= 2, f"those that failed run again, not one by one, got {runs}"
    rows = rows_of(warren, [job.job_id for job in jobs])
    assert Counter((row.state, row.attempt, row.failures) for row in rows.values()) == {
        (JobState.SUCCEEDED, 1, 0): JOBS - retried,
        (JobState.SUCCEEDED, 2, 1): retried,
    }


def test_the_jobs_of_an_agent_that_is_killed_in_a_run_are_done_once_each_elsewhere(warren: Warren) -> None:
    make_gate(warren.folder / "gate")
    make_gate(warren.folder / "open-gate")
    for _ in range(HELD):
        open_gate(warren.folder / "open-gate")
    warren.environment = {"WARRENER_AGENT_CLAIM_TTL": "2"}
    warren.start("scheduler")
    warren.start("supervisor")
    first = warren.start("agent", MODULE, "--slots", "1", WAITS="yes")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        specs = [JobSpec("mail.hold", {"number": number}) for number in range(HELD)]
        jobs = list(client.request_many(specs[:20]))
        until(lambda: warren.lines("held"), "a run to begin")
        assert warren.lines("held") == [f"{first.process.pid} 20"], "a full run on one slot"
        jobs += client.request_many(specs[20:])
        other = warren.start("agent", MODULE)
        warren.wait_ready()
        first.kill()
        assert [job.result(timeout=90) for job in jobs] == [number * number for number in range(HELD)]
    assert Counter(warren.lines("sent")) == {str(job.job_id): 1 for job in jobs}, "each is done once"
    assert {line.split()[0] for line in warren.lines("held")} == {
        str(one.process.pid) for one in (first, other)
    }
    assert other.end() == 0
