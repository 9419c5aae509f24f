"""When an attempt is declared lost, its loss revoked, and an alarm raised."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests.stage import JOB, NOW, SupervisorHarness, agent_row, heartbeat, make, opened

from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AgentHeartbeatRequested, AttemptCancel
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS_QUEUE, dispatch_queue
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.bus.types import QueueStats
from warrener_runtime.telemetry import Telemetry
from warrener_runtime.virtual_clock import SeededEntropy
from warrener_store.agents.rows import AgentRow
from warrener_store.errors import StoreUnavailable
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor import service_monitor
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.settings import SupervisorSettings
from warrener_supervisor.wiring import assemble

OTHER = UUID("01890000-0000-7000-8000-000000000002")


@pytest.fixture
async def harness() -> AsyncIterator[SupervisorHarness]:
    """A supervisor that watches a job of each of two agents."""
    async with opened(running(JOB), running(OTHER, agent_id="agent-2")) as one:
        yield one


def running(job_id: UUID, *, agent_id: str = "agent-1") -> JobRow:
    later = NOW + timedelta(hours=1)
    return make(JobState.RUNNING, job_id=job_id, agent_id=agent_id, lease_until=NOW, wake_at=later)


def beat(agent: str, *running: tuple[UUID, int]) -> AgentHeartbeat:
    return heartbeat(*running, agent=agent)


async def both_beat(harness: SupervisorHarness, seconds: int) -> None:
    """Two agents send their heartbeats for so long."""
    for _ in range(seconds // 2):
        await harness.publish(beat("agent-1", (JOB, 1)))
        await harness.publish(beat("agent-2", (OTHER, 1)), then=2)


async def row_of(harness: SupervisorHarness, job_id: UUID = JOB) -> JobRow:
    return (await harness.store.jobs_by_id([job_id]))[job_id]


def requested_agents(harness: SupervisorHarness) -> list[str]:
    return [event.data.agent_id for event in harness.all_of(AgentHeartbeatRequested)]


async def test_a_silent_agent_is_probed_in_time_to_answer_before_its_lease_is_over_and_keeps_what_it_runs(
    harness: SupervisorHarness,
) -> None:
    await both_beat(harness, 10)  # the last one two seconds ago
    await harness.publish(beat("agent-2", (OTHER, 1)), then=3.4)
    assert not requested_agents(harness)
    await harness.clock.advance(0.1)
    assert requested_agents(harness) == ["agent-1"], "2 s to answer, and one look more, before 8 s are over"
    assert harness.addresses(topology.CONTROL) == ["agent.agent-1"]
    await harness.publish(beat("agent-1", (JOB, 1)), beat("agent-2", (OTHER, 1)), then=7)
    assert ((await row_of(harness)).attempt, (await row_of(harness)).losses) == (1, 0)


async def test_a_sign_that_only_the_store_has_counts_too(harness: SupervisorHarness) -> None:
    """Another supervisor has received the heartbeats."""
    await both_beat(harness, 10)
    for _ in range(10):
        agents = {agent.agent_id: agent for agent in await harness.store.agents()}
        await harness.store.put_agents([replace(agents["agent-1"], last_seen_at=harness.clock.now())])
        await harness.publish(beat("agent-2", (OTHER, 1)), then=2)
    assert (await row_of(harness)).losses == 0
    assert not requested_agents(harness)


async def test_one_that_does_not_answer_is_lost_and_a_loss_that_was_none_is_taken_back(
    harness: SupervisorHarness,
) -> None:
    await both_beat(harness, 10)
    for _ in range(5):
        await harness.publish(beat("agent-2", (OTHER, 1)), then=2)
    row = await row_of(harness)
    assert (row.state, row.attempt, row.losses) == (JobState.RETRYING, 2, 1), "its lease was over"
    assert requested_agents(harness) == ["agent-1"], "once"
    assert (await row_of(harness, OTHER)).attempt == 1
    await harness.publish(beat("agent-1", (JOB, 1)), then=1)
    row = await row_of(harness)
    assert (row.state, row.attempt, row.losses, row.error) == (JobState.RETRYING, 2, 0, None)
    await harness.publish(beat("agent-1", (JOB, 1)), then=1)
    assert (await row_of(harness)).version == row.version, "it is taken back once"
    assert not harness.all_of(AttemptCancel), "it may go on until another one runs"
    await harness.publish(beat("agent-2", (OTHER, 1), (JOB, 2)))
    await harness.publish(beat("agent-1", (JOB, 1)))
    (stop,) = harness.all_of(AttemptCancel)
    assert (stop.data.job_id, stop.data.attempt) == (JOB, 1)


async def test_an_agent_that_lives_and_no_longer_lists_an_attempt_has_lost_it(
    harness: SupervisorHarness,
) -> None:
    await both_beat(harness, 10)
    for _ in range(6):
        await harness.publish(beat("agent-1"), beat("agent-2", (OTHER, 1)), then=2)
    row = await row_of(harness)
    assert (row.attempt, row.losses) == (2, 1)
    assert row.error is not None
    assert "agent agent-1 has not named it since" in row.error.message


async def test_an_agent_that_runs_something_and_has_never_sent_a_heartbeat_is_lost_too(
    harness: SupervisorHarness,
) -> None:
    await harness.clock.advance(20)
    assert {(await row_of(harness, job_id)).attempt for job_id in (JOB, OTHER)} == {2}


class Away(MemoryStore):
    async def put_agents(self, agents: Sequence[AgentRow], alive_since: datetime | None = None) -> None:
        raise StoreUnavailable("ordered by the test")


async def test_a_supervisor_without_its_database_swallows_nobodys_heartbeats(
    harness: SupervisorHarness,
) -> None:
    """With one queue for both it took those of every second agent."""
    bus = MemoryBus(harness.broker)
    settings, silent = SupervisorSettings(), Telemetry.disabled()
    other: Any = assemble(bus, Away(), harness.clock, SeededEntropy(2), silent, settings)
    await bus.start()
    await other.start()
    await both_beat(harness, 60)
    assert {(await row_of(harness, job_id)).losses for job_id in (JOB, OTHER)} == {0}
    await other.stop()
    await bus.close()


async def test_heartbeats_cost_by_agents_and_not_by_jobs() -> None:
    """500 running jobs of one agent, for a minute of heartbeats."""
    counting = Counting()
    ids = [UUID(int=number) for number in range(1, 501)]
    async with opened(*map(running, ids), store=counting) as harness:
        for _ in range(30):
            await harness.publish(beat("agent-1", *((job_id, 1) for job_id in ids)), then=2)
        assert {row.attempt for row in (await harness.store.jobs_by_id(ids)).values()} == {1}
        assert counting.short_rows <= len(ids) * (1 + 60 // 20 + 1), "once each, and one comparison in 20 s"
        assert {row.version for row in (await counting.jobs_by_id(ids)).values()} == {1}, "none was written"


class Counting(MemoryStore):
    """Counts the rows of jobs that are read because of heartbeats."""

    short_rows = 0

    async def running_attempts(self, **of: Any) -> Any:
        found = await super().running_attempts(**of)
        self.short_rows += len(found)
        return found


RULES = Timings()
LEASE = RULES.lease
REQUESTS = service_monitor.MonitoredQueue(REQUESTS_QUEUE.name, "scheduler")
LATER = NOW + RULES.no_consumer_timeout


def agent(name: str = "ada", *, silent_for: timedelta = LEASE, draining: bool = False) -> AgentRow:
    return agent_row(name, queues=("etl",), running=2, draining=draining, last_seen_at=NOW - silent_for)


def test_an_agent_that_falls_silent_is_reported_once_and_again_after_it_has_beaten() -> None:
    alarms = service_monitor.AlarmDetector(RULES)
    assert not alarms.lost([agent(silent_for=LEASE / 2)], NOW)
    [lost] = alarms.lost([agent()], NOW)
    assert (lost.data.agent_id, lost.data.running, lost.data.last_seen_at) == ("ada", 2, NOW - LEASE)
    assert not alarms.lost([agent()], NOW + LEASE)
    [same] = service_monitor.AlarmDetector(RULES).lost([agent()], NOW)
    assert lost.id == same.id, "the same word from another supervisor"
    assert not alarms.lost([agent(silent_for=timedelta(0))], NOW)
    assert len(alarms.lost([agent()], NOW)) == 1
    gone = [agent(draining=True), agent("bob", silent_for=timedelta(days=1))]
    assert not service_monitor.AlarmDetector(RULES).lost(gone, NOW), "it took its leave, or is no news"


def test_a_queue_whose_agents_drain_is_not_watched_until_they_have_ended() -> None:
    beating = timedelta(seconds=1)
    agents = [
        agent("ada", silent_for=beating, draining=True),
        replace(agent("bob", silent_for=beating), queues=("mails",)),
        replace(agent("eve", draining=True), queues=("pages",)),
    ]
    assert service_monitor.draining_queues(agents, NOW - LEASE) == {dispatch_queue("etl").name}


def test_a_queue_that_nobody_consumes_for_long_is_reported_once_until_it_is_consumed_or_empty() -> None:
    alarms = service_monitor.AlarmDetector(RULES)
    assert not alarms.unresponsive({REQUESTS: QueueStats(3, 0)}, NOW)
    [unresponsive] = alarms.unresponsive({REQUESTS: QueueStats(5, 0)}, LATER)
    found = unresponsive.data
    assert (found.service, found.queue, found.waiting) == ("scheduler", REQUESTS_QUEUE.name, 5)
    assert found.since == NOW
    much_later = LATER + RULES.no_consumer_timeout
    assert not alarms.unresponsive({REQUESTS: QueueStats(9, 0)}, much_later)
    alarms = service_monitor.AlarmDetector(RULES)
    alarms.unresponsive({REQUESTS: QueueStats(3, 0)}, NOW)
    assert not alarms.unresponsive({REQUESTS: QueueStats(3, 1)}, LATER)
    assert not alarms.unresponsive({REQUESTS: QueueStats(3, 0)}, LATER), "it starts over"
    assert not alarms.unresponsive({REQUESTS: QueueStats(0, 0)}, much_later)


def test_the_queues_that_somebody_should_consume() -> None:
    found = service_monitor.monitored_queues([agent()], ["default", "etl"])
    assert [monitored.queue for monitored in found] == [
        "warrener.requests",
        "warrener.triggers",
        "warrener.commands.scheduler",
        "warrener.queue.default",
        "warrener.queue.etl",
    ]
