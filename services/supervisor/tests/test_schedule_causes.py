"""What the alarm about a schedule says of its cause, as far as that is known."""

from dataclasses import replace
from datetime import timedelta

import pytest
from services.supervisor.tests.test_schedule_health import at

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.events import ErrorInfo, ErrorKind, TickStatus
from warrener_contracts.policy import JobPolicy
from warrener_contracts.states import JobState
from warrener_runtime.bus.port import QueueStats
from warrener_store.breaker_gate import NO_OPEN_BREAKERS, OpenBreakers
from warrener_store.rows import BreakerRow, JobRow
from warrener_store.schedules.rows import TickRow
from warrener_store.testing import running_job
from warrener_supervisor.decisions.schedule_health import explain_missing_success, explain_missing_tick

FIRED = TickRow(
    schedule="hourly",
    nominal_at=at(0),
    fate=TickStatus.FIRED,
    due_at=at(0),
    decided_at=at(0),
    fired_at=at(0),
)
OPEN = BreakerRow(
    name="dependency:billing-api",
    state=BreakerState.OPEN,
    by_hand=True,
    since=at(0),
    until=at(600),
    opened=1,
    succeeded=0,
    reason="being upgraded",
    job_types=("flights.load",),
    policy=BreakerPolicy(),
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
