"""What follows from a list in a heartbeat: only differences cost something."""

from datetime import timedelta
from uuid import UUID

import pytest
from services.supervisor.tests.event_factory import JOB, NOW, heartbeat, make

from warrener_contracts.events import AgentHeartbeat
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.views import RunningAttemptRow
from warrener_supervisor.decisions.heartbeat_diff import (
    HeartbeatLine,
    HeartbeatTracker,
    classify_discrepancy,
    matches_store,
)

OTHER = UUID("01890000-0000-7000-8000-000000000002")
FIRST, SECOND = HeartbeatLine(JOB, 1), HeartbeatLine(OTHER, 1)


def beat(*lines: HeartbeatLine, process: int = 1) -> AgentHeartbeat:
    event = heartbeat(*lines, agent="a1")
    this = {"pid": process, "started_at": NOW + timedelta(seconds=process)}
    return event.model_copy(update={"data": event.data.model_copy(update=this)})


def running(line: HeartbeatLine, *, agent_id: str = "a1", cancelled: bool = False) -> RunningAttemptRow:
    return RunningAttemptRow(line.job_id, line.attempt, agent_id, NOW, cancelled)


def test_a_line_is_looked_up_until_the_store_confirms_it() -> None:
    tracker = HeartbeatTracker(20, 10)
    assert tracker.note(beat(FIRST, SECOND), 0, NOW) == {FIRST, SECOND}
    tracker.confirm("a1", [FIRST])
    assert tracker.note(beat(FIRST, SECOND), 2, NOW) == {SECOND}
    tracker.confirm("a1", [SECOND])
    assert tracker.note(beat(FIRST, SECOND), 4, NOW) == set()


def test_a_confirmed_line_that_is_no_longer_listed_is_missing_until_it_is_settled() -> None:
    tracker = HeartbeatTracker(20, 10)
    tracker.note(beat(FIRST, SECOND), 0, NOW)
    tracker.confirm("a1", [FIRST, SECOND])
    later = NOW + timedelta(seconds=2)
    tracker.note(beat(SECOND), 2, later)
    tracker.note(beat(SECOND), 9, later)
    assert tracker.missing(1) == {}
    ((line, (agent_id, missing)),) = tracker.missing(2).items()
    assert (line, agent_id, missing.last_seen_at) == (FIRST, "a1", NOW), "it was listed at noon"
    tracker.settle("a1", FIRST)
    assert tracker.missing(2) == {}


def test_a_line_that_comes_back_is_not_missing_and_a_silent_agent_misses_nothing() -> None:
    tracker = HeartbeatTracker(20, 10)
    tracker.note(beat(FIRST), 0, NOW)
    tracker.confirm("a1", [FIRST])
    tracker.note(beat(), 2, NOW)
    assert tracker.missing(2) == {}, "nothing was received since"
    tracker.note(beat(), 4, NOW)
    assert set(tracker.missing(2)) == {FIRST}
    assert tracker.note(beat(FIRST), 6, NOW) == {FIRST}
    assert tracker.missing(5) == {}


def test_whole_lists_are_compared_now_and_then_and_at_once_with_another_process() -> None:
    tracker = HeartbeatTracker(20, 10)
    tracker.note(beat(FIRST), 0, NOW)
    assert tracker.due_for_comparison(0) == ["a1"]
    tracker.compare("a1", [running(FIRST)], 0)
    assert tracker.due_for_comparison(19) == []
    assert tracker.due_for_comparison(20) == ["a1"]
    tracker.note(beat(process=2), 5, NOW)
    assert tracker.due_for_comparison(5) == ["a1"]
    tracker.compare("a1", [running(FIRST)], 5)
    tracker.note(beat(process=2), 14, NOW)
    assert set(tracker.missing(6)) == {FIRST}, "the process before it ran it"


def test_a_comparison_takes_back_what_is_cancelled_or_over() -> None:
    tracker = HeartbeatTracker(20, 10)
    tracker.note(beat(FIRST, SECOND), 0, NOW)
    tracker.confirm("a1", [FIRST, SECOND])
    tracker.compare("a1", [running(FIRST, cancelled=True)], 0)
    assert tracker.note(beat(FIRST, SECOND), 2, NOW) == {FIRST, SECOND}


def test_after_a_silence_every_line_is_looked_up_again() -> None:
    tracker = HeartbeatTracker(20, 10)
    tracker.note(beat(FIRST, SECOND), 0, NOW)
    tracker.confirm("a1", [FIRST, SECOND])
    assert tracker.note(beat(FIRST), 10, NOW) == {FIRST}
    tracker.note(beat(FIRST), 12, NOW)
    assert set(tracker.missing(10)) == {SECOND}


def test_agents_that_are_gone_for_long_are_forgotten() -> None:
    tracker = HeartbeatTracker(20, 10)
    tracker.note(beat(), 0, NOW)
    assert tracker.received_since("a1", -1)
    assert not tracker.received_since("a1", 0)
    tracker.forget(0)
    assert not tracker.received_since("a1", -1)


@pytest.mark.parametrize(
    ("known", "is_confirmed"),
    [
        (running(FIRST), True),
        (running(FIRST, agent_id="a2"), False),
        (running(HeartbeatLine(JOB, 2)), False),
        (running(FIRST, cancelled=True), False),
    ],
)
def test_a_line_is_confirmed_as_the_running_attempt_of_that_agent(
    known: RunningAttemptRow, *, is_confirmed: bool
) -> None:
    assert matches_store({JOB: known}, "a1", FIRST) is is_confirmed
    assert not matches_store({}, "a1", FIRST)


def test_an_earlier_attempt_goes_on_until_a_later_one_runs() -> None:
    retrying = classify_discrepancy(make(JobState.RETRYING, attempt=2), FIRST, "agent-1", NOW)
    assert (retrying.superseded, retrying.not_lost) == (False, True)
    runs = classify_discrepancy(make(JobState.RUNNING, attempt=2), FIRST, "agent-1", NOW)
    assert (runs.superseded, runs.not_lost) == (True, True)


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.EXPIRED, JobState.DEAD])
def test_what_is_over_is_to_stop(state: JobState) -> None:
    assert classify_discrepancy(make(state), FIRST, "agent-1", NOW).unwanted
