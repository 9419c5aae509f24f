"""Heartbeats are signs of life; silence proves nothing to a supervisor that could not have received them."""

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest
from services.supervisor.tests import stage

from warrener_contracts import topology
from warrener_contracts.events import AgentHeartbeat, AttemptCancelData, AttemptsCheckedData, HeartbeatAttempt
from warrener_contracts.messages import BATCH_TYPE, build_message
from warrener_contracts.state_machine import JobState
from warrener_runtime.settings import SettingsError, load
from warrener_runtime.telemetry import names, to_nanoseconds
from warrener_store.jobs.rows import evolve
from warrener_store.jobs.views import RunningAttemptRow
from warrener_supervisor.decisions import heartbeat_diff
from warrener_supervisor.decisions.context import Timings
from warrener_supervisor.heartbeat_consumer import TICK, HeartbeatCoverage
from warrener_supervisor.settings import SupervisorSettings

OTHER = UUID("01890000-0000-7000-8000-000000000002")
FIRST, SECOND = heartbeat_diff.HeartbeatLine(stage.JOB, 1), heartbeat_diff.HeartbeatLine(OTHER, 1)


def beat(*lines: heartbeat_diff.HeartbeatLine, process: int = 1) -> AgentHeartbeat:
    event = stage.heartbeat(*lines, agent="a1")
    this = {"pid": process, "started_at": stage.NOW + timedelta(seconds=process)}
    return event.model_copy(update={"data": event.data.model_copy(update=this)})


def tracker_of(*listed: heartbeat_diff.HeartbeatLine, confirmed: int = 0) -> heartbeat_diff.HeartbeatTracker:
    """A tracker that has received these lines of agent a1 at 0 s, the first of them confirmed."""
    tracker = heartbeat_diff.HeartbeatTracker(20, 10)
    tracker.note(beat(*listed), 0, stage.NOW)
    tracker.confirm("a1", listed[:confirmed])
    return tracker


def running(
    line: heartbeat_diff.HeartbeatLine, *, agent_id: str = "a1", cancelled: bool = False
) -> RunningAttemptRow:
    return RunningAttemptRow(line.job_id, line.attempt, agent_id, stage.NOW, cancelled)


def test_a_line_is_looked_up_until_the_store_confirms_it_and_again_after_a_silence_or_its_end() -> None:
    tracker = tracker_of(FIRST, SECOND)
    assert tracker.note(beat(FIRST, SECOND), 1, stage.NOW) == {FIRST, SECOND}
    tracker.confirm("a1", [FIRST])
    assert tracker.note(beat(FIRST, SECOND), 2, stage.NOW) == {SECOND}
    tracker.confirm("a1", [SECOND])
    assert tracker.note(beat(FIRST, SECOND), 4, stage.NOW) == set()
    tracker.compare("a1", [running(FIRST, cancelled=True)], 4)
    assert tracker.note(beat(FIRST, SECOND), 5, stage.NOW) == {FIRST, SECOND}, "cancelled, and over"
    tracker.confirm("a1", [FIRST, SECOND])
    assert tracker.note(beat(FIRST), 15, stage.NOW) == {FIRST}, "after a silence"
    tracker.note(beat(FIRST), 17, stage.NOW)
    assert set(tracker.missing(15)) == {SECOND}


def test_a_confirmed_line_that_is_no_longer_listed_is_missing_until_it_is_settled() -> None:
    tracker = tracker_of(FIRST, SECOND, confirmed=2)
    later = stage.NOW + timedelta(seconds=2)
    tracker.note(beat(SECOND), 2, later)
    tracker.note(beat(SECOND), 9, later)
    assert tracker.missing(1) == {}
    ((line, (agent_id, missing)),) = tracker.missing(2).items()
    assert (line, agent_id, missing.last_seen_at) == (FIRST, "a1", stage.NOW), "it was listed at noon"
    tracker.settle("a1", FIRST)
    assert tracker.missing(2) == {}


def test_a_line_that_comes_back_is_not_missing_and_a_silent_agent_misses_nothing() -> None:
    tracker = tracker_of(FIRST, confirmed=1)
    tracker.note(beat(), 2, stage.NOW)
    assert tracker.missing(2) == {}, "nothing was received since"
    tracker.note(beat(), 4, stage.NOW)
    assert set(tracker.missing(2)) == {FIRST}
    assert tracker.note(beat(FIRST), 6, stage.NOW) == {FIRST}
    assert tracker.missing(5) == {}


