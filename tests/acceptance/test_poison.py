"""Point 8 of supervision, on real processes and a real broker: what ends its executor or its agent again and
again is quarantined with the cause, what cannot be read is parked, and neither slows the others."""

import asyncio
import signal
from datetime import datetime
from uuid import UUID

import aio_pika
import pytest
from tests.acceptance.store_queries import dead_letter_of, job_history
from tests.acceptance.warren import ServiceProcess, Warren, until

from warrener_client import JobDied, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS, dispatch_queue

MODULE = "tests.acceptance.poison_handlers"
UNREADABLE = 20
QUICK = {
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "4",
    "WARRENER_AGENT_CLAIM_TTL": "3.9",
    "WARRENER_AGENT_HEARTBEAT": "1",
}


async def talk_nonsense(url: str) -> None:
    """What nobody can read, at the door for requests and in the queue of the agents."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        door = await channel.get_exchange(REQUESTS)
        for number in range(UNREADABLE):
            await door.publish(aio_pika.Message(f"nonsense at the door {number}".encode()), "good")
            await channel.default_exchange.publish(
                aio_pika.Message(f"nonsense for agents {number}".encode()), dispatch_queue("good").name
            )


def killed(agent: ServiceProcess) -> bool:
    """Whether this agent was ended by what it ran."""
    return agent.process.poll() == -signal.SIGKILL


def deaths_of(warren: Warren, job_id: UUID) -> int:
    """How many deaths the store has counted."""
    row, _, _ = job_history(warren, job_id)
    return len(row.error.crashes) if row.error else 0


def restart_until_dead(warren: Warren, job_id: UUID) -> None:
    """Start an agent whenever the last one was ended, as a process manager does, until the job is dead.

    How many it takes depends on which attempt the third agent was killed by: its start and the declaration of
    the first loss are at the same time on a busy machine.
    """
    agent = warren.start("agent", MODULE, "--queue", "bad")

    def is_dead() -> bool:
        nonlocal agent
        if killed(agent):
            agent = warren.start("agent", MODULE, "--queue", "bad")
        row, _, _ = job_history(warren, job_id)
        return row.state is JobState.DEAD

    until(is_dead, "the job to be dead", within=90)


def finished(warren: Warren, job: SyncJob) -> datetime:
    """When it was over."""
    row, _, _ = job_history(warren, job.job_id)
    assert row.finished_at is not None
    return row.finished_at


def reason_of(warren: Warren, job: SyncJob) -> str:
    """Why it is dead, once it is."""
    with pytest.raises(JobDied):
        job.result(timeout=90)
    return dead_letter_of(warren, job.job_id).reason


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
        ends_executors = [client.request("poison.executor") for _ in range(3)]
        asyncio.run(talk_nonsense(warren.broker_url))
        good = [client.request("good", {"number": number}) for number in range(100)]
        assert [job.result(timeout=60) for job in good] == list(range(100))
        done = max(finished(warren, job) for job in good[-10:])
        with subtests.test("what ends its agent, though everything is restarted in between"):
            # The first is dead before anybody has heard that it ran: nobody knows to what it fell.
            until(lambda: killed(first), "the first agent to be killed by its job")
            second = warren.start("agent", MODULE, "--queue", "bad")
            until(lambda: killed(second), "the second agent to be killed by it")
            third = warren.start("agent", MODULE, "--queue", "bad")
            until(lambda: killed(third), "the third agent to be killed by it")
            until(lambda: deaths_of(warren, ends_agents.job_id) == 1, "a death to be counted")
            supervisor.kill()
            warren.start("supervisor")
            restart_until_dead(warren, ends_agents.job_id)
            reason = reason_of(warren, ends_agents)
            assert reason.startswith("quarantined as poison: 2 attempts ended with their process: ")
            assert reason.count("lost: agent") == 2
        with subtests.test("what ends its executors"):
            for job in ends_executors:
                reason = reason_of(warren, job)
                assert reason.startswith("quarantined as poison: 3 attempts ended with their process: ")
                assert reason.count("SIGKILL: ") == 3
                row, attempts, _ = job_history(warren, job.job_id)
                assert len(attempts) == row.failures == 3
                assert finished(warren, job) > done, "the others did not wait for it"
        with subtests.test("what cannot be read is parked, and nothing else"):
            _, _, parked = job_history(warren, ends_agents.job_id)
            assert len(parked) == 2 * UNREADABLE
            assert {message.body.partition(b" ")[0] for message in parked} == {b"nonsense"}
