"""The short way says of every job what the judge says of it."""

import pytest
from services.supervisor.tests.event_factory import NOW, make, succeeded

from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store.jobs.views import Success
from warrener_store.memory import MemoryStore
from warrener_supervisor.decisions.context import JobTransition, JudgeContext, Notification, Timings
from warrener_supervisor.decisions.judge import judge


@pytest.mark.parametrize("state", JobState)
@pytest.mark.parametrize("attempt", [1, 2, 3])
@pytest.mark.parametrize("cancelled", [None, "no more use"])
async def test_it_ends_a_job_exactly_where_the_judge_does_and_as_he_does(
    state: JobState, attempt: int, cancelled: str | None
) -> None:
    over = NOW if state in TERMINAL else None
    now_at = 0 if state is JobState.WAITING else 2
    owner = {"agent_id": "a7"} if state is JobState.RUNNING else {}  # another one than reports it
    row = make(state, attempt=now_at, cancel_reason=cancelled, finished_at=over, **owner)
    event = succeeded(attempt, {"rows": 3})
    store = MemoryStore()
    await store.insert_jobs([row])
    data = event.data
    success = Success(row.job_id, attempt, data.agent_id, data.result, data.started_at, data.finished_at)
    ended = await store.succeed_jobs([success], NOW)
    decision = judge(row, event, JudgeContext(NOW, Timings()))
    saved = (await store.jobs_by_id([row.job_id]))[row.job_id]
    if (
        isinstance(decision, JobTransition) and attempt == row.attempt
    ):  # an earlier one's is left to the judge
        assert saved == decision.row
        assert await store.attempts_of([row.job_id]) == [decision.attempt]
        assert decision.notifications == {Notification.FINISHED}
        assert ended.keys() == {row.job_id}
    else:
        assert (saved, ended) == (row, {})