def test_whole_lists_are_compared_now_and_then_and_at_once_with_another_process() -> None:
    tracker = tracker_of(FIRST)
    assert tracker.due_for_comparison(0) == ["a1"]
    tracker.compare("a1", [running(FIRST)], 0)
    assert tracker.due_for_comparison(19) == []
    assert tracker.due_for_comparison(20) == ["a1"]
    tracker.note(beat(process=2), 5, stage.NOW)
    assert tracker.due_for_comparison(5) == ["a1"]
    tracker.compare("a1", [running(FIRST)], 5)
    tracker.note(beat(process=2), 14, stage.NOW)
    assert set(tracker.missing(6)) == {FIRST}, "the process before it ran it"


def test_agents_that_are_gone_for_long_are_forgotten() -> None:
    tracker = tracker_of()
    assert tracker.received_since("a1", -1)
    assert not tracker.received_since("a1", 0)
    tracker.forget(0)
    assert not tracker.received_since("a1", -1)


def test_a_line_is_confirmed_as_the_running_attempt_of_that_agent() -> None:
    assert heartbeat_diff.matches_store({stage.JOB: running(FIRST)}, "a1", FIRST)
    assert not heartbeat_diff.matches_store({}, "a1", FIRST)
    later, elsewhere = running(heartbeat_diff.HeartbeatLine(stage.JOB, 2)), running(FIRST, agent_id="a2")
    for known in (later, elsewhere, running(FIRST, cancelled=True)):
        assert not heartbeat_diff.matches_store({stage.JOB: known}, "a1", FIRST)


def test_an_earlier_attempt_goes_on_until_a_later_one_runs_and_what_is_over_is_to_stop() -> None:
    def found(state: JobState) -> tuple[bool, bool, bool]:
        row = stage.make(state, attempt=2)
        discrepancy = heartbeat_diff.classify_discrepancy(row, FIRST, "agent-1", stage.NOW)
        return discrepancy.superseded, discrepancy.not_lost, discrepancy.unwanted

    assert found(JobState.RETRYING) == (False, True, False)
    assert found(JobState.RUNNING) == (True, True, False)
    for state in (JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD):
        assert found(state)[2]


def test_a_turn_that_is_over_begins_by_no_heartbeat_and_one_of_a_workflow_that_ends_is_to_stop() -> None:
    waits = stage.make(JobState.SUSPENDED, suspensions=1)
    ends = evolve(waits, ending=JobState.EXPIRED)
    held = HeartbeatAttempt(job_id=stage.JOB, attempt=1, held=True)
    for row, unwanted in ((waits, False), (ends, True)):
        assert heartbeat_diff.classify_discrepancy(row, FIRST, "agent-1", stage.NOW) == (
            heartbeat_diff.Discrepancy(unwanted=unwanted)
        )
        checked = heartbeat_diff.checked_event("agent-1", [held], {stage.JOB: row}, stage.NOW).data
        assert (checked.may_start, checked.ended) == ((), (stage.JOB,) if unwanted else ())


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


def test_a_lease_is_listened_for_and_again_by_a_process_that_was_frozen() -> None:
    coverage = coverage_of(FakeHeartbeatQueue())
    assert not looked(coverage, 0, LEASE - 1)
    assert looked(coverage, LEASE - 1, LEASE)
    assert looked(coverage, LEASE, 100)
    assert not coverage.is_conclusive(125), "frozen for 25 s: what waits is received first"
    assert not looked(coverage, 125, 125 + LEASE - 1)
    assert looked(coverage, 124 + LEASE, 125 + LEASE)


async def test_a_supervisor_that_has_not_listened_for_a_lease_loses_nothing(
    harness: stage.SupervisorHarness,
) -> None:
    await harness.publish(stage.heartbeat((stage.JOB, 1)))
    harness.broker.stop()
    await harness.clock.advance(300)
    harness.broker.start()
    await harness.clock.advance(16)
    for number in range(2, 6):
        await harness.publish(stage.heartbeat((stage.JOB, 1), number=number), then=5)
    row = await harness.row()
    assert (row.attempt, row.losses) == (1, 0)


