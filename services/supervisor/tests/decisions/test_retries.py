"""What policies and handlers choose: curves, names, ages, snoozes, withdrawals, timeouts, poison."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from services.supervisor.tests.stage import (
    BOOM,
    JOB,
    NOW,
    STARTED,
    attempt_of,
    cancel,
    dead_letter_of,
    error_of,
    failed,
    ignored,
    judged,
    lost,
    make,
    overdue,
    progressed,
    released,
    snoozed,
    started,
    stopped,
    succeeded,
    timed_out,
    withdrawn,
)
from tests import store_rows

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
        again = judged(row, failed()).row
        due_at = NOW + timedelta(seconds=wait)
        by_delay_queue = wait <= 3600
        assert again.due_at == due_at
        assert again.wake_at == due_at + (Timings().delay_grace if by_delay_queue else timedelta(0))


def test_an_error_that_no_retry_names_is_death_and_is_explained() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy(no_retry_on=("OSError",)))
    decision = judged(row, failed(error=raised("ConnectionResetError", "ConnectionError", "OSError")))
    assert decision.row.state is JobState.DEAD
    assert dead_letter_of(decision).reason == "ConnectionResetError is never retried (no_retry_on)"


def test_names_decide_what_is_tried_again_and_a_handlers_request_counts_before_them() -> None:
    def judged_by(policy: JobPolicy, error: ErrorInfo, **more: Any) -> JobRow:
        return judged(make(JobState.RUNNING, policy=policy), failed(error=error, **more)).row

    named = JobPolicy(retry_on=("requests.*",))
    assert judged_by(named, raised("requests.Timeout")).state is JobState.RETRYING
    assert judged_by(named, raised("KeyError")).state is JobState.DEAD
    contrary = JobPolicy(retry_on=("requests.*",), no_retry_on=("*",))
    again = judged_by(contrary, raised("warrener_agent.failures.RetryAfter"), retry_after_seconds=30)
    assert again.due_at == NOW + timedelta(seconds=30)
    error = raised("app.Closed", retryable=False, no_retry_by_policy=True)
    assert judged_by(JobPolicy(), error).state is JobState.RETRYING, "its job type would not"
    assert judged_by(JobPolicy(), raised("Fail", retryable=False)).state is JobState.DEAD


@pytest.mark.parametrize("word", [failed(), lost(), snoozed(seconds=1)])
def test_no_attempt_begins_past_the_greatest_age(word: Event[Any]) -> None:
    """The job was accepted two minutes ago; the next attempt would begin in a second."""
    young = JobPolicy(max_age=timedelta(minutes=2, seconds=1), backoff=Backoff.fixed(1))
    assert judged(make(JobState.RUNNING, policy=young, losses=1), word).row.state is JobState.RETRYING
    old = JobPolicy(max_age=timedelta(minutes=2), backoff=Backoff.fixed(1))
    decision = judged(make(JobState.RUNNING, policy=old, losses=1), word)
    assert decision.row.state is JobState.DEAD
    assert "past its greatest age" in dead_letter_of(decision).reason
    assert decision.row.error is not None, "the world is told what went wrong"


def test_what_its_agent_gives_back_is_not_too_old() -> None:
    row = make(JobState.RUNNING, policy=JobPolicy(max_age=timedelta(seconds=1)))
    assert judged(row, released()).row.state is JobState.RETRYING


def test_a_snooze_is_not_charged_and_comes_again_under_the_next_number() -> None:
    decision = judged(make(JobState.RUNNING, attempt=3, failures=2), snoozed(3, seconds=90))
    row = decision.row
    assert (row.state, row.attempt, row.failures, row.error) == (JobState.RETRYING, 4, 2, None)
    assert row.due_at == NOW + timedelta(seconds=90)
    assert decision.notifications == {Notification.DISPATCH}, (
        "the world hears of no retry: nothing went wrong"
    )
    assert (attempt_of(decision).outcome, attempt_of(decision).error) == (AttemptOutcome.SNOOZED, None)
    assert attempt_of(decision).verdict.endswith(": not there yet")


def test_a_snooze_waits_in_the_store_or_at_least_as_long_as_the_shortest_delay_level() -> None:
    row = judged(make(JobState.RUNNING), snoozed(seconds=86_400)).row
    assert row.wake_at == row.due_at == NOW + timedelta(days=1)
    assert judged(make(JobState.RUNNING), snoozed(seconds=0)).row.due_at == NOW + timedelta(seconds=1)


def test_who_snoozes_for_ever_is_charged_and_dies() -> None:
    policy = JobPolicy(max_attempts=2, max_snoozes=3)
    row = make(JobState.QUEUED, policy=policy)
    ends: list[tuple[JobState, int]] = []
    while not row.state.terminal:
        row = judged(row, snoozed(row.attempt)).row
        ends.append((row.state, row.failures))
    again = JobState.RETRYING
    assert ends == [(again, 0), (again, 0), (again, 0), (again, 1), (JobState.DEAD, 2)]
    assert row.error is not None
    assert "it has snoozed 3 times; not there yet" in row.error.message


def test_a_job_ends_cancelled_at_its_own_request() -> None:
    decision = judged(make(JobState.RUNNING), withdrawn())
    assert (decision.row.state, decision.row.failures) == (JobState.CANCELLED, 0)
    assert decision.row.cancel_reason == "by its handler: sold out"
    assert attempt_of(decision).outcome is AttemptOutcome.CANCELLED
    assert attempt_of(decision).verdict == "cancelled: by its handler: sold out"
    assert decision.notifications == {Notification.FINISHED}
    before = make(JobState.RUNNING, cancel_reason="no need")
    assert judged(before, withdrawn()).row.cancel_reason == "no need", "who requested it first is named"


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
    again = due_again(held.row, NOW + RECHECK_INTERVAL).row
    assert (again.state, again.wake_at) == (JobState.RETRYING, NOW + 2 * RECHECK_INTERVAL), "nobody chose it"


def test_11_a_delay_that_the_handler_requests_applies_when_its_failure_is_not_charged() -> None:
    context = JudgeContext(NOW, Timings(), holding=OpenBreakers([OPEN]))
    decision = judged(make(JobState.RUNNING, policy=POLICY), failed(retry_after_seconds=120), context)
    due = NOW + timedelta(minutes=2)
    assert (decision.row.failures, decision.row.due_at, decision.row.wake_at) == (0, due, due)
    held_back = "not charged, held back: dependency:billing-api is open"
    assert attempt_of(decision).verdict == f"{held_back}; retry at {due.isoformat()}"


async def snoozing_after(*ends: AttemptOutcome) -> JobTransition:
    """What is judged of a job that snoozes after its attempts have ended so."""
    store = MemoryStore()
    row = make(JobState.QUEUED, policy=POLICY)
    await store.insert_jobs([row])
    for number, end in enumerate(ends, start=1):
        ended = store_rows.attempt_of(row, end)
        row = replace(row, version=row.version + 1, attempt=number + 1)
        await store.save_jobs([Save(row, ended)])
    case = JudgedEvent(snoozed(row.attempt), 0.5)
    counts = await status_consumer.count_snoozes(store, {JOB: row}, {JOB: [case]})
    return judged(row, case.event, JudgeContext(NOW, Timings(), snoozes=counts))


async def test_11_attempts_that_were_held_back_are_no_snoozes() -> None:
    given_back = await snoozing_after(*[AttemptOutcome.RELEASED] * 5, AttemptOutcome.SNOOZED)
    assert (given_back.verdict, given_back.row.failures) == ("snoozed", 0)
    assert (await snoozing_after(*[AttemptOutcome.SNOOZED] * 2)).row.failures == 1


SHORT = JobPolicy(timeout=timedelta(seconds=5), max_attempts=2, backoff=Backoff.fixed(1, jitter=0))
IT_ENDED = [
    pytest.param(stopped(), "agent-1 has stopped it", id="stopped by its agent"),
    pytest.param(lost(), "agent-1 has not named it since", id="named no more"),
]


def running(**changes: Any) -> JobRow:
    """It began 40 seconds ago."""
    return make(JobState.RUNNING, **{"policy": SHORT, **changes})


def test_its_agent_is_ordered_to_stop_it_and_nothing_else_begins() -> None:
    decision = judged(running(), timed_out())
    assert (decision.row.state, decision.row.attempt, decision.row.failures) == (JobState.RUNNING, 1, 0)
    assert decision.row.wake_at == NOW + Timings().claim, "if it is not heard, the watchdog says it again"
    assert decision.notifications == {Notification.CANCEL}
    assert decision.attempt is None
    assert judged(decision.row, succeeded(result=7)).row.result == 7, "a result that comes late counts"
    ignored(running(started_at=NOW - timedelta(seconds=4)), timed_out())  # its new owner has it all


@pytest.mark.parametrize(("word", "how"), IT_ENDED)
def test_when_it_is_dead_it_is_charged_as_a_timeout(word: Event[Any], how: str) -> None:
    decision = judged(running(), word)
    row, record = decision.row, decision.attempt
    assert (row.state, row.attempt, row.failures, row.losses) == (JobState.RETRYING, 2, 1, 0)
    assert record is not None
    assert record.outcome is AttemptOutcome.TIMED_OUT
    assert record.error is not None
    assert record.error.message.startswith("it ran for more than 5 s; ")
    assert how in record.error.message


@pytest.mark.parametrize(("word", "how"), IT_ENDED)
def test_policy_decides_whether_it_is_tried_again(word: Event[Any], how: str) -> None:
    never, old = {"no_retry_on": ("timeout",)}, {"max_age": timedelta(minutes=2)}
    policies: list[dict[str, Any]] = [{"policy": SHORT.model_copy(update=change)} for change in (never, old)]
    dying: list[dict[str, Any]] = [{"failures": 1}, *policies]
    for dies in dying:
        assert judged(running(**dies), word).row.state is JobState.DEAD, dies
    assert judged(running(cancel_reason="no need"), word).row.state is JobState.CANCELLED


def test_an_agent_that_went_silent_before_the_time_was_over_was_lost_however_late_it_is_noticed() -> None:
    """The power was away for a quarter of an hour: supervisor and agents come back together."""
    began = NOW - timedelta(minutes=15)
    row = running(started_at=began, failures=1)
    word = lost()
    silent = began + timedelta(seconds=2)
    word = word.model_copy(update={"data": word.data.model_copy(update={"last_seen_at": silent})})
    decision = judged(row, word)
    assert (decision.row.state, decision.row.failures, decision.row.losses) == (JobState.RETRYING, 1, 1)
    assert attempt_of(decision).outcome is AttemptOutcome.LOST


DIED = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="agent agent-1 has died, or was cut off")
CRASH = ErrorInfo(kind=ErrorKind.CRASH, type="SIGSEGV", message="it was killed by signal 11")


def crashed(attempt: int) -> Event[Any]:
    return failed(attempt, CRASH)


def begun_by(*agents: int) -> list[Event[Any]]:
    """One agent after another begins the attempt."""
    return [started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in agents]


def through(row: JobRow, *events: Event[Any]) -> JobTransition:
    """What the last of these events does to the job."""
    for event in events[:-1]:
        row = judged(row, event).row
    return judged(row, events[-1])


def test_crashes_and_lost_agents_are_counted_together_and_each_is_named() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_crashes=3))
    decision = through(row, crashed(1), lost(2), crashed(3))
    assert decision.row.state is JobState.DEAD
    assert (decision.row.failures, decision.row.losses) == (2, 1)
    assert dead_letter_of(decision).reason == "quarantined as poison: 3 attempts ended with their process"
    error = dead_letter_of(decision).error
    assert error is not None
    first, second, third = error.crashes
    assert first.startswith("attempt 1: SIGSEGV")
    assert second.startswith("attempt 2: lost: agent agent-1")
    assert third.startswith("attempt 3: SIGSEGV")
    assert attempt_of(decision).verdict == f"dead: {dead_letter_of(decision).reason}"


@pytest.mark.parametrize("between", [failed, snoozed, stopped])
def test_what_goes_wrong_in_between_does_not_make_the_deaths_forgotten(
    between: Callable[[int], Event[Any]],
) -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_crashes=2))
    decision = through(row, crashed(1), between(2), crashed(3))
    assert decision.row.state is JobState.DEAD
    assert [death.partition(":")[0] for death in error_of(decision).crashes] == ["attempt 1", "attempt 3"]


@pytest.mark.parametrize("word", [stopped(), lost()])
def test_a_timeout_in_between_does_not_either(word: Event[Any]) -> None:
    died = CRASH.model_copy(update={"crashes": ("attempt 1: SIGSEGV",)})
    policy = JobPolicy(timeout=timedelta(seconds=5), max_attempts=10)
    decision = through(make(JobState.RUNNING, error=died, policy=policy), word)
    assert (error_of(decision).kind, error_of(decision).crashes) == (ErrorKind.TIMEOUT, died.crashes)


def test_an_agent_cannot_set_how_often_a_job_has_died() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_crashes=2))
    lie = BOOM.model_copy(update={"crashes": ("a", "b", "c")})
    decision = through(row, failed(1, lie))
    assert decision.row.state is JobState.RETRYING
    assert error_of(decision).crashes == ()


def test_how_many_deaths_are_too_many() -> None:
    assert JobPolicy().quarantine_threshold == JobPolicy(max_lost_attempts=0).quarantine_threshold == 4
    assert JobPolicy(max_lost_attempts=10).quarantine_threshold == 11
    assert JobPolicy(max_lost_attempts=10, max_crashes=2).quarantine_threshold == 2


def test_a_job_of_which_agents_were_lost_once_too_often_dies_of_that() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_lost_attempts=1))
    decision = through(row, lost(1), lost(2))
    assert dead_letter_of(decision).reason == "lost with its agent 2 times"


def test_an_attempt_that_one_agent_after_another_has_begun_has_killed_all_but_the_last() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_crashes=2))
    begun = begun_by(1, 2, 3)
    decision = through(row, *begun[:2])
    assert decision.row.state is JobState.RUNNING
    assert decision.row.agent_id == "agent-2"
    decision = through(decision.row, begun[1])
    assert len(error_of(decision).crashes) == 1, "told twice, it is still one life"
    decision = through(decision.row, begun[2])
    assert decision.row.state is JobState.DEAD
    assert Notification.CANCEL in decision.notifications, "the third one is told to stop"
    for death, number in zip(error_of(decision).crashes, (1, 2), strict=True):
        assert death.startswith(f"attempt 1: lost: agent agent-{number} has died")


def test_of_many_deaths_the_first_and_the_last_are_named_and_all_are_counted() -> None:
    policy = JobPolicy(max_attempts=1000, max_crashes=100)
    row = make(JobState.QUEUED, attempt=1, policy=policy)
    decision = through(row, *map(crashed, range(1, 100)))
    assert decision.row.state is JobState.RETRYING
    decision = through(decision.row, failed(100), crashed(101))
    assert decision.row.state is JobState.DEAD
    named = [death.partition(":")[0] for death in error_of(decision).crashes]
    assert named == [f"attempt {n}" for n in (1, 2, 3, 4, 5, 96, 97, 98, 99, 101)]
    assert error_of(decision).crashes_omitted == 90
    assert dead_letter_of(decision).reason.startswith("quarantined as poison: 100 attempts ended")


def test_a_late_event_of_a_dead_job_or_a_cancel_stops_its_agent_and_does_not_publish_its_death_again() -> (
    None
):
    row = make(JobState.DEAD, started_at=STARTED, agent_id="agent-1")
    never_started = replace(row, started_at=None, agent_id=None)
    for dead, late in ((row, started()), (row, progressed()), (never_started, started()), (row, cancel())):
        assert ignored(dead, late).notifications == {Notification.CANCEL}


def test_a_loss_that_an_agent_reports_counts_as_one_and_its_end_reaches_every_ledger() -> None:
    """The claim named a process that had died; nobody has acknowledged its dispatch."""
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=1, max_crashes=2))
    again = judged(row, failed(1, error=DIED))
    assert (again.row.state, again.row.failures, again.row.losses) == (JobState.RETRYING, 0, 1)
    dead = judged(again.row, failed(2, error=DIED))
    assert (dead.row.state, dead.row.losses) == (JobState.DEAD, 2)
    assert Notification.CANCEL in dead.notifications
    why = "quarantined as poison: 2 attempts ended with their process"
    assert dead_letter_of(dead).reason.startswith(why)


def test_a_loss_that_an_agent_reports_is_recorded_of_the_one_that_ran_it() -> None:
    row = make(JobState.RUNNING)
    lost = judged(row, failed(error=DIED, agent="agent-2", at=NOW))
    assert (attempt_of(lost).agent_id, attempt_of(lost).started_at) == ("agent-1", row.started_at)
    assert attempt_of(lost).finished_at == NOW


def test_the_event_that_has_ended_a_job_publishes_its_death_again() -> None:
    """Whoever saved it may have died before saying so."""
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_crashes=1))
    one, other = begun_by(1, 2)
    dead = through(row, one, other).row
    assert dead.state is JobState.DEAD
    all_of_it = {Notification.DEAD, Notification.FINISHED, Notification.CANCEL}
    assert ignored(dead, other).notifications == all_of_it
    assert ignored(dead, one).notifications == {Notification.CANCEL}, "one that came before"


def test_what_somebody_has_cancelled_is_not_buried_as_poison_but_stopped() -> None:
    policy = JobPolicy(max_crashes=1)
    row = make(JobState.QUEUED, attempt=1, policy=policy)
    one, other = begun_by(1, 2)
    decision = through(row, one, cancel(), other)
    assert (decision.row.state, decision.row.agent_id) == (JobState.RUNNING, "agent-2")
    assert decision.notifications == {Notification.CANCEL}


@pytest.mark.parametrize(("first", "crashes"), [(-29, 1), (1, 0)], ids=["another life", "a clock ahead"])
def test_an_agent_that_was_started_again_is_another_life_and_a_clock_ahead_proves_nothing(
    first: int, crashes: int
) -> None:
    lives = [started(1, at=NOW + timedelta(seconds=first + n)) for n in (0, 1)]
    decision = through(make(JobState.QUEUED, attempt=1), *lives)
    assert decision.row.state is JobState.RUNNING
    assert len(decision.row.error.crashes if decision.row.error else ()) == crashes
