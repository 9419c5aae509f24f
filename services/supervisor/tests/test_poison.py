"""A job that ends what runs it is quarantined, and each of its deaths is named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from services.supervisor.tests import words
from services.supervisor.tests.words import NOW, MakeRow

from warrener_contracts.events import ErrorInfo, ErrorKind, Event
from warrener_contracts.policy import JobPolicy
from warrener_contracts.states import JobState
from warrener_store.rows import JobRow
from warrener_supervisor.judgement import judge
from warrener_supervisor.moment import Moment
from warrener_supervisor.rules import Rules
from warrener_supervisor.verdicts import Ignored, Judgement, Tell

AT = Moment(NOW, Rules())
CRASH = ErrorInfo(kind=ErrorKind.CRASH, type="SIGSEGV", message="it was killed by signal 11")


def crashed(attempt: int) -> Event[Any]:
    return words.failed(attempt, CRASH)


def through(row: JobRow, *events: Event[Any]) -> Judgement:
    """What the last of these events does to the job."""
    ruling: Judgement | None = None
    for event in events:
        found = judge(row, event, AT)
        assert isinstance(found, Judgement), found
        ruling, row = found, found.row
    assert ruling is not None
    return ruling


def test_crashes_and_lost_agents_are_counted_together_and_each_is_named(make_row: MakeRow) -> None:
    row = make_row(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_deaths=3))
    ruling = through(row, crashed(1), words.lost(2), crashed(3))
    assert ruling.row.state is JobState.DEAD
    assert (ruling.row.failures, ruling.row.losses) == (2, 1)
    assert ruling.dead_letter is not None
    reason = ruling.dead_letter.reason
    assert reason.startswith("quarantined as poison: 3 attempts ended with their process: ")
    for named in ("attempt 1: SIGSEGV", "attempt 2: lost: agent agent-1", "attempt 3: SIGSEGV"):
        assert named in reason
    assert ruling.dead_letter.error is not None
    assert len(ruling.dead_letter.error.deaths) == 3
    assert ruling.attempt is not None
    assert ruling.attempt.verdict == f"dead: {reason}"


@pytest.mark.parametrize("between", [words.failed, words.snoozed, words.stopped])
def test_what_goes_wrong_in_between_does_not_make_the_deaths_forgotten(
    make_row: MakeRow, between: Callable[[int], Event[Any]]
) -> None:
    row = make_row(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_deaths=2))
    ruling = through(row, crashed(1), between(2), crashed(3))
    assert ruling.row.state is JobState.DEAD
    assert ruling.row.error is not None
    assert [death.partition(":")[0] for death in ruling.row.error.deaths] == ["attempt 1", "attempt 3"]


@pytest.mark.parametrize("word", [words.stopped(), words.lost()])
def test_a_timeout_in_between_does_not_either(make_row: MakeRow, word: Event[Any]) -> None:
    died = CRASH.model_copy(update={"deaths": ("attempt 1: SIGSEGV",)})
    policy = JobPolicy(timeout=timedelta(seconds=5), max_attempts=10)
    ruling = through(make_row(JobState.RUNNING, error=died, policy=policy), word)
    assert ruling.row.error is not None
    assert (ruling.row.error.kind, ruling.row.error.deaths) == (ErrorKind.TIMEOUT, died.deaths)


def test_an_agent_cannot_say_how_often_a_job_has_died(make_row: MakeRow) -> None:
    row = make_row(JobState.QUEUED, attempt=1, policy=JobPolicy(max_attempts=10, max_deaths=2))
    lie = words.BOOM.model_copy(update={"deaths": ("a", "b", "c")})
    ruling = through(row, words.failed(1, lie))
    assert ruling.row.state is JobState.RETRYING
    assert ruling.row.error is not None
    assert ruling.row.error.deaths == ()


@pytest.mark.parametrize(
    ("policy", "deaths"),
    [
        (JobPolicy(), 4),
        (JobPolicy(max_losses=0), 4),
        (JobPolicy(max_losses=10), 11),
        (JobPolicy(max_losses=10, max_deaths=2), 2),
    ],
)
def test_how_many_deaths_are_too_many(policy: JobPolicy, deaths: int) -> None:
    assert policy.quarantine_threshold == deaths


def test_a_job_of_which_agents_were_lost_once_too_often_dies_of_that(make_row: MakeRow) -> None:
    row = make_row(JobState.QUEUED, attempt=1, policy=JobPolicy(max_losses=1))
    ruling = through(row, words.lost(1), words.lost(2))
    assert ruling.dead_letter is not None
    assert ruling.dead_letter.reason == "lost with its agent 2 times"


def test_an_attempt_that_one_agent_after_another_has_begun_has_killed_all_but_the_last(
    make_row: MakeRow,
) -> None:
    row = make_row(JobState.QUEUED, attempt=1, policy=JobPolicy(max_deaths=2))
    begun = [words.started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in (1, 2, 3)]
    ruling = through(row, *begun[:2])
    assert ruling.row.state is JobState.RUNNING
    assert ruling.row.owner == "agent-2"
    ruling = through(ruling.row, begun[1])
    assert ruling.row.error is not None
    assert len(ruling.row.error.deaths) == 1, "told twice, it is still one life"
    ruling = through(ruling.row, begun[2])
    assert ruling.row.state is JobState.DEAD
    assert Tell.CANCEL in ruling.tells, "the third one is told to stop"
    assert ruling.dead_letter is not None
    assert "attempt 1: lost: agent agent-1 has died" in ruling.dead_letter.reason
    assert "attempt 1: lost: agent agent-2 has died" in ruling.dead_letter.reason


def test_of_many_deaths_the_first_and_the_last_are_named_and_all_are_counted(make_row: MakeRow) -> None:
    policy = JobPolicy(max_attempts=1000, max_deaths=100)
    row = make_row(JobState.QUEUED, attempt=1, policy=policy)
    ruling = through(row, *map(crashed, range(1, 100)))
    assert ruling.row.state is JobState.RETRYING
    ruling = through(ruling.row, words.failed(100), crashed(101))
    assert ruling.row.state is JobState.DEAD
    assert ruling.row.error is not None
    named = [death.partition(":")[0] for death in ruling.row.error.deaths]
    assert named == [f"attempt {n}" for n in (1, 2, 3, 4, 5, 96, 97, 98, 99, 101)]
    assert ruling.row.error.deaths_unnamed == 90
    assert ruling.dead_letter is not None
    assert ruling.dead_letter.reason.startswith("quarantined as poison: 100 attempts ended")
    assert "killed by signal 11; 90 more; attempt 96: SIGSEGV" in ruling.dead_letter.reason


def test_a_late_word_of_a_dead_job_is_no_reason_to_tell_of_its_death_again(make_row: MakeRow) -> None:
    row = make_row(JobState.DEAD, started_at=words.STARTED, owner="agent-1")
    not_heard_of = replace(row, started_at=None, owner=None)
    for dead, late in ((row, words.started()), (row, words.progressed()), (not_heard_of, words.started())):
        ruling = judge(dead, late, AT)
        assert isinstance(ruling, Ignored)
        assert not ruling.tells


def test_the_word_that_has_ended_a_job_tells_of_its_death_again(make_row: MakeRow) -> None:
    """Whoever saved it may have died before saying so."""
    row = make_row(JobState.QUEUED, attempt=1, policy=JobPolicy(max_deaths=1))
    one, other = (words.started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in (1, 2))
    dead = through(row, one, other).row
    assert dead.state is JobState.DEAD
    again = judge(dead, other, AT)
    assert isinstance(again, Ignored)
    assert again.tells == {Tell.DEAD, Tell.FINISHED, Tell.CANCEL}
    of_before = judge(dead, one, AT)
    assert isinstance(of_before, Ignored)
    assert not of_before.tells


def test_what_somebody_has_cancelled_is_not_buried_as_poison_but_stopped(make_row: MakeRow) -> None:
    policy = JobPolicy(max_deaths=1)
    row = make_row(JobState.QUEUED, attempt=1, policy=policy)
    one, other = (words.started(1, agent=f"agent-{n}", at=NOW - timedelta(seconds=30 - n)) for n in (1, 2))
    ruling = through(row, one, words.cancel(), other)
    assert (ruling.row.state, ruling.row.owner) == (JobState.RUNNING, "agent-2")
    assert ruling.tells == {Tell.CANCEL}


def test_an_agent_that_was_started_again_under_its_name_is_another_life(make_row: MakeRow) -> None:
    row = make_row(JobState.QUEUED, attempt=1)
    lives = [words.started(1, at=NOW - timedelta(seconds=30 - n)) for n in (1, 2)]
    ruling = through(row, *lives)
    assert ruling.row.error is not None
    assert len(ruling.row.error.deaths) == 1


def test_a_clock_that_is_ahead_proves_nothing(make_row: MakeRow) -> None:
    row = make_row(JobState.QUEUED, attempt=1)
    ahead = [words.started(1, at=NOW + timedelta(seconds=n)) for n in (1, 2)]
    ruling = through(row, *ahead)
    assert ruling.row.state is JobState.RUNNING
    assert ruling.row.error is None
