"""The facts of a job's waterfall, read from the store."""

from datetime import timedelta, tzinfo

from warrener.operations.masking import mask_attempt, mask_job
from warrener.operations.noun import Backend
from warrener.render.waterfall import MAX_CHILD_JOBS, WaterfallFacts
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobFilter, JobRow, evolve

_EXAMINED_RUNS = 20


async def read_timeline(backend: Backend, row: JobRow, zone: tzinfo | None) -> WaterfallFacts:
    """Read the facts of a job's waterfall; without a zone its times are local."""
    store, masker = backend.store, (await backend.learn()).of(row.job_type)
    turns = (await store.turns_of([row.job_id])).get(row.job_id, []) if row.suspensions else []
    agents = await store.agents() if row.state is JobState.RUNNING else []
    children = await store.list_jobs(JobFilter(parent_id=row.job_id, limit=MAX_CHILD_JOBS + 1))
    return WaterfallFacts(
        row=mask_job(masker, row),
        attempts=[mask_attempt(masker, one) for one in await store.attempts_of([row.job_id])],
        child_jobs=await _with_starts(backend, children),
        checkpoint=(await store.checkpoints_of([row.job_id])).get(row.job_id),
        last_heartbeat={agent.agent_id: agent.last_seen_at for agent in agents}.get(row.agent_id or ""),
        now=await backend.now(),
        turns=turns,
        expected=None if row.state.terminal else await _usual_duration(backend, row),
        zone=zone,
    )


async def _with_starts(backend: Backend, rows: list[JobRow]) -> list[JobRow]:
    """Give jobs that are over the start of their last attempt, which their rows lack."""
    ended = [row.job_id for row in rows if row.started_at is None and row.state.terminal]
    started = {one.job_id: one.started_at for one in await backend.store.attempts_of(ended)}
    return [evolve(row, started_at=row.started_at or started.get(row.job_id)) for row in rows]


async def _usual_duration(backend: Backend, row: JobRow) -> timedelta | None:
    """The median duration of the newest successes of the job's type."""
    which = JobFilter(states=(JobState.SUCCEEDED,), job_type=row.job_type, limit=_EXAMINED_RUNS)
    rows = await backend.store.list_jobs(which)
    attempts = await backend.store.attempts_of([each.job_id for each in rows])
    ran = sorted(one.finished_at - one.started_at for one in attempts if one.started_at)
    return max(ran[len(ran) // 2], timedelta(0)) if ran else None
