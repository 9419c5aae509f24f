"""How breakers turn, what counts for them, and what they do to the judgement of a retry."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.supervisor.tests.stage import BOOM, NOW, attempt_of, failed, judged, make, overdue, released

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import BreakerSetRequestedData, ErrorInfo, ErrorKind, Event
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import RECHECK_INTERVAL, BreakerRow, OpenBreakers
from warrener_supervisor.breakers import state_machine
from warrener_supervisor.breakers.state_machine import AttemptCounts, Window
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Timings
from warrener_supervisor.decisions.delays import is_stored_only

NAME = "dependency:billing-api"
POLICY = BreakerPolicy(failure_rate=0.5, window=timedelta(minutes=1), minimum_calls=10, half_open_calls=2)
NEEDS_IT = JobPolicy(depends_on=("billing-api",), max_attempts=2)
OPEN = state_machine.open_breaker(None, NAME, POLICY, "too much fails", NOW)
HALF_OPEN = replace(OPEN, state=BreakerState.HALF_OPEN)
OTHER = state_machine.open_breaker(None, "dependency:weather", POLICY, "too much fails", NOW)


def behind(row_state: JobState, event: Event[Any], *rows: BreakerRow) -> JobTransition:
    context = JudgeContext(NOW, Timings(), holding=OpenBreakers(rows))
    return judged(make(row_state, policy=NEEDS_IT), event, context)


class TestWindow:
    def test_it_trips_at_the_rate_once_there_are_enough_attempts_of_late(self) -> None:
        window = Window()
        window.add(AttemptCounts(successes=4, failures=5), POLICY, NOW)
        assert window.trip_reason(POLICY, NOW) is None, "nine are too few to say anything"
        window.add(AttemptCounts(successes=1), POLICY, NOW)
        assert window.trip_reason(POLICY, NOW) == "5 of 10 attempts within 60 s have failed"
        later = NOW + timedelta(seconds=61)
        window.add(AttemptCounts(successes=10), POLICY, later)
        assert window.trip_reason(POLICY, later) is None

    @given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=50))
    def test_it_never_trips_below_the_rate(self, batches: list[tuple[int, int]]) -> None:
        window = Window()
        for successes, failures in batches:
            window.add(AttemptCounts(successes, failures), POLICY, NOW)
        successes, failures = (sum(each[part] for each in batches) for part in (0, 1))
        assert (window.trip_reason(POLICY, NOW) is not None) == (
            successes + failures >= POLICY.minimum_calls
            and failures >= POLICY.failure_rate * (successes + failures)
        )


class TestTurns:
    def test_each_failed_probe_doubles_the_open_duration_up_to_its_maximum(self) -> None:
        row, open_durations = OPEN, [OPEN.until]
        for _ in range(20):
            half = state_machine.on_open_duration_over(row, row.until or NOW)
            assert half is not None
            again = state_machine.on_probe_result(half, AttemptCounts(failures=1), NOW)
            assert again is not None
            row = again
            open_durations.append(row.until)
        waits = [(until - NOW).total_seconds() for until in open_durations if until]
        assert waits[:4] == [30, 60, 120, 240]
        assert waits[-1] == POLICY.max_open_duration.total_seconds()

    def test_it_closes_once_as_many_probes_as_required_have_succeeded(self) -> None:
        one = state_machine.on_probe_result(HALF_OPEN, AttemptCounts(successes=1), NOW)
        assert one is not None
        assert one.state is BreakerState.HALF_OPEN
        both = state_machine.on_probe_result(one, AttemptCounts(successes=1), NOW)
        assert both is not None
        assert (both.state, both.times_opened, both.until) == (BreakerState.CLOSED, 0, None)

    def test_what_was_on_its_way_when_it_opened_does_not_count(self) -> None:
        assert state_machine.on_probe_result(OPEN, AttemptCounts(successes=100, failures=3), NOW) is None

    def test_one_opened_by_hand_for_ever_waits_for_a_hand(self) -> None:
        command = BreakerSetRequestedData(name=NAME, state=BreakerState.OPEN)
        row = state_machine.set_manually(None, command, POLICY, NOW)
        assert row is not None
        assert state_machine.on_open_duration_over(row, NOW + timedelta(days=400)) is None
        assert state_machine.set_manually(row, command, POLICY, NOW) is None, "a repeat changes nothing"
        closed = state_machine.set_manually(
            row, command.model_copy(update={"state": BreakerState.CLOSED}), POLICY, NOW
        )
        assert closed is not None
        assert (closed.state, closed.version) == (BreakerState.CLOSED, 2)


class TestJudgement:
    def test_a_failure_while_it_is_open_is_not_charged_and_the_job_is_put_off(self) -> None:
        decision = behind(JobState.RUNNING, failed(), OPEN)
        row = decision.row
        assert (row.state, row.failures, row.attempt) == (JobState.RETRYING, 0, 2)
        assert row.wake_at == NOW + RECHECK_INTERVAL
        assert is_stored_only(row, NOW, Timings()), "no delay queue wakes it"
        assert attempt_of(decision).verdict == f"not charged, held back: {NAME} is open"

    @pytest.mark.parametrize(
        ("event", "rows"),
        [
            (failed(), [HALF_OPEN]),  # a probe's
            (failed(), []),
            (failed(), [OTHER]),
            (failed(error=ErrorInfo(kind=ErrorKind.BAD_ARGUMENTS, type="x", message="x")), [OPEN]),
            (failed(error=ErrorInfo(kind=ErrorKind.BAD_RESULT, type="x", message="x")), [OPEN]),
        ],
    )
    def test_any_other_failure_is_charged(self, event: Event[Any], rows: list[BreakerRow]) -> None:
        assert behind(JobState.RUNNING, event, *rows).row.failures == 1

    def test_what_no_retry_can_mend_is_dead_all_the_same(self) -> None:
        final = BOOM.model_copy(update={"retryable": False})
        assert behind(JobState.RUNNING, failed(error=final), OPEN).row.state is JobState.DEAD

    def test_what_an_agent_gives_back_waits_for_the_breaker(self) -> None:
        row = behind(JobState.QUEUED, released(), OPEN).row
        assert (row.state, row.failures, row.wake_at) == (JobState.RETRYING, 0, NOW + RECHECK_INTERVAL)

    def test_a_retry_that_is_due_goes_on_unless_a_breaker_is_open(self) -> None:
        assert behind(JobState.RETRYING, overdue(), OPEN).row.wake_at == NOW + RECHECK_INTERVAL
        assert behind(JobState.RETRYING, overdue()).row.state is JobState.QUEUED

    def test_a_retry_that_is_not_due_yet_is_looked_at_when_it_is(self) -> None:
        row = behind(JobState.RUNNING, failed(), HALF_OPEN).row
        assert row.wake_at == row.due_at
        assert is_stored_only(row, NOW, Timings())
