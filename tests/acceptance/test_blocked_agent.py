"""Point 4 of supervision, on real processes and a real broker: a coroutine in `while True: pass` blocks the
event loop of its agent. The agent ends itself and says why; started again, it goes on with the rest."""

from typing import Any

import pytest
from tests.acceptance.store_queries import dead_letter_of, effects, job_history, make_effects
from tests.acceptance.warren import ServiceProcess, Warren, until

from warrener_client import JobDied, SyncClient, SyncJob
from warrener_runtime.lifecycle.run import ServiceExitCode

MODULE = "tests.acceptance.blocked_handlers"
QUICK = {
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "6",
    "WARRENER_AGENT_CLAIM_TTL": "5",
    "WARRENER_AGENT_HEARTBEAT": "1",
    "WARRENER_AGENT_BLOCK_TIMEOUT": "10",
}
DEATHS = 2
NEIGHBOURS = 30


def last_word(agent: ServiceProcess) -> dict[str, Any]:
    """What an agent whose loop was blocked has logged of it."""
    (word,) = agent.records("agent.blocked")
    return word


def check_end(agent: ServiceProcess, hostile: SyncJob, attempt: int) -> None:
    """It ends by itself, with a code of its own, and its log names the job and shows the place."""
    until(lambda: agent.process.poll() is not None, "the blocked agent to end itself")
    assert agent.process.returncode == ServiceExitCode.BLOCKED
    word = last_word(agent)
    assert (word["job_id"], word["job_type"], word["attempt"]) == (str(hostile.job_id), "hostile", attempt)
    assert "in spin\n" in word["stacks"]
    assert word["seconds"] > 1, "ten if its leases are renewed meanwhile, less if a busy machine is too slow"


def test_4_a_coroutine_that_blocks_its_agent_is_quarantined_and_its_neighbours_finish_once(
    warren: Warren,
) -> None:
    make_effects(warren)
    warren.environment = QUICK
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        hostile = client.request("hostile")
        neighbours = [client.request("neighbour", {"number": number}) for number in range(NEIGHBOURS)]
        for attempt in range(1, DEATHS + 1):  # as systemd would, with Restart=on-failure
            check_end(warren.services[-1], hostile, attempt)
            warren.start("agent", MODULE)
        with pytest.raises(JobDied):
            hostile.result(timeout=60)
        assert [job.result(timeout=60) for job in neighbours] == list(range(NEIGHBOURS))
    check_books(warren, hostile)


def check_books(warren: Warren, hostile: SyncJob) -> None:
    """It is quarantined by name, with what was seen of each attempt; of the others each was done once."""
    dead_letter = dead_letter_of(warren, hostile.job_id)
    assert dead_letter.reason == f"quarantined as poison: {DEATHS} attempts ended with their process"
    assert dead_letter.error is not None
    assert sum(": Blocked: " in death for death in dead_letter.error.crashes) == DEATHS
    _, attempts, _ = job_history(warren, hostile.job_id)
    for each in attempts:
        assert each.error is not None
        assert each.error.flight_record is not None
        assert "in spin\n" in (each.error.flight_record.stacks or "")
    assert sorted(map(int, effects(warren))) == list(range(NEIGHBOURS))
