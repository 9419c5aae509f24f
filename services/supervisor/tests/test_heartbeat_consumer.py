"""Heartbeats are signs of life; silence proves nothing to a supervisor that could not have received them."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import FRESH, JOB, NOW, TRACEPARENT, heartbeat, make
from services.supervisor.tests.harness import SupervisorHarness, opened

from warrener_contracts import topology
from warrener_contracts.events import AttemptCancelData, AttemptsCheckedData
from warrener_contracts.messages import BATCH_TYPE, build_message
from warrener_contracts.state_machine import JobState
from warrener_runtime.telemetry import names, to_nanoseconds
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.heartbeat_consumer import TICK, HeartbeatCoverage
from warrener_supervisor.settings import SupervisorSettings

RULES = Timings()


LEASE, RECONNECT = RULES.lease.total_seconds(), RULES.reconnect.total_seconds()


@dataclass
class FakeHeartbeatQueue:
    """What is consumed, and how."""

    live: bool = True
    epoch: int = 1


def coverage_of(queue: FakeHeartbeatQueue) -> HeartbeatCoverage:
    return HeartbeatCoverage(lambda: queue.live, lambda: queue.epoch, RULES)


def looked(coverage: HeartbeatCoverage, begin: float, end: float) -> bool:
    """What it says at the end of this time, in which it has looked as often as it should."""
    for step in range(int((end - begin) / TICK)):
        coverage.sample(begin + step * TICK)
    return coverage.is_conclusive(end)


def test_a_lease_must_have_been_listened_for() -> None:
    coverage = coverage_of(FakeHeartbeatQueue())
    assert not looked(coverage, 0, LEASE - 1)
    assert looked(coverage, LEASE - 1, LEASE)


def test_after_a_break_agents_have_time_to_come_back() -> None:
    queue = FakeHeartbeatQueue(live=False)
    coverage = coverage_of(queue)
    assert not looked(coverage, 0, 100), "not begun yet: no break"
    queue.live = True
    assert looked(coverage, 101, 102 + LEASE)
    queue.live = False
    assert not looked(coverage, 102 + LEASE, 200)
    queue.live = True
    assert not looked(coverage, 200, 200 + LEASE + 1)
    assert looked(coverage, 201 + LEASE, 200 + LEASE + RECONNECT + 1)


def test_a_queue_that_was_lost_between_two_looks_is_a_break() -> None:
    queue = FakeHeartbeatQueue()
    coverage = coverage_of(queue)
    assert looked(coverage, 0, 100)
    queue.epoch = 2
    assert not looked(coverage, 100, 100 + LEASE + 1)
    assert looked(coverage, 101 + LEASE, 100 + LEASE + RECONNECT + 1)


def test_a_process_that_was_frozen_first_receives_what_waits() -> None:
    coverage = coverage_of(FakeHeartbeatQueue())
    assert looked(coverage, 0, 100)
    assert not coverage.is_conclusive(125), "frozen for 25 s"
    assert not looked(coverage, 125, 125 + LEASE - 1)
    assert looked(coverage, 124 + LEASE, 125 + LEASE)


async def test_a_supervisor_that_has_not_listened_for_a_lease_loses_nothing(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(heartbeat((JOB, 1)))
    harness.broker.stop()
    await harness.clock.advance(300)
    harness.broker.start()
    await harness.clock.advance(16)
    for number in range(2, 6):
        await harness.publish(heartbeat((JOB, 1), number=number), then=5)
    row = await harness.row()
    assert (row.attempt, row.losses) == (1, 0)


async def test_a_heartbeat_is_a_sign_of_life_of_what_nobody_announced() -> None:
    async with opened(make(JobState.QUEUED, wake_at=FRESH)) as harness:
        await harness.publish(heartbeat((JOB, 1)))
        row = await harness.row()
        assert (row.state, row.agent_id) == (JobState.RUNNING, "agent-1")


async def test_waits_are_traced_when_a_heartbeat_comes_before_the_report_of_the_start() -> None:
    harness = SupervisorHarness()
    due_at = NOW - timedelta(seconds=45)
    await harness.open(
        make(JobState.RETRYING, attempt=2, due_at=due_at, wake_at=FRESH, traceparent=TRACEPARENT)
    )
    await harness.publish(heartbeat((JOB, 2)))
    await harness.publish(event_factory.started(attempt=2, at=NOW - timedelta(seconds=1)))
    waits = [
        (span.attributes[names.WAIT_CAUSE], span.attributes[names.ATTEMPT], span.start_time, span.end_time)
        for span in harness.telemetry.spans()
        if span.attributes is not None and names.WAIT_CAUSE in span.attributes
    ]
    failed_at = to_nanoseconds(NOW - timedelta(minutes=1))
    assert waits == [
        ("retry", 2, failed_at, to_nanoseconds(due_at)),
        ("queue", 2, to_nanoseconds(due_at), to_nanoseconds(NOW)),
    ]
    await harness.close()


async def test_a_stop_that_was_not_received_is_repeated_with_everyheartbeat(
    harness: SupervisorHarness,
) -> None:
    await harness.publish(build_message(event_factory.cancel())._replace(exchange=topology.STATUS))
    await harness.publish(heartbeat((JOB, 1)), heartbeat((JOB, 1), number=2))
    assert len(harness.published(topology.CONTROL)) >= 2


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
async def test_an_attempt_that_was_judged_does_not_start_and_is_stopped_once_a_later_one_runs(
    state: JobState,
) -> None:
    """Another agent, whose ledger knows nothing of it, has received it again and holds it back."""
    async with opened(make(state, attempt=2, agent_id="agent-2", wake_at=FRESH)) as harness:
        beat = heartbeat((JOB, 1))
        held = tuple(one.model_copy(update={"held": True}) for one in beat.data.running)
        data = beat.data.model_copy(update={"running": held})
        await harness.publish(beat.model_copy(update={"data": data}))
        answers = [one.data for one in harness.published(topology.CONTROL)]
        (checked,) = [one for one in answers if isinstance(one, AttemptsCheckedData)]
        assert (checked.may_start, checked.ended) == ((), ())
        stops = [(one.job_id, one.attempt) for one in answers if isinstance(one, AttemptCancelData)]
        assert stops == ([(JOB, 1)] if state is JobState.RUNNING else [])


async def test_5_heartbeats_beyond_the_batch_limit_are_parked_as_one_message() -> None:
    async with opened(settings=SupervisorSettings(batch_limit=2)) as harness:
        beats = [heartbeat(agent=f"agent-{number}") for number in range(3)]
        bodies = b",".join(build_message(beat).body for beat in beats)
        together = build_message(beats[0])._replace(body=b"[" + bodies + b"]", content_type=BATCH_TYPE)
        await harness.publish(together, then=1)
        assert not await harness.store.agents()
        (message,) = await harness.store.parked()
        assert "at most 2 events" in message.detail
