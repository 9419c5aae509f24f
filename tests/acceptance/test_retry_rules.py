"""Retry rules on real processes: a job that is too large for its agent goes to another queue, and one that is
too slow gets more time."""

from datetime import timedelta

from tests.acceptance.command_line import run_json
from tests.acceptance.store_queries import incidents_of, job_history, rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rules import chosen_by_rule

MODULE = "tests.acceptance.retry_handlers"


def test_a_job_that_dies_twice_for_want_of_memory_goes_to_the_queue_of_larger_agents(warren: Warren) -> None:
    warren.start("scheduler")
    warren.start("supervisor")
    warren.start("agent", MODULE)
    warren.wait_ready()
    why = "attempt 3 goes from queue default to high-memory: 2 failures (memory)"
    with SyncClient(warren.broker_url) as client:
        job = client.request("report.build")

        def moved() -> bool:
            row = rows_of(warren, [job.job_id]).get(job.job_id)
            return row is not None and row.queue == "high-memory" and row.state is JobState.QUEUED

        until(moved, "the third attempt to wait in the other queue")
        explained = run_json(warren, "explain", str(job.job_id))
        assert explained["cause"] == "no_agent"
        assert why in explained["notes"]
        of_queue = "warrener.queue.high-memory"
        until(
            lambda: any(one.subject == of_queue for one in incidents_of(warren)), "an incident of that queue"
        )

        warren.start("agent", MODULE, "--queue", "high-memory", REPORT_MEMORY="2GiB")
        deaths = [f"{number} OutOfMemory in default" for number in (1, 2)]
        assert job.result(timeout=60) == deaths
    _, attempts, parked = job_history(warren, job.job_id)
    assert [chosen_by_rule(one.verdict) for one in attempts] == ["", why, ""]
    assert not parked


def test_a_job_that_runs_into_its_timeout_gets_more_time(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        job = client.request("index.rebuild")
        assert job.result(timeout=60) == 2
    row, (first, _), _ = job_history(warren, job.job_id)
    assert row.timeout == timedelta(seconds=50)
    assert chosen_by_rule(first.verdict) == "attempt 2 may run for 50 s: 1 failure (timeout)"