async def test_a_heartbeat_is_a_sign_of_life_of_what_nobody_announced() -> None:
    async with stage.opened(stage.make(JobState.QUEUED, wake_at=stage.FRESH)) as harness:
        await harness.publish(stage.heartbeat((stage.JOB, 1)))
        row = await harness.row()
        assert (row.state, row.agent_id) == (JobState.RUNNING, "agent-1")


async def test_waits_are_traced_when_a_heartbeat_comes_before_the_report_of_the_start() -> None:
    harness = stage.SupervisorHarness()
    due_at = stage.NOW - timedelta(seconds=45)
    await harness.open(
        stage.make(
            JobState.RETRYING, attempt=2, due_at=due_at, wake_at=stage.FRESH, traceparent=stage.TRACEPARENT
        )
    )
    await harness.publish(stage.heartbeat((stage.JOB, 2)))
    await harness.publish(stage.started(attempt=2, at=stage.NOW - timedelta(seconds=1)))
    waits = [
        (span.attributes[names.WAIT_CAUSE], span.attributes[names.ATTEMPT], span.start_time, span.end_time)
        for span in harness.telemetry.spans()
        if span.attributes is not None and names.WAIT_CAUSE in span.attributes
    ]
    failed_at = to_nanoseconds(stage.NOW - timedelta(minutes=1))
    assert waits == [
        ("retry", 2, failed_at, to_nanoseconds(due_at)),
        ("queue", 2, to_nanoseconds(due_at), to_nanoseconds(stage.NOW)),
    ]
    await harness.close()


async def test_a_stop_that_was_not_received_is_repeated_with_everyheartbeat(
    harness: stage.SupervisorHarness,
) -> None:
    await harness.publish(build_message(stage.cancel())._replace(exchange=topology.STATUS))
    await harness.publish(stage.heartbeat((stage.JOB, 1)), stage.heartbeat((stage.JOB, 1), number=2))
    assert len(harness.published(topology.CONTROL)) >= 2


@pytest.mark.parametrize("state", [JobState.QUEUED, JobState.RUNNING])
async def test_an_attempt_that_was_judged_does_not_start_and_is_stopped_once_a_later_one_runs(
    state: JobState,
) -> None:
    """Another agent, whose ledger knows nothing of it, has received it again and holds it back."""
    async with stage.opened(stage.make(state, attempt=2, agent_id="agent-2", wake_at=stage.FRESH)) as harness:
        beat = stage.heartbeat((stage.JOB, 1))
        held = tuple(one.model_copy(update={"held": True}) for one in beat.data.running)
        data = beat.data.model_copy(update={"running": held})
        await harness.publish(beat.model_copy(update={"data": data}))
        answers = [one.data for one in harness.published(topology.CONTROL)]
        (checked,) = [one for one in answers if isinstance(one, AttemptsCheckedData)]
        assert (checked.may_start, checked.ended) == ((), ())
        stops = [(one.job_id, one.attempt) for one in answers if isinstance(one, AttemptCancelData)]
        assert stops == ([(stage.JOB, 1)] if state is JobState.RUNNING else [])


async def test_5_heartbeats_beyond_the_batch_limit_are_parked_as_one_message() -> None:
    async with stage.opened(settings=SupervisorSettings(batch_limit=2)) as harness:
        beats = [stage.heartbeat(agent=f"agent-{number}") for number in range(3)]
        bodies = b",".join(build_message(beat).body for beat in beats)
        together = build_message(beats[0])._replace(body=b"[" + bodies + b"]", content_type=BATCH_TYPE)
        await harness.publish(together, then=1)
        assert not await harness.store.agents()
        (message,) = await harness.store.parked()
        assert "at most 2 events" in message.detail


def test_a_timeout_of_agents_that_their_claims_outlast_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_TTL", "6s")
    assert load(SupervisorSettings).supervisor_agent_timeout == 8
    monkeypatch.setenv("WARRENER_SUPERVISOR_AGENT_TIMEOUT", "2m")
    assert load(SupervisorSettings).supervisor_agent_timeout == 120
    monkeypatch.setenv("WARRENER_SUPERVISOR_AGENT_TIMEOUT", "6s")
    sentence = r"WARRENER_SUPERVISOR_AGENT_TIMEOUT: expected more than agent_claim_ttl \(6 s\)"
    with pytest.raises(SettingsError, match=sentence):
        load(SupervisorSettings)
