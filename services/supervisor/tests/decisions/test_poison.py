"""A job that ends what runs it is quarantined, and each of its deaths is named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import AT, NOW, judged, make

from warrener_contracts.events import ErrorInfo, ErrorKind, Event
from warrener_contracts.policy import JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_supervisor.decisions.context import JobTransition, NoChange, Notification
from warrener_supervisor.decisions.judge import judge

CRASH = ErrorInfo(kind=ErrorKind.CRASH, type="SIGSEGV", message="it was killed by signal 11")


def crashed(attempt: int) -> Event[Any]:
    return event_factory.failed(attempt, CRASH)


def through(row: JobRow, *events: Event[Any]) -> JobTransition:
    """What the last of these events does to the job."""
    for event in events[:-1]:
        row = judged(row, event).row
    return judged(row, events[-1])


def test_crashes_and_lost_agents_are_counted_together_and_each_is_named() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_crashes=3))
    decision = through(row, crashed(1), event_factory.lost(2), crashed(3))
    assert decision.row.state is JobState.DEAD
    assert (decision.row.failures, decision.row.losses) == (2, 1)
    assert decision.dead_letter is not None
    assert decision.dead_letter.reason == "quarantined as poison: 3 attempts ended with their process"
    assert decision.dead_letter.error is not None
    first, second, third = decision.dead_letter.error.crashes
    assert first.startswith("attempt 1: SIGSEGV")
    assert second.startswith("attempt 2: lost: agent agent-1")
    assert third.startswith("attempt 3: SIGSEGV")
    assert decision.attempt is not None
    assert decision.attempt.verdict == f"dead: {decision.dead_letter.reason}"


@pytest.mark.parametrize("between", [event_factory.failed, event_factory.snoozed, event_factory.stopped])
def test_what_goes_wrong_in_between_does_not_make_the_deaths_forgotten(
    between: Callable[[int], Event[Any]],
) -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_crashes=2))
    decision = through(row, crashed(1), between(2), crashed(3))
    assert decision.row.state is JobState.DEAD
    assert decision.row.error is not None
    assert [death.partition(":")[0] for death in decision.row.error.crashes] == ["attempt 1", "attempt 3"]


@pytest.mark.parametrize("word", [event_factory.stopped(), event_factory.lost()])
def test_a_timeout_in_between_does_not_either(word: Event[Any]) -> None:
    died = CRASH.model_copy(update={"crashes": ("attempt 1: SIGSEGV",)})
    policy = JobPolicy(timeout=timedelta(seconds=5), max_attempts=10)
    decision = through(make(JobState.RUNNING, error=died, policy=policy), word)
    assert decision.row.error is not None
    assert (decision.row.error.kind, decision.row.error.crashes) == (ErrorKind.TIMEOUT, died.crashes)


def test_an_agent_cannot_set_how_often_a_job_has_died() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_crashes=2))
    lie = event_factory.BOOM.model_copy(update={"crashes": ("a", "b", "c")})
    decision = through(row, event_factory.failed(1, lie))
    assert decision.row.state is JobState.RETRYING
    assert decision.row.error is not None
    assert decision.row.error.crashes == ()


@pytest.mark.parametrize(
    ("policy", "deaths"),
    [
        (JobPolicy(), 4),
        (JobPolicy(max_lost_attempts=0), 4),
        (JobPolicy(max_lost_attempts=10), 11),
        (JobPolicy(max_lost_attempts=10, max_crashes=2), 2),
    ],
)
def test_how_many_deaths_are_too_many(policy: JobPolicy, deaths: int) -> None:
    assert policy.quarantine_threshold == deaths


def test_a_job_of_which_agents_were_lost_once_too_often_dies_of_that() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_lost_attempts=1))
    decision = through(row, event_factory.lost(1), event_factory.lost(2))
    assert decision.dead_letter is not None
    assert decision.dead_letter.reason == "lost with its agent 2 times"


def test_an_attempt_that_one_agent_after_another_has_begun_has_killed_all_but_the_last() -> None:
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_crashes=2))
    begun = [
        event_factory.started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in (1, 2, 3)
    ]
    decision = through(row, *begun[:2])
    assert decision.row.state is JobState.RUNNING
    assert decision.row.agent_id == "agent-2"
    decision = through(decision.row, begun[1])
    assert decision.row.error is not None
    assert len(decision.row.error.crashes) == 1, "told twice, it is still one life"
    decision = through(decision.row, begun[2])
    assert decision.row.state is JobState.DEAD
    assert Notification.CANCEL in decision.notifications, "the third one is told to stop"
    assert decision.row.error is not None
    for death, number in zip(decision.row.error.crashes, (1, 2), strict=True):
        assert death.startswith(f"attempt 1: lost: agent agent-{number} has died")


def test_of_many_deaths_the_first_and_the_last_are_named_and_all_are_counted() -> None:
    policy = JobPolicy(max_attempts=1000, max_crashes=100)
    row = make(JobState.QUEUED, attempt=1, policy=policy)
    decision = through(row, *map(crashed, range(1, 100)))
    assert decision.row.state is JobState.RETRYING
    decision = through(decision.row, event_factory.failed(100), crashed(101))
    assert decision.row.state is JobState.DEAD
    assert decision.row.error is not None
    named = [death.partition(":")[0] for death in decision.row.error.crashes]
    assert named == [f"attempt {n}" for n in (1, 2, 3, 4, 5, 96, 97, 98, 99, 101)]
    assert decision.row.error.crashes_omitted == 90
    assert decision.dead_letter is not None
    assert decision.dead_letter.reason.startswith("quarantined as poison: 100 attempts ended")


def test_a_late_event_of_a_dead_job_stops_its_agent_and_does_not_publish_its_death_again() -> None:
    row = make(JobState.DEAD, started_at=event_factory.STARTED, agent_id="agent-1")
    never_started = replace(row, started_at=None, agent_id=None)
    for dead, late in (
        (row, event_factory.started()),
        (row, event_factory.progressed()),
        (never_started, event_factory.started()),
    ):
        decision = judge(dead, late, AT)
        assert isinstance(decision, NoChange)
        assert decision.notifications == {Notification.CANCEL}


def test_a_loss_that_an_agent_reports_counts_as_one_and_its_end_reaches_every_ledger() -> None:
    """The claim named a process that had died; nobody has acknowledged its dispatch."""
    died = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="agent agent-1 has died, or was cut off")
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=1, max_crashes=2))
    again = judged(row, event_factory.failed(1, error=died))
    assert (again.row.state, again.row.failures, again.row.losses) == (JobState.RETRYING, 0, 1)
    dead = judged(again.row, event_factory.failed(2, error=died))
    assert (dead.row.state, dead.row.losses) == (JobState.DEAD, 2)
    assert Notification.CANCEL in dead.notifications
    assert dead.dead_letter is not None
    assert dead.dead_letter.reason.startswith("quarantined as poison: 2 attempts ended with their process")


def test_a_loss_that_an_agent_reports_is_recorded_of_the_one_that_ran_it() -> None:
    died = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="agent agent-1 has died, or was cut off")
    row = make(JobState.RUNNING)
    lost = judged(row, event_factory.failed(error=died, agent="agent-2", at=NOW))
    assert lost.attempt is not None
    assert (lost.attempt.agent_id, lost.attempt.started_at) == ("agent-1", row.started_at)
    assert lost.attempt.finished_at == NOW


def test_a_cancel_of_a_dead_job_marks_the_ledgers_again() -> None:
    decision = judge(make(JobState.DEAD), event_factory.cancel(), AT)
    assert isinstance(decision, NoChange)
    assert decision.notifications == {Notification.CANCEL}


def test_the_event_that_has_ended_a_job_publishes_its_death_again() -> None:
    """Whoever saved it may have died before saying so."""
    row = make(JobState.QUEUED, attempt=1, policy=JobPolicy(max_crashes=1))
    one, other = (
        event_factory.started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in (1, 2)
    )
    dead = through(row, one, other).row
    assert dead.state is JobState.DEAD
    again = judge(dead, other, AT)
    assert isinstance(again, NoChange)
    assert again.notifications == {Notification.DEAD, Notification.FINISHED, Notification.CANCEL}
    of_before = judge(dead, one, AT)
    assert isinstance(of_before, NoChange)
    assert of_before.notifications == {Notification.CANCEL}


def test_what_somebody_has_cancelled_is_not_buried_as_poison_but_stopped() -> None:
    policy = JobPolicy(max_crashes=1)
    row = make(JobState.QUEUED, attempt=1, policy=policy)
    one, other = (
        event_factory.started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in (1, 2)
    )
    decision = through(row, one, event_factory.cancel(), other)
    assert (decision.row.state, decision.row.agent_id) == (JobState.RUNNING, "agent-2")
    assert decision.notifications == {Notification.CANCEL}


@pytest.mark.parametrize(("first", "crashes"), [(-29, 1), (1, 0)], ids=["another life", "a clock ahead"])
def test_an_agent_that_was_started_again_is_another_life_and_a_clock_ahead_proves_nothing(
    first: int, crashes: int
) -> None:
    lives = [event_factory.started(1, at=NOW + timedelta(seconds=first + n)) for n in (0, 1)]
    decision = through(make(JobState.QUEUED, attempt=1), *lives)
    assert decision.row.state is JobState.RUNNING
    assert len(decision.row.error.crashes if decision.row.error else ()) == crashes
