"""Agents of one queue that know different job types, as during a deployment: what one does not know waits,
uncharged, for another."""

from tests.acceptance.command_line import run_command
from tests.acceptance.store_queries import job_history, job_types_of, rows_of
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome

HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("{name}", max_attempts=1)
async def handler() -> str:
    return "{name}"
"""


def test_a_job_that_an_agent_of_its_queue_does_not_know_waits_for_one_that_does(warren: Warren) -> None:
    for name in ("old", "new"):
        (warren.folder / f"{name}_handlers.py").write_text(HANDLERS.format(name=name))
    warren.start_all("old_handlers")
    old, new = warren.services[-1], warren.start("agent", "new_handlers")
    until(lambda: "new" in job_types_of(warren), "the new type to be announced")
    new.end()

    with SyncClient(warren.broker_url) as client:
        job = client.request("new")
    until(lambda: rows_of(warren, [job.job_id]), "the job to be accepted")
    until(lambda: len(job_history(warren, job.job_id)[1]) >= 2, "it to be given back twice")
    old.end()
    warren.start("agent", "new_handlers")
    until(
        lambda: rows_of(warren, [job.job_id])[job.job_id].state.terminal, "an agent to take it that knows it"
    )

    row, attempts, _ = job_history(warren, job.job_id)
    assert (row.state, row.failures, row.losses) == (JobState.SUCCEEDED, 0, 0)
    *given_back, last = attempts
    assert {one.outcome for one in given_back} == {AttemptOutcome.RELEASED}
    assert last.outcome is AttemptOutcome.SUCCEEDED
    assert "does not know new" in run_command(warren, "job", str(job.job_id))
