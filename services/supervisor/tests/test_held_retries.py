"""Point 11 of supervision: what a breaker holds back waits for its probes, keeps the delay that its handler
has asked for, and counts against no limit."""

from dataclasses import replace
from datetime import datetime, timedelta

from services.supervisor.tests.event_factory import JOB, NOW, failed, make, overdue, snoozed

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.policy import JobPolicy
from warrener_contracts.states import JobState
from warrener_store.breaker_gate import RECHECK_INTERVAL, OpenBreakers
from warrener_store.memory import MemoryStore
from warrener_store.port import Save
from warrener_store.rows import AttemptEnd, AttemptRow, JobRow
from warrener_supervisor import status_consumer
from warrener_supervisor.breakers import state_machine
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Timings
from warrener_supervisor.decisions.judge import JudgedEvent, judge

OPEN = state_machine.open_breaker(None, "dependency:billing-api", BreakerPolicy(), "too much fails", NOW)
HALF_OPEN = replace(OPEN, state=BreakerState.HALF_OPEN)
POLICY = JobPolicy(depends_on=("billing-api",), max_attempts=2, max_snoozes=2)


def due_again(row: JobRow, now: datetime) -> JobTransition:
    decision = judge(
        row, overdue(row.attempt), JudgeContext(now, Timings(), holding=OpenBreakers([HALF_OPEN]))
    )
    assert isinstance(decision, JobTransition)
    return decision


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
    failure = failed(retry_after_seconds=120)
    decision = judge(
        make(JobState.RUNNING, policy=POLICY),
        failure,
        JudgeContext(NOW, Timings(), holding=OpenBreakers([OPEN])),
    )
    assert isinstance(decision, JobTransition)
    due = NOW + timedelta(minutes=2)
    assert (decision.row.failures, decision.row.due_at, decision.row.wake_at) == (0, due, due)


async def snoozing_after(*ends: AttemptEnd) -> JobTransition:
    """What is judged of a job that snoozes after its attempts have ended so."""
    store = MemoryStore()
    row = make(JobState.QUEUED, policy=POLICY)
    await store.insert_jobs([row])
    for number, end in enumerate(ends, start=1):
        row = replace(row, version=row.version + 1, attempt=number + 1)
        await store.save_jobs([Save(row, ended(number, end))])
    case = JudgedEvent(snoozed(row.attempt), 0.5)
    counts = await status_consumer.count_snoozes(store, {JOB: row}, {JOB: [case]})
    decision = judge(row, case.event, JudgeContext(NOW, Timings(), snoozes=counts))
    assert isinstance(decision, JobTransition)
    return decision


def ended(number: int, end: AttemptEnd) -> AttemptRow:
    return AttemptRow(
        job_id=JOB,
        attempt=number,
        end=end,
        agent_id="agent-1",
        dispatched_at=NOW,
        started_at=None,
        finished_at=NOW,
        error=None,
        verdict="",
    )


async def test_11_attempts_that_were_held_back_are_no_snoozes() -> None:
    given_back = await snoozing_after(*[AttemptEnd.RELEASED] * 5, AttemptEnd.SNOOZED)
    assert (given_back.verdict, given_back.row.failures) == ("snoozed", 0)
    assert (await snoozing_after(*[AttemptEnd.SNOOZED] * 2)).row.failures == 1
