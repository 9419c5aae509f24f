"""What policies and handlers choose: curves, names of errors, ages, snoozes, withdrawals."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import JOB, NOW, failed, judged, make, overdue, snoozed
from tests.store_rows import attempt_of

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import ErrorInfo, ErrorKind, Event
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import RECHECK_INTERVAL, OpenBreakers
from warrener_store.jobs.rows import AttemptOutcome, JobRow, Save
from warrener_store.memory import MemoryStore
from warrener_supervisor import status_consumer
from warrener_supervisor.breakers import state_machine
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification, Timings
from warrener_supervisor.decisions.judge import JudgedEvent


def raised(name: str, *bases: str, **more: Any) -> ErrorInfo:
    return ErrorInfo(kind=ErrorKind.ERROR, type=name, message="", base_classes=bases, **more)


# -- curves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff.fixed("30s"), [30, 30, 30]),
        (Backoff.linear("10s", limit="25s"), [10, 20, 25]),
        (Backoff.exponential("2s", factor=10, limit="1m"), [2, 20, 60]),
        (Backoff.listed("1s", "10m", "6h"), [1, 600, 21600]),
    ],
    ids=["fixed", "linear", "exponential", "listed"],
)
def test_each_failure_waits_by_the_curve_of_the_policy(backoff: Backoff, waits: list[float]) -> None:
    for failures, wait in enumerate(waits):
        row = make(JobState.RUNNING, failures=failures, policy=JobPolicy(backoff=backoff))
        again = judged(row, event_factory.failed()).row
        due_at = NOW + timedelta(seconds=wait)
        by_delay_queue = wait <= 3600
        assert again.due_at == due_at
        assert again.wake_at == due_at + (Timings().delay_grace if by_delay_queue else timedelta(0))


# -- names -------------------------------------------------------------------------------------------------


def test_an_error_that_no_retry_names_is_death_and_is_explained() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy(no_retry_on=("OSError",)))
    decision = judged(
        row, event_factory.failed(error=raised("ConnectionResetError", "ConnectionError", "OSError"))
    )
    assert decision.row.state is JobState.DEAD
    assert decision.dead_letter is not None
    assert decision.dead_letter.reason == "ConnectionResetError is never retried (no_retry_on)"


def test_only_what_retry_on_names_is_tried_again() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy(retry_on=("requests.*",)))
    assert judged(row, event_factory.failed(error=raised("requests.Timeout"))).row.state is JobState.RETRYING
    assert judged(row, event_factory.failed(error=raised("KeyError"))).row.state is JobState.DEAD


def test_a_handlers_request_to_be_tried_again_counts_before_the_names() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy(retry_on=("requests.*",), no_retry_on=("*",)))
    failure = event_factory.failed(error=raised("warrener_agent.failures.RetryAfter"), retry_after_seconds=30)
    assert judged(row, failure).row.due_at == NOW + timedelta(seconds=30)


def test_a_request_may_try_again_what_its_job_type_would_not() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy())
    error = raised("app.Closed", retryable=False, no_retry_by_policy=True)
    assert judged(row, event_factory.failed(error=error)).row.state is JobState.RETRYING
    assert judged(row, event_factory.failed(error=raised("Fail", retryable=False))).row.state is JobState.DEAD


# -- age ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", [event_factory.failed(), event_factory.lost(), event_factory.snoozed(seconds=1)]
)
def test_no_attempt_begins_past_the_greatest_age(word: Event[Any]) -> None:
    """The job was accepted two minutes ago; the next attempt would begin in a second."""
    young = JobPolicy(max_age=timedelta(minutes=2, seconds=1), backoff=Backoff.fixed(1))
    assert judged(make(JobState.RUNNING, policy=young, losses=1), word).row.state is JobState.RETRYING
    old = JobPolicy(max_age=timedelta(minutes=2), backoff=Backoff.fixed(1))
    decision = judged(make(JobState.RUNNING, policy=old, losses=1), word)
    assert decision.row.state is JobState.DEAD
    assert decision.dead_letter is not None
    assert "past its greatest age" in decision.dead_letter.reason
    assert decision.row.error is not None, "the world is told what went wrong"


def test_what_its_agent_gives_back_is_not_too_old() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy(max_age=timedelta(seconds=1)))
    assert judged(row, event_factory.released()).row.state is JobState.RETRYING


# -- snoozes -----------------------------------------------------------------------------------------------


def test_a_snooze_is_not_charged_and_comes_again_under_the_next_number() -> None:
    decision = judged(make(JobState.RUNNING, attempt=3, failures=2), event_factory.snoozed(3, seconds=90))
    row = decision.row
    assert (row.state, row.attempt, row.failures, row.error) == (JobState.RETRYING, 4, 2, None)
    assert row.due_at == NOW + timedelta(seconds=90)
    assert decision.notifications == {Notification.DISPATCH}, (
        "the world hears of no retry: nothing went wrong"
    )
    assert decision.attempt is not None
    assert (decision.attempt.outcome, decision.attempt.error) == (AttemptOutcome.SNOOZED, None)
    assert decision.attempt.verdict.endswith(": not there yet")


def test_a_snooze_longer_than_the_delay_queues_waits_in_the_store() -> None:
    row = judged(make(JobState.RUNNING), event_factory.snoozed(seconds=86_400)).row
    assert row.wake_at == row.due_at == NOW + timedelta(days=1)


def test_a_snooze_of_no_time_waits_as_long_as_the_shortest_delay_level() -> None:
    assert judged(make(JobState.RUNNING), event_factory.snoozed(seconds=0)).row.due_at == NOW + timedelta(
        seconds=1
    )


def test_who_snoozes_for_ever_is_charged_and_dies() -> None:
    policy = JobPolicy(max_attempts=2, max_snoozes=3)
    row = make(JobState.QUEUED, policy=policy)
    ends: list[tuple[JobState, int]] = []
    while not row.state.terminal:
        row = judged(row, event_factory.snoozed(row.attempt)).row
        ends.append((row.state, row.failures))
    again = JobState.RETRYING
    assert ends == [(again, 0), (again, 0), (again, 0), (again, 1), (JobState.DEAD, 2)]
    assert row.error is not None
    assert "it has snoozed 3 times; not there yet" in row.error.message


def test_what_is_snoozed_and_requested_to_be_cancelled_is_cancelled() -> None:
    snoozing = judged(make(JobState.RUNNING), event_factory.snoozed()).row
    assert judged(snoozing, event_factory.cancel()).row.state is JobState.CANCELLED


# -- withdrawals -------------------------------------------------------------------------------------------


def test_a_job_ends_cancelled_at_its_own_request() -> None:
    decision = judged(make(JobState.RUNNING), event_factory.withdrawn())
    assert (decision.row.state, decision.row.failures) == (JobState.CANCELLED, 0)
    assert decision.row.cancel_reason == "by its handler: sold out"
    assert decision.attempt is not None
    assert decision.attempt.outcome is AttemptOutcome.CANCELLED
    assert decision.attempt.verdict == "cancelled: by its handler: sold out"
    assert decision.notifications == {Notification.FINISHED}


def test_who_requested_first_is_named() -> None:
    row = make(JobState.RUNNING, cancel_reason="no need")
    assert judged(row, event_factory.withdrawn()).row.cancel_reason == "no need"


OPEN = state_machine.open_breaker(None, "dependency:billing-api", BreakerPolicy(), "too much fails", NOW)
HALF_OPEN = replace(OPEN, state=BreakerState.HALF_OPEN)
POLICY = JobPolicy(depends_on=("billing-api",), max_attempts=2, max_snoozes=2)


def due_again(row: JobRow, now: datetime) -> JobTransition:
    context = JudgeContext(now, Timings(), holding=OpenBreakers([HALF_OPEN]))
    return judged(row, overdue(row.attempt), context)


def test_11_a_retry_that_falls_due_while_probes_are_out_waits_until_it_is_chosen_as_one() -> None:
    held = due_again(make(JobState.RETRYING, policy=POLICY), NOW)
    assert (held.row.state, held.row.wake_at) == (JobState.RETRYING, NOW + RECHECK_INTERVAL)
    assert held.verdict == "held back: dependency:billing-api is half_open"
    minute = NOW + timedelta(minutes=1)
    assert due_again(replace(held.row, wake_at=minute), minute).row.state is JobState.QUEUED, "a probe"


def test_11_what_nobody_has_chosen_for_a_long_time_goes_on_waiting() -> None:
    held = due_again(make(JobState.RETRYING, policy=POLICY), NOW).row
    again = due_again(held, NOW + RECHECK_INTERVAL).row
    assert (again.state, again.wake_at) == (JobState.RETRYING, NOW + 2 * RECHECK_INTERVAL)


def test_11_a_delay_that_the_handler_requests_applies_when_its_failure_is_not_charged() -> None:
    context = JudgeContext(NOW, Timings(), holding=OpenBreakers([OPEN]))
    decision = judged(make(JobState.RUNNING, policy=POLICY), failed(retry_after_seconds=120), context)
    due = NOW + timedelta(minutes=2)
    assert (decision.row.failures, decision.row.due_at, decision.row.wake_at) == (0, due, due)
    assert decision.attempt is not None
    held_back = "not charged, held back: dependency:billing-api is open"
    assert decision.attempt.verdict == f"{held_back}; retry at {due.isoformat()}"


async def snoozing_after(*ends: AttemptOutcome) -> JobTransition:
    """What is judged of a job that snoozes after its attempts have ended so."""
    store = MemoryStore()
    row = make(JobState.QUEUED, policy=POLICY)
    await store.insert_jobs([row])
    for number, end in enumerate(ends, start=1):
        ended = attempt_of(row, end)
        row = replace(row, version=row.version + 1, attempt=number + 1)
        await store.save_jobs([Save(row, ended)])
    case = JudgedEvent(snoozed(row.attempt), 0.5)
    counts = await status_consumer.count_snoozes(store, {JOB: row}, {JOB: [case]})
    return judged(row, case.event, JudgeContext(NOW, Timings(), snoozes=counts))


async def test_11_attempts_that_were_held_back_are_no_snoozes() -> None:
    given_back = await snoozing_after(*[AttemptOutcome.RELEASED] * 5, AttemptOutcome.SNOOZED)
    assert (given_back.verdict, given_back.row.failures) == ("snoozed", 0)
    assert (await snoozing_after(*[AttemptOutcome.SNOOZED] * 2)).row.failures == 1
