"""Every moment of a job belongs to one interval, and each wait has its cause."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from tests.store_rows import NOON, after, attempt_of, queued_job, running_job, waiting_job

from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, AttemptRow, JobRow
from warrener_store.jobs.timeline import JobInterval, current_waits, job_timeline, waits_in_queue
from warrener_store.workflows.rows import TurnRow

Facts = list[tuple[str, float, float | None, int]]


def facts(intervals: list[JobInterval]) -> Facts:
    return [
        (one.cause.value, seconds(one.start), None if one.end is None else seconds(one.end), one.attempt)
        for one in intervals
    ]


def seconds(moment: datetime) -> float:
    return (moment - NOON).total_seconds()


def ended(
    attempt: int, outcome: AttemptOutcome, times: tuple[float, float | None, float], verdict: str
) -> AttemptRow:
    dispatched_at, started_at, finished_at = times
    return replace(
        attempt_of(running_job(attempt=attempt), outcome),
        dispatched_at=after(dispatched_at),
        started_at=None if started_at is None else after(started_at),
        finished_at=after(finished_at),
        verdict=verdict,
    )


def finished(state: JobState, at: float, **fields: Any) -> JobRow:
    return queued_job(state=state, wake_at=None, finished_at=after(at), requested_at=after(-1), **fields)


def test_a_job_with_a_delay_two_retries_and_a_lost_agent_has_no_gap() -> None:
    attempts = [
        ended(1, AttemptOutcome.FAILED, (5, 6, 7), f"retry at {after(12).isoformat()}"),
        ended(2, AttemptOutcome.LOST, (8, 13, 30), f"retry at {after(31).isoformat()}"),
        ended(3, AttemptOutcome.SUCCEEDED, (30.5, 32, 33), "done"),
    ]
    row = finished(JobState.SUCCEEDED, 34, attempt=3)
    assert facts(job_timeline(row, attempts, after(99))) == [
        ("request", -1, 0, 1),
        ("delay", 0, 5, 1),
        ("queue", 5, 6, 1),
        ("attempt", 6, 7, 1),
        ("verdict", 7, 8, 2),
        ("retry", 8, 12, 2),
        ("queue", 12, 13, 2),
        ("attempt", 13, 30, 2),
        ("verdict", 30, 30.5, 3),
        ("retry", 30.5, 31, 3),
        ("queue", 31, 32, 3),
        ("attempt", 32, 33, 3),
        ("verdict", 33, 34, 3),
    ]


HELD = "not charged, held back: payments is open"


def held(**fields: Any) -> JobRow:
    """A job whose first attempt failed at 2 s, judged at 3 s."""
    base = {"state": JobState.RETRYING, "attempt": 2, "dispatched_at": None}
    return queued_job(**base | {"due_at": after(3), "updated_at": after(3)} | fields)


IN_TWO_HOURS = f"retry at {after(7200).isoformat()}"
LATE_RETRY: Facts = [("retry", 2, 7200, 2), ("dispatch", 7200, 7203, 2)]


@pytest.mark.parametrize(
    ("verdict", "row", "expected"),
    [
        (
            IN_TWO_HOURS,
            running_job(attempt=2, dispatched_at=after(7203), started_at=after(7204)),
            [*LATE_RETRY, ("queue", 7203, 7204, 2), ("attempt", 7204, None, 2)],
        ),
        (
            IN_TWO_HOURS,
            queued_job(attempt=2, dispatched_at=after(7203), updated_at=after(7203)),
            [*LATE_RETRY, ("queue", 7203, None, 2)],
        ),
        (
            HELD,
            running_job(attempt=2, dispatched_at=after(60), started_at=after(61)),
            [("breaker", 2, 60, 2), ("queue", 60, 61, 2), ("attempt", 61, None, 2)],
        ),
        (HELD, held(), [("breaker", 2, None, 2)]),
        (HELD, held(updated_at=after(50)), [("breaker", 2, None, 2)]),
        (
            HELD,
            held(state=JobState.QUEUED, due_at=None, dispatched_at=after(60), updated_at=after(60)),
            [("breaker", 2, 60, 2), ("queue", 60, None, 2)],
        ),
        (
            f"{HELD}; retry at {after(30).isoformat()}",
            held(due_at=after(30), updated_at=after(50)),
            [("retry", 2, 30, 2), ("breaker", 30, None, 2)],
        ),
    ],
)
def test_after_a_failure_a_job_waits_for_its_time_its_breaker_and_an_agent(
    verdict: str, row: JobRow, expected: Facts
) -> None:
    now = after(7300 if verdict == IN_TWO_HOURS else 70)
    attempts = [ended(1, AttemptOutcome.FAILED, (0, 1, 2), verdict)]
    assert facts(job_timeline(row, attempts, now))[3:] == expected


GATES = '[["job/x",2]]'
LIMITED: dict[str, Any] = {"gates": GATES, "due_at": NOON, "updated_at": after(1)}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (waiting_job(due_at=after(30)), [("delay", 0.0, None, 1)]),
        (waiting_job(due_at=after(5)), [("delay", 0.0, 5.0, 1), ("dispatch", 5.0, None, 1)]),
        (waiting_job(due_at=NOON, updated_at=after(1)), [("breaker", 0.0, None, 1)]),
        # A limit has put it off for long, a breaker for ten minutes.
        (waiting_job(**LIMITED, wake_at=after(43_200)), [("slot", 0.0, None, 1)]),
        (waiting_job(**LIMITED, wake_at=after(600)), [("breaker", 0.0, None, 1)]),
        (queued_job(gates=GATES, dispatched_at=after(7)), [("slot", 0.0, 7.0, 1), ("queue", 7.0, None, 1)]),
        (queued_job(), [("queue", 0.0, None, 1)]),
        (queued_job(dispatched_at=None), [("limit", 0.0, None, 1)]),
        (finished(JobState.EXPIRED, 40, attempt=1), [("queue", 0.0, 40.0, 1)]),
    ],
)
def test_the_last_wait_lasts_or_ends_with_its_job(row: JobRow, expected: Facts) -> None:
    assert facts(job_timeline(row, [], after(10)))[1:] == expected


def test_a_retry_waits_for_its_time_and_then_for_an_agent() -> None:
    row = queued_job(
        state=JobState.RETRYING, attempt=2, dispatched_at=after(2), due_at=after(7), updated_at=after(2)
    )
    assert facts(current_waits(row, after(9))) == [("retry", 2.0, 7.0, 2), ("queue", 7.0, 9.0, 2)]
    assert facts(waits_in_queue(after(2), after(7), after(9), 2)) == facts(current_waits(row, after(9)))
    assert current_waits(running_job(), after(9)) == []


def turn(attempt: int, began: float | None, suspended: float | None) -> TurnRow:
    return TurnRow(
        job_id=UUID(int=1),
        attempt=attempt,
        began_at=None if began is None else after(began),
        suspended_at=None if suspended is None else after(suspended),
    )


TURNS = [turn(1, None, 3), turn(2, 10, 12), turn(3, 15, 20), turn(4, 21, None)]
TWO_TURNS: Facts = [("turn", 0, 3, 1), ("calls", 3, 10, 2), ("turn", 10, 12, 2)]


@pytest.mark.parametrize(
    ("row", "turns", "expected"),
    [
        ({"attempt": 2}, TURNS[:2], [*TWO_TURNS, ("calls", 12, None, 2)]),
        ({"attempt": 1, "updated_at": after(3)}, [], [("turn", 0, 3, 1), ("calls", 3, None, 1)]),
        (
            {"state": JobState.QUEUED, "attempt": 4, "dispatched_at": after(22)},
            TURNS,
            [
                *TWO_TURNS,
                ("calls", 12, 15, 3),
                ("turn", 15, 20, 3),
                ("calls", 20, 22, 4),
                ("queue", 22, None, 4),
            ],
        ),
        (
            {"state": JobState.CANCELLED, "attempt": 2, "wake_at": None, "finished_at": after(40)},
            TURNS[:2],
            [*TWO_TURNS, ("calls", 12, 40, 2)],
        ),
        (
            {"attempt": 2, "ending_reason": "its 5 attempts are used up"},
            TURNS[:2],
            [*TWO_TURNS, ("hold", 12, None, 2)],
        ),
        # The turns before those of its generation are deleted.
        (
            {"attempt": 3, "generation": 1},
            TURNS[1:3],
            [
                ("calls", 0, 10, 2),
                ("turn", 10, 12, 2),
                ("calls", 12, 15, 3),
                ("turn", 15, 20, 3),
                ("calls", 20, None, 3),
            ],
        ),
    ],
)
def test_a_workflow_takes_turns_and_waits_for_its_calls_between_them(
    row: dict[str, Any], turns: list[TurnRow], expected: Facts
) -> None:
    job = queued_job(**({"state": JobState.SUSPENDED, "suspensions": len(turns)} | row))
    assert facts(job_timeline(job, [], after(60), turns))[1:] == expected


def test_a_turn_that_failed_is_an_attempt_between_turns() -> None:
    row = queued_job(state=JobState.SUSPENDED, attempt=3, suspensions=2)
    failed = ended(2, AttemptOutcome.FAILED, (5, 6, 7), f"retry at {after(12).isoformat()}")
    turns = [turn(1, None, 3), turn(2, 5, None), turn(3, 12, 20)]
    assert facts(job_timeline(row, [failed], after(60), turns))[1:] == [
        ("turn", 0, 3, 1),
        ("calls", 3, 5, 2),
        ("queue", 5, 6, 2),
        ("attempt", 6, 7, 2),
        ("retry", 7, 12, 3),
        ("turn", 12, 20, 3),
        ("calls", 20, None, 3),
    ]
    assert facts(current_waits(replace(row, updated_at=after(20)), after(30))) == [("calls", 20, 30, 3)]
