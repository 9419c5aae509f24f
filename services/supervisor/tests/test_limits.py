"""Slots are free once nothing of their attempts can run, and then the next jobs have them (decision 0036)."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.supervisor.tests import stage
from services.supervisor.tests.stage import NOW, SupervisorHarness
from services.supervisor.tests.test_workflow_holds import continued

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState, queue_breaker
from warrener_contracts.events import ErrorInfo, ErrorKind, Event
from warrener_contracts.policy import Backoff, JobPolicy, OnFailure
from warrener_contracts.retryability import UNKNOWN_JOB_TYPE
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import RECHECK_INTERVAL, BreakerRow
from warrener_store.gates.rows import SLOT_RECHECK, GateWaiter, encode_gates, slot_claim
from warrener_store.jobs.rows import JobRow, Save, evolve

LIMIT_OF_ONE = encode_gates([("job/flights.load", 1)])
PAUSE = BreakerRow(
    name=queue_breaker("default"),
    state=BreakerState.OPEN,
    since=NOW,
    manual=True,
    reason="pause",
    policy=BreakerPolicy(),
)
NEXT, LAST = (UUID(int=stage.JOB.int + number) for number in (1, 2))


def in_line(job_id: UUID, **changes: Any) -> JobRow:
    """A job that waits for the slot."""
    waits: dict[str, Any] = {"gates": LIMIT_OF_ONE, "due_at": NOW, "wake_at": NOW + SLOT_RECHECK}
    return stage.make(JobState.WAITING, job_id=job_id, **(waits | changes))


@asynccontextmanager
async def limited(
    *line: JobRow, breaker: BreakerRow | None = None, **changes: Any
) -> AsyncGenerator[SupervisorHarness]:
    """A job that runs and has the only slot; one that waits for it, unless there is another line."""
    row, line = stage.running_row(gates=LIMIT_OF_ONE, **changes), line or (in_line(NEXT),)
    async with stage.opened(row, *line) as harness:
        if breaker is not None:
            await harness.store.put_breaker(breaker)
        await harness.store.take_slots([slot_claim(row, NOW)], NOW - timedelta(minutes=1))
        await harness.store.wait_for_slots([slot_claim(each, NOW) for each in line], NOW)
        yield harness


async def state_of(harness: SupervisorHarness, job_id: UUID = NEXT) -> JobState:
    return (await harness.row(job_id)).state


@pytest.mark.parametrize(
    "report",
    [
        stage.failed(at=stage.STARTED - timedelta(minutes=1)),
        stage.stopped(started_at=stage.STARTED - timedelta(minutes=1)),
        stage.released(),
    ],
    ids=["failed", "stopped", "given back"],
)
async def test_an_agent_that_comes_back_frees_no_slot_of_an_attempt_that_another_one_has(
    report: Event[Any],
) -> None:
    """agent-1 was stopped for so long that the broker gave its message to agent-2."""
    async with limited(agent_id="agent-2") as harness:
        await harness.publish(report)
        assert (await state_of(harness, stage.JOB), await state_of(harness)) == (
            JobState.RUNNING,
            JobState.WAITING,
        )
        await harness.publish(stage.failed(agent="agent-2"))
        assert await state_of(harness) is JobState.QUEUED


async def test_an_agent_that_finds_an_attempt_lost_leaves_its_slot_to_the_retry() -> None:
    lost = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="its agent was cut off")
    async with limited() as harness:
        await harness.publish(stage.failed(error=lost, agent="agent-2", at=NOW), then=2)
        row = await harness.row()
        assert (row.state, row.attempt) == (JobState.QUEUED, 2)
        assert await state_of(harness) is JobState.WAITING


async def test_a_report_of_an_attempt_that_was_never_made_frees_no_slot() -> None:
    async with limited() as harness:
        await harness.publish(stage.released(7))
        assert await harness.store.parked()
        assert await state_of(harness) is JobState.WAITING


async def test_an_agent_that_does_not_know_the_job_type_ends_no_attempt_that_runs_elsewhere() -> None:
    """agent-2 gets a second copy of the dispatch."""
    unknown = ErrorInfo(kind=ErrorKind.ERROR, type=UNKNOWN_JOB_TYPE, message="of another release")
    async with limited() as harness:
        await harness.publish(stage.failed(error=unknown, agent="agent-2", at=NOW))
        row = await harness.row()
        assert (row.state, row.attempt, row.agent_id) == (JobState.RUNNING, 1, "agent-1")
        assert await state_of(harness) is JobState.WAITING


async def test_a_workflow_that_is_held_in_its_first_turn_keeps_its_slot_and_resumes_with_it() -> None:
    async with limited(policy=JobPolicy(max_attempts=1, on_failure=OnFailure.HOLD)) as harness:
        await harness.publish(stage.failed())
        assert (await harness.row()).is_held
        await harness.clock.advance(60)
        assert await state_of(harness) is JobState.WAITING
        await harness.publish(continued("resume"))
        row = await harness.row()
        assert (row.state, row.attempt) == (JobState.QUEUED, 2)
        assert await state_of(harness) is JobState.WAITING
        await harness.publish(stage.succeeded(2))
        assert await state_of(harness) is JobState.QUEUED


async def test_an_expired_job_has_its_slot_for_as_long_as_its_agent_lists_it() -> None:
    async with limited(deadline_at=NOW) as harness:
        for number in range(30):
            await harness.publish(stage.heartbeat((stage.JOB, 1), number=number), then=2)
        assert (await state_of(harness, stage.JOB), await state_of(harness)) == (
            JobState.EXPIRED,
            JobState.WAITING,
        )
        for number in range(30, 34):
            await harness.publish(stage.heartbeat(number=number), then=2)
        assert await state_of(harness) is JobState.QUEUED


async def test_the_slot_of_a_lost_attempt_is_free_a_lease_later_if_its_retry_comes_later() -> None:
    patient = JobPolicy(max_lost_attempts=9, max_attempts=9, backoff=Backoff.fixed(120, jitter=0))
    async with limited(losses=2, policy=patient) as harness:
        await harness.publish(stage.lost(), then=10)
        assert (await state_of(harness, stage.JOB), await state_of(harness)) == (
            JobState.RETRYING,
            JobState.WAITING,
        )
        await harness.clock.advance(15)
        assert await state_of(harness) is JobState.QUEUED


async def test_the_slot_of_a_lost_attempt_is_free_a_lease_later_if_its_queue_is_paused() -> None:
    async with limited(in_line(NEXT, queue="other"), breaker=PAUSE) as harness:
        await harness.publish(stage.lost(), then=10)
        assert (await state_of(harness, stage.JOB), await state_of(harness)) == (
            JobState.RETRYING,
            JobState.WAITING,
        )
        await harness.clock.advance(20)
        assert (await state_of(harness, stage.JOB), await state_of(harness)) == (
            JobState.RETRYING,
            JobState.QUEUED,
        )


async def put_off(harness: SupervisorHarness) -> None:
    """As by a scheduler, which has found no slot for the job a moment before."""
    row = await harness.row(NEXT)
    await harness.store.save_jobs([Save(replace(row, version=row.version + 1, updated_at=NOW))])


async def cancel(harness: SupervisorHarness) -> None:
    row = await harness.row(NEXT)
    over: dict[str, Any] = {"due_at": None, "wake_at": None, "finished_at": NOW}
    await harness.store.save_jobs(
        [Save(evolve(row, version=row.version + 1, state=JobState.CANCELLED, **over))]
    )


@pytest.mark.parametrize(("change", "begins"), [(put_off, NEXT), (cancel, LAST)])
async def test_a_job_that_is_changed_while_it_gets_its_slot_begins_or_gives_it_to_the_next(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[SupervisorHarness], Awaitable[None]], begins: UUID
) -> None:
    async with limited(in_line(NEXT), in_line(LAST, due_at=NOW + timedelta(seconds=1))) as harness:
        take_slots = harness.store.take_slots

        async def take_and_wait(*given: Any, **named: Any) -> set[UUID]:
            granted = await take_slots(*given, **named)
            monkeypatch.undo()
            await change(harness)
            return granted

        monkeypatch.setattr(harness.store, "take_slots", take_and_wait)
        await harness.publish(stage.succeeded())
        assert await state_of(harness, begins) is JobState.QUEUED
        (slot,) = await harness.store.slots_of("job/flights.load", 9)
        assert slot.job_id == begins
        assert begins in {event.data.job_id for event in harness.dispatched()}


async def test_the_next_of_a_line_begins_at_once_though_thousands_before_it_were_cancelled() -> None:
    over: dict[str, Any] = {"state": JobState.CANCELLED, "due_at": None, "finished_at": NOW}
    cancelled = [
        in_line(UUID(int=number), due_at=NOW - timedelta(seconds=number)) for number in range(1, 4001)
    ]
    async with limited(in_line(NEXT), *cancelled) as harness:
        for start in range(0, len(cancelled), 500):
            rows = [
                evolve(row, version=row.version + 1, wake_at=None, **over)
                for row in cancelled[start : start + 500]
            ]
            await harness.store.save_jobs([Save(row) for row in rows])
        await harness.publish(stage.succeeded())
        assert await state_of(harness) is JobState.QUEUED


async def test_a_job_whose_queue_is_paused_lets_the_jobs_behind_it_pass_until_it_resumes() -> None:
    async with limited(in_line(NEXT), in_line(LAST, queue="other"), breaker=PAUSE) as harness:
        await harness.publish(stage.succeeded())
        assert (await state_of(harness), await state_of(harness, LAST)) == (JobState.WAITING, JobState.QUEUED)
        assert await harness.store.waiter_of(NEXT) is None
        assert (await harness.row(NEXT)).wake_at == NOW + RECHECK_INTERVAL, "or once the queue resumes"


async def test_a_job_is_found_in_its_line_after_an_earlier_wait_by_a_clock_that_was_ahead() -> None:
    async with limited() as harness:
        ahead = GateWaiter(NEXT, "job/flights.load", NOW + timedelta(seconds=2))
        await harness.store.add_waiters([ahead])
        await harness.publish(stage.succeeded())
        assert await state_of(harness) is JobState.QUEUED
