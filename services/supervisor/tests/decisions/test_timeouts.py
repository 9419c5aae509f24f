"""An attempt that runs too long is stopped before it is called timed out."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from services.supervisor.tests import event_factory
from services.supervisor.tests.event_factory import AT, NOW, judged, make

from warrener_contracts.events import Event
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import AttemptOutcome, JobRow
from warrener_supervisor.decisions.context import NoChange, Notification, Timings
from warrener_supervisor.decisions.judge import judge

SHORT = JobPolicy(timeout=timedelta(seconds=5), max_attempts=2, backoff=Backoff.fixed(1, jitter=0))
IT_ENDED = [
    pytest.param(event_factory.stopped(), "agent-1 has stopped it", id="stopped by its agent"),
    pytest.param(event_factory.lost(), "agent-1 has not named it since", id="named no more"),
]


def running(**changes: Any) -> JobRow:
    """It began 40 seconds ago."""
    return make(JobState.RUNNING, **{"policy": SHORT, **changes})


def test_its_agent_is_ordered_to_stop_it_and_nothing_else_begins() -> None:
    decision = judged(running(), event_factory.timed_out())
    assert (decision.row.state, decision.row.attempt, decision.row.failures) == (JobState.RUNNING, 1, 0)
    assert decision.row.wake_at == NOW + Timings().claim, "if it is not heard, the watchdog says it again"
    assert decision.notifications == {Notification.CANCEL}
    assert decision.attempt is None


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
    used_up = judged(running(failures=1), word)
    assert used_up.row.state is JobState.DEAD
    never = judged(running(policy=replace_policy(no_retry_on=("timeout",))), word)
    assert never.row.state is JobState.DEAD
    old = judged(running(policy=replace_policy(max_age=timedelta(minutes=2))), word)
    assert old.row.state is JobState.DEAD
    cancelled = judged(running(cancel_reason="no need"), word)
    assert cancelled.row.state is JobState.CANCELLED


def test_who_took_it_over_has_the_whole_time() -> None:
    row = replace(running(), started_at=NOW - timedelta(seconds=4))
    assert isinstance(judge(row, event_factory.timed_out(), AT), NoChange)


def test_an_agent_that_went_silent_before_the_time_was_over_was_lost_however_late_it_is_noticed() -> None:
    """The power was away for a quarter of an hour: supervisor and agents come back together."""
    began = NOW - timedelta(minutes=15)
    row = running(started_at=began, failures=1)
    word = event_factory.lost()
    silent = began + timedelta(seconds=2)
    word = word.model_copy(update={"data": word.data.model_copy(update={"last_seen_at": silent})})
    decision = judged(row, word)
    assert (decision.row.state, decision.row.failures, decision.row.losses) == (JobState.RETRYING, 1, 1)
    assert decision.attempt is not None
    assert decision.attempt.outcome is AttemptOutcome.LOST


def test_a_result_that_comes_late_counts() -> None:
    assert judged(running(), event_factory.succeeded(result=7)).row.result == 7


def replace_policy(**changes: Any) -> JobPolicy:
    return SHORT.model_copy(update=changes)
