"""Agents of one queue that know different job types, as during a deployment: what one does not know waits,
uncharged, for another."""

import signal

from tests.acceptance.commanding import ask, say
from tests.acceptance.looking import job_types_of, rows_of, story
from tests.acceptance.warren import Warren, until

from warrener_client import SyncClient
from warrener_contracts.states import JobState
from warrener_store.rows import AttemptEnd

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
    old = warren.services[-1]
    new = warren.start("agent", "new_handlers")
    warren.wait_ready()

    until(lambda: "new" in job_types_of(warren), "the new type to be announced")
    new.end()
    with SyncClient(warren.broker_url) as client:
        job_id = client.request("new").job_id

    def given_back() -> int:
        return sum(one.end is AttemptEnd.RELEASED for one in story(warren, job_id)[1])

    until(lambda: rows_of(warren, [job_id]) and given_back() >= 3, "it to be given back three times")
    row, attempts, _ = story(warren, job_id)
    assert (row.state.terminal, row.failures, row.losses) == (False, 0, 0)
    assert "does not know new" in attempts[-1].verdict
    assert "does not know it" in say(warren, "job", str(job_id))
    findings = {one["check"]: one["told"] for one in ask(warren, "doctor", code=1)}
    assert "jobs of new wait in queue default" in findings["mixed queue"]

    warren.start("agent", "new_handlers")
    warren.wait_ready()
    old.signal(signal.SIGTERM)
    until(
        lambda: rows_of(warren, [job_id])[job_id].state is JobState.SUCCEEDED,
        "an agent to come that knows it",
    )
    assert rows_of(warren, [job_id])[job_id].failures == 0
