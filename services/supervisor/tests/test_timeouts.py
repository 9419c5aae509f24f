"""An attempt that runs too long is stopped before it is called timed out."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from services.supervisor.tests import words
from services.supervisor.tests.words import NOW, make

from warrener_contracts.events import Event
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.states import JobState
from warrener_store.rows import AttemptEnd, JobRow
from warrener_supervisor.judgement import judge
from warrener_supervisor.moment import Moment
from warrener_supervisor.rules import Rules
from warrener_supervisor.verdicts import Ignored, Judgement, Tell

AT = Moment(NOW, Rules(), 0.5)
SHORT = JobPolicy(timeout=timedelta(seconds=5), max_attempts=2, backoff=Backoff.fixed(1, jitter=0))
IT_ENDED = [
    pytest.param(words.stopped(), "agent-1 has stopped it", id="stopped by its agent"),
    pytest.param(words.lost(), "agent-1 has not named it since", id="named no more"),
]


def judged(row: JobRow, word: Event[Any]) -> Judgement:
    ruling = judge(row, word, AT)
    assert isinstance(ruling, Judgement), ruling
    return ruling


def running(**changes: Any) -> JobRow:
    """It began 40 seconds ago."""
    return make(JobState.RUNNING, **{"policy": SHORT, **changes})


def test_its_agent_is_told_to_stop_it_and_nothing_else_begins() -> None:
    ruling = judged(running(), words.timed_out())
    assert (ruling.row.state, ruling.row.attempt, ruling.row.failures) == (JobState.RUNNING, 1, 0)
    assert ruling.row.wake_at == NOW + Rules().claim, "if it is not heard, the watchdog says it again"
    assert ruling.tells == {Tell.CANCEL}
    assert ruling.attempt is None


@pytest.mark.parametrize(("word", "how"), IT_ENDED)
def test_when_it_is_dead_it_is_charged_as_a_timeout(word: Event[Any], how: str) -> None:
    ruling = judged(running(), word)
    row, record = ruling.row, ruling.attempt
    assert (row.state, row.attempt, row.failures, row.losses) == (JobState.RETRYING, 2, 1, 0)
    assert record is not None
    assert record.end is AttemptEnd.TIMED_OUT
    assert record.error is not None
    assert record.error.message.startswith("it ran for more than 5 s; ")
    assert how in record.error.message


@pytest.mark.parametrize(("word", "how"), IT_ENDED)
def test_policy_says_whether_it_is_tried_again(word: Event[Any], how: str) -> None:
    used_up = judged(running(failures=1), word)
    assert used_up.row.state is JobState.DEAD
    never = judged(running(policy=replace_policy(no_retry=("timeout",))), word)
    assert never.row.state is JobState.DEAD
    old = judged(running(policy=replace_policy(max_age=timedelta(minutes=2))), word)
    assert old.row.state is JobState.DEAD
    cancelled = judged(running(cancel_reason="no need"), word)
    assert cancelled.row.state is JobState.CANCELLED


def test_who_took_it_over_has_the_whole_time() -> None:
    row = replace(running(), started_at=NOW - timedelta(seconds=4))
    assert isinstance(judge(row, words.timed_out(), AT), Ignored)


def test_an_agent_that_fell_silent_before_the_time_was_over_was_lost_however_late_it_is_noticed() -> None:
    """The power was away for a quarter of an hour: supervisor and agents come back together."""
    began = NOW - timedelta(minutes=15)
    row = running(started_at=began, failures=1)
    word = words.lost()
    silent = began + timedelta(seconds=2)
    word = word.model_copy(update={"data": word.data.model_copy(update={"last_seen_at": silent})})
    ruling = judged(row, word)
    assert (ruling.row.state, ruling.row.failures, ruling.row.losses) == (JobState.RETRYING, 1, 1)
    assert ruling.attempt is not None
    assert ruling.attempt.end is AttemptEnd.LOST


def test_a_result_that_comes_late_counts() -> None:
    assert judged(running(), words.succeeded(result=7)).row.result == 7


def replace_policy(**changes: Any) -> JobPolicy:
    return SHORT.model_copy(update=changes)
