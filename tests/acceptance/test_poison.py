"""Point 8 of supervision, on real processes and a real broker: what ends its executor or its agent again and
again is quarantined with the cause, what cannot be read is parked, and neither slows the others."""

import signal
from collections.abc import Callable
from uuid import UUID

import pytest
from tests.acceptance.gate import make_gate, open_gate
from tests.acceptance.store_queries import dead_letter_of, job_history, parked_in, state_of
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.broker_access import publish

from warrener_client import JobDied, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS, dispatch_queue
from warrener_store.jobs.rows import AttemptOutcome

MODULE = "tests.acceptance.poison_handlers"
UNREADABLE = 20
QUICK = {
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "4",
    "WARRENER_AGENT_CLAIM_TTL": "3.9",
    "WARRENER_AGENT_HEARTBEAT": "1",
}


def killed(agent: ServiceProcess) -> bool:
    """Whether this agent was ended by what it ran."""
    return agent.process.poll() == -signal.SIGKILL


def has_died(warren: Warren, job_id: UUID) -> bool:
    """Whether the store has counted a death."""
    row, _, _ = job_history(warren, job_id)
    return bool(row.error and row.error.crashes)


def restart_until(warren: Warren, fact: Callable[[], bool], what: str) -> None:
    """Start an agent whenever the last one was ended, as a process manager does, until this is so.

    How many it takes depends on which attempt each is killed by: its start and the declaration of a loss may
    be at the same time.
    """
    agent = warren.start("agent", MODULE, "--queue", "bad")

    def is_so() -> bool:
        nonlocal agent
        if killed(agent):
            agent = warren.start("agent", MODULE, "--queue", "bad")
        return fact()

    until(is_so, what, within=90)


def deaths_of(warren: Warren, job: SyncJob) -> tuple[str, ...]:
    """The deaths for which it is quarantined, once it is."""
    with pytest.raises(JobDied):
        job.result(timeout=90)
    dead_letter = dead_letter_of(warren, job.job_id)
    assert dead_letter.reason.startswith("quarantined as poison: ")
    assert dead_letter.error is not None
    return dead_letter.error.crashes


def test_8_poison_is_quarantined_with_its_deaths_and_nothing_else_is_slowed(
    warren: Warren, subtests: pytest.Subtests
) -> None:
    warren.environment = QUICK
    warren.start("scheduler")
    supervisor = warren.start("supervisor")
    warren.start("agent", MODULE, "--queue", "good")
    first = warren.start("agent", MODULE, "--queue", "bad")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        ends_agents = client.request("poison.agent")
        gate = warren.folder / "gate"
        make_gate(gate)
        ends_executors = [client.request("poison.executor", {"gate": str(gate)}) for _ in range(3)]
        for exchange, key in ((REQUESTS, "good"), ("", dispatch_queue("good").name)):
            unreadable = (f"nonsense for {key} {number}".encode() for number in range(UNREADABLE))
            publish(warren.broker_url, exchange, key, *unreadable)
        good = [client.request("good", {"number": number}) for number in range(100)]
        # None of the poisonous jobs can be over before the gate is open: the others do not wait for them.
        assert [job.result(timeout=60) for job in good] == list(range(100))
        for _ in range(3 * len(ends_executors)):  # enough for attempts that are repeated after a loss
            open_gate(gate)
        with subtests.test("what ends its agent, though everything is restarted in between"):
            # The first is dead before anybody has heard that it ran: nobody knows to what it fell.
            until(lambda: killed(first), "the first agent to be killed by its job")
            second = warren.start("agent", MODULE, "--queue", "bad")
            until(lambda: killed(second), "the second agent to be killed by it")
            restart_until(warren, lambda: has_died(warren, ends_agents.job_id), "a death to be counted")
            supervisor.kill()
            warren.start("supervisor")
            restart_until(
                warren, lambda: state_of(warren, ends_agents.job_id) is JobState.DEAD, "the job to be dead"
            )
            assert len(deaths_of(warren, ends_agents)) == 2
            assert all(": lost: agent" in death for death in deaths_of(warren, ends_agents))
        with subtests.test("what ends its executors"):
            for job in ends_executors:
                deaths = deaths_of(warren, job)
                killed_ones = [death for death in deaths if ": SIGKILL: " in death]
                # An agent that is held up for longer than its lease counts as a death too.
                lost = [death for death in deaths if ": lost: agent" in death]
                assert len(killed_ones) + len(lost) == len(deaths) == 3
                row, attempts, _ = job_history(warren, job.job_id)
                failed = [one for one in attempts if one.outcome is AttemptOutcome.FAILED]
                assert len(failed) == row.failures == len(killed_ones) > 0
        with subtests.test("what cannot be read is parked, and nothing else"):
            until(lambda: len(parked_in(warren)) >= 2 * UNREADABLE, "all of it to be parked")
            parked = parked_in(warren)
            assert len(parked) == 2 * UNREADABLE
            assert {message.body.partition(b" ")[0] for message in parked} == {b"nonsense"}
