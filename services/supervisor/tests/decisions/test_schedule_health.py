"""What is wrong with schedules (points 2 and 6), decided from what the store says of them."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from services.supervisor.tests.event_factory import NOW
from tests.store_rows import breaker_row, running_job, tick_row

from warrener_contracts.events import ErrorInfo, ErrorKind, SchedulePutData, TickStatus
from warrener_contracts.policy import JobPolicy
from warrener_contracts.schedule_rules import CronRule, ScheduleChoices
from warrener_contracts.state_machine import JobState
from warrener_contracts.triggers import EventRule
from warrener_runtime.bus.types import QueueStats
from warrener_store.breakers.gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.jobs.rows import JobRow
from warrener_store.schedules.rows import RunRow, ScheduleRow, WatchedSchedule, WatchRow
from warrener_store.schedules.rules import is_over, overdue_since
from warrener_supervisor.decisions.schedule_health import (
    MANY,
    explain_missing_success,
    explain_missing_tick,
    failing_issue,
    history_of,
    merge_if_many,
    overdue_issues,
    unsuccessful_issue,
)

HOUR = timedelta(hours=1)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def schedule(name: str = "hourly", due: float | None = 0, **choices: Any) -> ScheduleRow:
    definition = SchedulePutData(
        name=name,
        rule=CronRule(expression="@hourly"),
        job_type="flights.load",
        choices=ScheduleChoices.model_validate(choices),
    )
    next_at = None if due is None else at(due)
    return ScheduleRow(
        definition=definition, put_at=NOW - HOUR, zone_version="x", next_at=next_at, wake_at=next_at
    )


@pytest.mark.parametrize(
    ("choices", "seconds", "late"),
    [
        ({}, 29, False),
        ({}, 31, True),
        ({"grace": 60}, 79, False),
        ({"grace": 60}, 81, True),
        ({"overdue_after": 2}, 3, True),
        ({"overdue_after": "1h"}, 3599, False),
    ],
)
def test_6_a_schedule_is_overdue_when_its_grace_and_some_slack_are_over(
    *, choices: dict[str, Any], seconds: float, late: bool
) -> None:
    assert (overdue_since(schedule(**choices), at(seconds)) is not None) is late


def test_6_a_schedule_is_over_when_nothing_of_it_is_to_come() -> None:
    event = EventRule(key="landed")

    def waits_for_events(**choices: Any) -> ScheduleRow:
        row = schedule(due=None, **choices)
        return replace(row, runs=3, definition=row.definition.model_copy(update={"rule": event}))

    assert is_over(schedule(due=None), NOW)
    assert not is_over(replace(schedule(due=None), waiting=1), NOW)
    assert not is_over(waits_for_events(max_runs=4), NOW)
    assert is_over(waits_for_events(max_runs=3), NOW)
    assert is_over(waits_for_events(end=at(-1)), NOW)
    assert not is_over(schedule(), NOW)


def test_6_neither_a_schedule_that_is_over_nor_a_paused_one_is_overdue() -> None:
    assert overdue_since(schedule(due=None), at(9999)) is None
    assert overdue_since(replace(schedule(), paused=True), at(9999)) is None
    put_off = replace(schedule(), wake_at=at(9999))
    assert overdue_since(put_off, at(60)) is not None, "its tick is due, whenever it is looked at"
    late_by_jitter = replace(schedule(jitter=100), wake_at=at(100))
    assert overdue_since(late_by_jitter, at(129)) is None
    assert overdue_since(late_by_jitter, at(131)) is not None


def test_6_many_overdue_schedules_are_one_trouble() -> None:
    few = overdue_issues([schedule(f"s{n}") for n in range(MANY)], at(60))
    assert [trouble.schedule for trouble in merge_if_many(few)] == sorted(f"s{n}" for n in range(MANY))
    many = overdue_issues([schedule(f"s{n}", n / 100) for n in range(MANY + 1)], at(60))
    (one,) = merge_if_many(many)
    assert one.fingerprint == "schedule.overdue"
    assert one.text.startswith("21 schedules have not ticked, s0, s1, s2, s3, s4 among them")


def watched(*states: JobState | None, paused: bool = False, **fields: Any) -> WatchedSchedule:
    """The newest last, one a minute."""
    runs = [
        RunRow(
            nominal_at=at(60 * place),
            decided_at=at(60 * place),
            fired_at=at(60 * place),
            state=state,
            finished_at=at(60 * place + 5) if state is not None and state.terminal else None,
        )
        for place, state in enumerate(states)
    ]
    row: dict[str, Any] = {"name": "hourly", "since": at(-1), "check_at": NOW} | fields
    return WatchedSchedule(WatchRow(**row), paused, tuple(reversed(runs)))


DEAD, DONE, RUNS, GONE, LATE = (
    JobState.DEAD,
    JobState.SUCCEEDED,
    JobState.RUNNING,
    JobState.CANCELLED,
    JobState.EXPIRED,
)


@pytest.mark.parametrize(
    ("states", "failures"),
    [
        ((), 0),
        ((DEAD, DEAD, DEAD), 3),
        ((DEAD, DONE, DEAD, LATE), 2),
        ((DEAD, DEAD, DONE), 0),
        ((DEAD, RUNS, DEAD, GONE, RUNS), 2),
        ((DEAD, None), 2),
    ],
)
def test_2_failures_are_counted_back_to_the_last_success(
    states: tuple[JobState | None, ...], failures: int
) -> None:
    standing = history_of(watched(*states, pause_after=3), at(3600))
    assert standing.failures == failures
    assert (failing_issue(standing) is not None) is (failures >= 3)


def test_2_a_job_that_is_not_there_yet_has_not_failed() -> None:
    assert history_of(watched(None, pause_after=1), at(59)).failures == 0
    assert history_of(watched(None, pause_after=1), at(61)).failures == 1


def test_2_what_failed_before_it_was_resumed_does_not_count() -> None:
    standing = history_of(watched(DEAD, DEAD, DEAD, pause_after=2, since=at(90)), at(3600))
    assert standing.failures == 1


def test_2_the_reason_names_how_many_have_failed() -> None:
    trouble = failing_issue(history_of(watched(DEAD, DEAD, pause_after=2), at(3600)))
    assert trouble is not None
    assert trouble.why == "its last 2 jobs have failed"
    assert failing_issue(history_of(watched(DEAD, DEAD, paused=True, pause_after=2), at(3600))) is None


def test_6_no_success_within_the_time_that_was_chosen() -> None:
    row: dict[str, Any] = {"success_within": HOUR}
    assert unsuccessful_issue(history_of(watched(DEAD, **row), at(3500)), at(3500)) is None
    late = unsuccessful_issue(history_of(watched(DEAD, **row), at(3601)), at(3601))
    assert late is not None
    assert "one was expected within 1:00:00" in late.text
    assert unsuccessful_issue(history_of(watched(DEAD, paused=True, **row), at(3601)), at(3601)) is None
    fine = history_of(watched(DONE, DEAD, **row), at(3601))
    assert fine.row.last_success_at == at(5)
    assert unsuccessful_issue(fine, at(3601)) is None, "the hour counts from when it has succeeded"
    assert unsuccessful_issue(fine, at(3606)) is not None


FIRED = tick_row("hourly", at(0), TickStatus.FIRED, fired_at=at(0))
OPEN = breaker_row(
    "dependency:billing-api",
    manual=True,
    since=at(0),
    until=at(600),
    times_opened=1,
    reason="being upgraded",
    job_types=("flights.load",),
)
BOOM = ErrorInfo(kind=ErrorKind.ERROR, type="Boom", message="no such file")


@pytest.mark.parametrize(
    ("requests", "cause"),
    [
        (None, "the broker does not answer"),
        (QueueStats(0, 0), "no scheduler consumes requests"),
        (QueueStats(5000, 2), "5000 requests wait for 2 schedulers"),
        (QueueStats(3, 2), "schedulers are there (2)"),
    ],
)
def test_why_a_tick_is_not_decided(requests: QueueStats | None, cause: str) -> None:
    assert explain_missing_tick(requests).startswith(cause)


def job(state: JobState, error: ErrorInfo | None = None) -> JobRow:
    """A job of the schedule, of queue `default`, behind the breaker of billing-api."""
    return replace(running_job(), state=state, error=error, policy=JobPolicy(depends_on=("billing-api",)))


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        (job(JobState.DEAD, BOOM), "its last job is dead: no such file"),
        (job(JobState.EXPIRED), "its last job is expired"),
        (job(JobState.RUNNING), "its last job is running"),
        (job(JobState.RETRYING, BOOM), "its last job is tried again: no such file"),
        (job(JobState.QUEUED), "its last job waits in queue default"),
        (job(JobState.SUCCEEDED), None),
        (None, "the request of its last tick was rejected: see `warrener parked`"),
    ],
)
def test_why_no_job_succeeds(row: JobRow | None, cause: str | None) -> None:
    assert explain_missing_success(FIRED, row, {"default"}, NO_OPEN_BREAKERS, at(120)) == cause


def test_why_no_job_begins() -> None:
    queued = job(JobState.QUEUED)
    nobody = explain_missing_success(FIRED, queued, {"other"}, NO_OPEN_BREAKERS, at(120))
    assert nobody == "no agent serves queue default, where its last job waits"
    held = explain_missing_success(FIRED, queued, {"default"}, OpenBreakers([OPEN]), at(120))
    assert held == "its last job is held back: dependency:billing-api is open"


def test_why_there_is_no_job() -> None:
    assert (
        explain_missing_success(None, None, (), NO_OPEN_BREAKERS, at(0))
        == "none of its newest ticks has requested a job"
    )
    unconfirmed = explain_missing_success(replace(FIRED, fired_at=None), None, (), NO_OPEN_BREAKERS, at(0))
    assert unconfirmed == "the broker has not confirmed the request of its last tick"
    just_now = at(0) + timedelta(seconds=5)
    assert explain_missing_success(FIRED, None, (), NO_OPEN_BREAKERS, just_now) is None
